"""Spoil every kind of file of a workspace in every way, and see that nothing worse comes of it.

    python -m tests.torture.hostile_files --all                  # every byte of every kind of file
    python -m tests.torture.hostile_files --count 500 --seed 4711

Whatever lies there: only refusals that say what to do, never "empty", never a done step begun again, no
broken file overwritten, and not a byte changed outside.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import shutil
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.torture import harness, processors
from tests.torture.harness import Row

from holdfast_storage.core import strict_json, view
from holdfast_storage.core.errors import HoldfastError
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.workspace import Workspace

TASK, OTHER = "report", "other"
DONE = ("s1", "s2", "s3", "s4")
PENDING = "s9"
SHORT_COUNT = 250
_EVERY_ONE = 10**9
_BITS = 8


# --- a healthy workspace ----------------------------------------------------------------------


def _opened(root: Path) -> Workspace:
    engine = FolderEngine.open(
        root,
        schema=strict_json.pretty(view.schema()),
        readme="Read me.\n",
        settings={},
        settle_pause_seconds=0.0,
        settled_after_seconds=0.0,
    )
    return Workspace(engine, by="agent")


async def _make(root: Path) -> None:
    async with _opened(root) as workspace:
        for task in (TASK, OTHER):
            ann = workspace.caller("ann")
            await ann.save(task, {"old": 1})
            await ann.finish(task, "abandoned")
            await ann.load(task)
            await ann.save(
                task, {"ceo": "Ann", "pages": [1, 2]}, plan=[*DONE, PENDING], label="one"
            )
            for step in DONE:
                await ann.mark(task, step, result={"of": step})
            await ann.save(task, {"pages": [1, 2, 3]}, milestone=True)
            await ann.ask(task, "Which one?", ["this", "that"])
        bob = workspace.caller("bob")
        await bob.load(TASK)
        await ann.save(TASK, {"ceo": "Ann B."}, revision=(await ann.load(TASK)).revision)
        await bob.save(TASK, {"ceo": "Bob"})  # one of both goes to conflicts/
        await workspace.prune(TASK, keep_last=2, older_than_hours=0)
        await workspace.tasks()


@cache
def template() -> Path:
    """Make a workspace with every kind of file in it, once for each process."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-hostile-", dir=_memory()))
    asyncio.run(_make(folder / "project" / ".holdfast"))
    outside = folder / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b'{"seq":1,"secret":"of somebody else"}\n')
    (outside / "folder").mkdir()
    (outside / "folder" / "state.json").write_bytes(b'{"task":"not yours"}\n')
    return folder


def _memory() -> Path | None:
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None


def files() -> list[str]:
    """Name the files of the first task and those that all tasks share."""
    root = template() / "project" / ".holdfast"
    found = sorted(path for path in root.rglob("*") if path.is_file())
    names = [str(path.relative_to(root)) for path in found]
    return [name for name in names if f"tasks/{OTHER}/" not in name]


# --- what is done to it -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """One file, and how it is spoilt; `at` says where, if that is a question."""

    file: str
    how: str
    at: int = 0

    def __str__(self) -> str:
        return f"{self.how} {self.file} at {self.at}"


def _lines(raw: bytes) -> list[bytes]:
    return raw.splitlines(keepends=True)


def _swapped(raw: bytes, at: int) -> bytes:
    lines = _lines(raw)
    lines[at : at + 2] = reversed(lines[at : at + 2])
    return b"".join(lines)


def _doubled(raw: bytes, at: int) -> bytes:
    lines = _lines(raw)
    return b"".join([*lines[: at + 1], *lines[at:]])


def _dropped(raw: bytes, at: int) -> bytes:
    lines = _lines(raw)
    return b"".join([*lines[:at], *lines[at + 1 :]])


def _conflicting(raw: bytes, at: int) -> bytes:
    lines = _lines(raw)
    ours, theirs = lines[at : at + 1], lines[at + 1 : at + 2]
    marked = [b"<<<<<<< HEAD\n", *ours, b"=======\n", *theirs, b">>>>>>> theirs\n"]
    return b"".join([*lines[:at], *marked, *lines[at + 2 :]])


def _flipped(raw: bytes, at: int) -> bytes:
    byte, bit = divmod(at, _BITS)
    return raw[:byte] + bytes([raw[byte] ^ 1 << bit]) + raw[byte + 1 :]


