"""Notice that something changed in a workspace: a hint to look, never the truth."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast_storage.engines.folder.names import TASKS, VIEW, segment_number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import watchfiles

# An edit is announced after 68 ms with these, after 105 ms with the defaults.
_STEP_MS = 10
_DEBOUNCE_MS = 50
_POLL_MS = 300
_LOOK_AGAIN_SECONDS = 0.5


async def changes(
    root: Path, task_of: Callable[[str], str | None], stop: asyncio.Event
) -> AsyncIterator[set[str]]:
    """Give sets of tasks in which something may have changed, until `stop` is set.

    `task_of` finds the task of a folder; it may look at the disk, so it runs in a thread.
    """
    if not await asyncio.to_thread(root.is_dir):
        while not stop.is_set() and not await asyncio.to_thread(root.is_dir):
            await _either(stop, _LOOK_AGAIN_SECONDS)
        # What was written until now was written unwatched.
        if announced := await asyncio.to_thread(lambda: _tasks_of(_folders(root), task_of)):
            yield announced
    force_polling = False
    while not stop.is_set():
        try:
            async for found in _watched(root, stop, force_polling):
                folders = {name for _, path in found if (name := _folder_of(root, path))}
                if announced := await asyncio.to_thread(_tasks_of, folders, task_of):
                    yield announced
        except (OSError, RuntimeError):
            # No more watches to be had, or a disk that does not tell: look at it instead.
            if force_polling:
                await _either(stop, _LOOK_AGAIN_SECONDS)
            force_polling = True


def _folders(root: Path) -> set[str]:
    try:
        return {folder.name for folder in (root / TASKS).iterdir()}
    except FileNotFoundError:
        return set()


def _tasks_of(folders: set[str], task_of: Callable[[str], str | None]) -> set[str]:
    return {task for folder in folders if (task := task_of(folder)) is not None}


def _watched(
    root: Path, stop: asyncio.Event, force_polling: bool
) -> AsyncIterator[set[tuple[watchfiles.Change, str]]]:
    # Most who open a workspace never watch it, and this takes a while to import.
    import watchfiles

    # pyright takes the type of trio's Event, which is not installed, for unknown.
    return watchfiles.awatch(  # pyright: ignore[reportUnknownMemberType]
        root,
        watch_filter=lambda _, path: _folder_of(root, path) is not None,
        step=_STEP_MS,
        debounce=_DEBOUNCE_MS,
        stop_event=stop,
        # How long its thread may keep the process from ending.
        rust_timeout=1000,
        force_polling=force_polling,
        poll_delay_ms=_POLL_MS,
        ignore_permission_denied=True,
    )


async def _either(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


def _folder_of(root: Path, path: str) -> str | None:
    """Give the folder of the task to which a file belongs that says something about it."""
    try:
        parts = Path(path).relative_to(root).parts
    except ValueError:
        return None
    if len(parts) < 3 or parts[0] != TASKS:
        return None
    is_view = parts[2:] == (VIEW,)
    is_kept = parts[2] in ("conflicts", "checkpoints") and not parts[-1].startswith(".")
    is_journal = parts[2] == "journal" and segment_number(parts[-1]) is not None
    return parts[1] if is_view or is_journal or is_kept else None