_BY_BYTES: dict[str, Callable[[bytes, int], bytes]] = {
    "truncate": lambda raw, at: raw[:at],
    "flip": _flipped,
    "zero": lambda raw, at: raw[:at] + b"\x00" * min(512, len(raw) - at) + raw[at + 512 :],
    "swap lines of": _swapped,
    "double a line of": _doubled,
    "drop a line of": _dropped,
    "leave conflict markers in": _conflicting,
    "give CRLF to": lambda raw, at: raw.replace(b"\n", b"\r\n"),
    "write UTF-16 into": lambda raw, at: raw.decode().encode("utf-16"),
    "put a BOM before": lambda raw, at: b"\xef\xbb\xbf" + raw,
    "append garbage to": lambda raw, at: raw + b"\xff\xfe garbage",
    "empty": lambda raw, at: b"",
}


def _positions(how: str, raw: bytes) -> range:
    if how == "truncate":
        return range(len(raw))
    if how == "flip":
        return range(len(raw) * _BITS)
    if how == "zero":
        return range(0, len(raw), 512)
    if "line" in how or "markers" in how:
        return range(len(_lines(raw)))
    return range(1)


def _replace_by_link(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside / "file")


def _replace_by_hard_link(path: Path, outside: Path) -> None:
    path.unlink()
    path.hardlink_to(outside / "file")


def _replace_by_folder(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()


def _replace_by_pipe(path: Path, outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link_folder(path: Path, outside: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.symlink_to(outside / "folder")


def _link_leftover(path: Path, outside: Path) -> None:
    (path.parent / ".hfview.0123456789abcdef").symlink_to(outside / "file")
    (path.parent / ".new.0123456789abcdef").symlink_to(outside / "file")


def _take_anothers(path: Path, outside: Path) -> None:
    parts = [OTHER if part == TASK else part for part in path.parts]
    there = Path(*parts)
    if there == path:
        return
    of_its_kind = sorted(there.parent.glob(f"*{there.suffix}")) if there.suffix else []
    for one in (there, *reversed(of_its_kind)):
        if one.is_file():
            path.chmod(0o600)
            shutil.copyfile(one, path)
            return


_BY_NAME: dict[str, Callable[[Path, Path], None]] = {
    "remove": lambda path, outside: path.unlink(),
    "put a link in the place of": _replace_by_link,
    "put a hard link in the place of": _replace_by_hard_link,
    "put a folder in the place of": _replace_by_folder,
    "put a pipe in the place of": _replace_by_pipe,
    "put a link in the place of the folder of": _link_folder,
    "plant links beside": _link_leftover,
    "put another task's file in the place of": _take_anothers,
}


def all_cases() -> list[Case]:
    """Give every way in which every file can be spoilt."""
    cases: list[Case] = []
    for name in files():
        raw = (template() / "project" / ".holdfast" / name).read_bytes()
        cases += [Case(name, how) for how in _BY_NAME]
        for how in _BY_BYTES:
            cases += [Case(name, how, at) for at in _positions(how, raw)]
    return cases


def sampled(seed: int, count: int) -> list[Case]:
    """Choose so many of them, each file and each way as likely as any other."""
    everything = all_cases()
    if count >= len(everything):
        return everything
    rng = random.Random(seed)
    kinds: dict[tuple[str, str], list[Case]] = {}
    for case in everything:
        kinds.setdefault((case.file, case.how), []).append(case)
    chosen: dict[Case, None] = {}
    while len(chosen) < count:
        chosen[rng.choice(kinds[rng.choice(list(kinds))])] = None
    return list(chosen)


def spoil(root: Path, case: Case, outside: Path) -> None:
    """Do it."""
    path = root / case.file
    if case.how in _BY_NAME:
        _BY_NAME[case.how](path, outside)
        return
    raw = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(_BY_BYTES[case.how](raw, case.at))


# --- what must come of it ---------------------------------------------------------------------


def tried(case: Case) -> list[str]:
    """Spoil a copy, use it as an agent and a person would, and say what was wrong."""
    with _copied() as folder:
        root, outside = folder / "project" / ".holdfast", folder / "outside"
        spoil(root, case, outside)
        journal = _journal(root)
        broken = _broken_view(root)
        before = _tree(folder, root)
        found = asyncio.run(_used(root, case, journal))
        if _tree(folder, root) != before:
            found.append("something outside was changed")
        if broken is not None and _raw(root / "tasks" / TASK / "state.json") != broken:
            found.append("a broken state.json was overwritten")
        return [f"{case}: {each}" for each in found]


@contextmanager
def _copied() -> Generator[Path, None, None]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-hostile-", dir=_memory()))
    try:
        shutil.copytree(template(), folder, dirs_exist_ok=True, symlinks=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _raw(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None


def _journal(root: Path) -> bytes:
    """Give the lines of the journal as the spoiler left them."""
    folder = root / "tasks" / TASK / "journal"
    if folder.is_symlink() or not folder.is_dir():
        return b""
    return b"".join(_raw(path) or b"" for path in sorted(folder.iterdir()))


def _broken_view(root: Path) -> bytes | None:
    """Give the bytes of state.json if nobody can make sense of them: they are not ours to touch."""
    raw = _raw(root / "tasks" / TASK / "state.json")
    try:
        is_broken = raw is not None and not isinstance(json.loads(raw.decode("utf-8-sig")), dict)
    except ValueError:
        is_broken = True
    return raw if is_broken else None


def _tree(folder: Path, root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Look at everything outside the workspace, without following any link."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        if path == root or root in path.parents:
            continue
        about = path.lstat()
        is_file = stat.S_ISREG(about.st_mode)
        time = about.st_mtime_ns if is_file else 0
        found[str(path)] = about.st_mode, time, path.read_bytes() if is_file else b""
    return found


async def _used(root: Path, case: Case, journal: bytes) -> list[str]:
    """Do what agents and people do; every answer must be a good one or a refusal."""
    use = _Use(case, journal)
    for _ in range(2):
        # A second time as well: what the first one left behind must not be worse.
        try:
            async with _opened(root) as workspace:
                await use.everything(workspace)
        except HoldfastError:
            continue
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            use.found.append(traceback.format_exc())
    return use.found


class _Use:
    """Everything that is done with one workspace, and what was wrong about it."""

    def __init__(self, case: Case, journal: bytes) -> None:
        self.found: list[str] = []
        # Whoever cuts off the end of the newest segment takes back what was said there, as a crash
        # in the middle of a write does: such a step may be begun.
        self._kept = {step for step in DONE if b'"step":"%s"' % step.encode() in journal}

    async def everything(self, workspace: Workspace) -> None:
        ann = workspace.caller("ann")
        tasks = await self._get(ann.list_checkpoints())
        if tasks is not None and TASK not in [line.task for line in tasks.tasks]:
            self.found.append(f"the list does not name the task: {tasks.tasks}")
        brief = await self._get(ann.load(TASK))
        if brief is not None and not brief.found:
            self.found.append("an empty answer: the task is told not to exist")
        for show in ("steps", "checkpoints", "events"):
            await self._get(ann.list_checkpoints(TASK, show=show))
        for step in sorted(self._kept):
            begun = await self._get(ann.begin(TASK, step))
            if begun is not None and begun.go:
                self.found.append(f"{step}, which was done, may be begun again: {begun}")
        await self._get(ann.mark(TASK, PENDING, result=1))
        await self._get(ann.save(TASK, {"more": 1}))
        await self._get(ann.load(TASK, checkpoint=2))
        await self._get(workspace.check())
        await self._get(workspace.brief(TASK))

    async def _get(self, call: Any) -> Any:
        try:
            return await call
        except HoldfastError as error:
            if not (error.hint and str(error)):
                self.found.append(f"a refusal that says nothing: {error!r}")
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            self.found.append(traceback.format_exc())
        return None


# --- many of them -----------------------------------------------------------------------------


def many(seed: int, count: int) -> Row:
    """Try so many, on all processors."""
    # That a view was not rendered is said often here, and is as it should be.
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    try:
        cases = sampled(seed, count)
        found = tuple(processors.findings(cases, tried))
    finally:
        shutil.rmtree(template(), ignore_errors=True)
        template.cache_clear()
    return Row("hostile files", len(cases), "spoilt workspaces", seed, found[:20])


def short(seed: int) -> Row:
    """A few seconds of it."""
    return many(seed, SHORT_COUNT)


if __name__ == "__main__":
    said = [f"--count={_EVERY_ONE}" if each == "--all" else each for each in sys.argv[1:]]
    harness.main(short, by_count=many, arguments=said)
