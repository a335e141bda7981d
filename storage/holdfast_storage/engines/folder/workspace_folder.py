"""The folder around the tasks: made whole on the first write, and not before."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import NewerFormat, Unreadable
from holdfast_storage.engines.folder import names
from holdfast_storage.engines.folder.alive import Alive
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.files import (
    make_folder,
    open_folder,
    opened_folder,
    read_file,
    reading,
    remove_abandoned,
    write_new_file,
)
from holdfast_storage.engines.folder.found import Stamp, stamp_of
from holdfast_storage.engines.folder.limits import ABANDONED_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1
# A file that is changed again so soon may have the same times as before: the clock of files moves on
# every 10 ms at the latest, or every two seconds where their times are whole ones.
_SOON_NS, _SOON_IN_SECONDS_NS = 2 * 10**7, 2 * 10**9

# What a workspace will be called that nobody has written to yet; the same for all who opened it here.
_pending_ids: dict[Path, str] = {}


def _pending_id(disk: Disk, root: Path) -> str:
    return _pending_ids.setdefault(root, disk.random_hex())


class WorkspaceFolder:
    """The workspace's own files, and the descriptors from which all others are reached."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        *,
        schema: bytes = b"",
        readme: str = "",
        settings: Mapping[str, Any] | None = None,
        abandoned_seconds: float = ABANDONED_SECONDS,
    ) -> None:
        self._disk, self.root = disk, root
        self._schema, self._readme, self._settings = schema, readme, dict(settings or {})
        self._mutex, self._making = Lock(), Lock()
        self._root = self._tasks = -1
        # A task was last opened in less time than the event loop can be held up for.
        self.opens_quickly = False
        # Others may still be using these, so they are closed at the end.
        self._outdated: list[int] = []
        self.is_prepared = self._was_prepared = False
        self.process = disk.random_hex()
        self.alive = Alive(disk, self.process, abandoned_seconds)
        self._abandoned_seconds = abandoned_seconds
        self._settings_read: tuple[Stamp, dict[str, Any]] | None = None
        self.workspace_id = _pending_id(disk, root)
        try:
            self._adopt(self.settings())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of everything."""
        with self._mutex:
            self.alive.close(self._root)
            for fd in {*self._outdated, self._root, self._tasks}:
                if fd >= 0:
                    self._disk.close(fd)
            self._outdated, self._root, self._tasks = [], -1, -1

    # --- what is there ------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Give what holdfast.json says; nothing if it is not there."""
        with reading(names.SETTINGS):
            root = self.root_folder()
            if root is None:
                return {}
            try:
                stamp = stamp_of(self._disk.stat(names.SETTINGS, at=root))
                raw = read_file(self._disk, names.SETTINGS, at=root)
            except FileNotFoundError:
                return {}
        try:
            found = strict_json.parse_object(raw)
        except Unreadable as error:
            raise Unreadable(error.problem, error.line, error.column, names.SETTINGS) from error
        soon = _SOON_NS if stamp[2] % 10**9 else _SOON_IN_SECONDS_NS
        is_at_rest = self._disk.now_ns() - max(stamp[2:]) > soon
        self._settings_read = (stamp, found) if is_at_rest else None
        return found

    def settings_if_unchanged(self) -> dict[str, Any] | None:
        """Give what holdfast.json said, the very same object, if one look tells that it still does."""
        known, root = self._settings_read, self.root_folder()
        if known is None or root is None:
            return None
        with suppress(OSError):
            if stamp_of(self._disk.stat(names.SETTINGS, at=root)) == known[0]:
                return known[1]
        return None

    def _adopt(self, found: Mapping[str, Any]) -> None:
        version, workspace = found.get("format", FORMAT), found.get("workspace")
        if type(version) is int and version > FORMAT:
            raise NewerFormat(version, FORMAT)
        if isinstance(workspace, str) and workspace:
            self.workspace_id = workspace

    def root_folder(self) -> int | None:
        """Give a descriptor of the workspace, None if there is none yet."""
        with self._mutex:
            return self._open_root()

    def tasks_folder(self) -> int | None:
        """Give a descriptor of the folder that holds the tasks, None if there is none yet."""
        with self._mutex:
            if self._tasks < 0:
                root = self._open_root()
                if root is None:
                    return None
                with suppress(FileNotFoundError):
                    self._tasks = open_folder(self._disk, names.TASKS, at=root)
            return self._tasks if self._tasks >= 0 else None

    def is_alive(self, process: str) -> bool:
        """Say whether that process has not ended yet; nobody is called dead who cannot be asked."""
        with suppress(OSError):
            return self.alive.is_alive(process, self.root_folder())
        return True

    def _open_root(self) -> int | None:
        if self._root < 0:
            try:
                self._root = open_folder(self._disk, str(self.root), at=None)
            except FileNotFoundError:
                return None
        return self._root

    def look_again(self) -> None:
        """Reach everything anew if somebody moved or replaced the workspace."""
        with self._mutex:
            if self._is(self._root, str(self.root), at=None):
                if not self._is(self._tasks, names.TASKS, at=self._root):
                    self._outdated.append(self._tasks)
                    self._tasks = -1
                return
            self._outdated += [self._root, self._tasks]
            self._root = self._tasks = -1
            self.is_prepared = False
            self.alive.leave_behind()
            # If it was deleted, the next one is another: idempotency keys of the old must not return.
            self.workspace_id = _pending_id(self._disk, self.root)

    def _is(self, fd: int, name: str, *, at: int | None) -> bool:
        try:
            there = self._disk.stat(name, at=at)
        except OSError:
            return False
        return fd >= 0 and there.st_ino == self._disk.fstat(fd).st_ino

    # --- the first write ----------------------------------------------------------------------

    def prepare(self) -> int:
        """See that the workspace is complete; gives the folder that holds the tasks."""
        with self._making:
            if not self.is_prepared or self.tasks_folder() is None:
                self._make()
        tasks = self.tasks_folder()
        if tasks is None:
            raise FileNotFoundError(str(self.root))
        return tasks

    def _make(self) -> None:
        disk = self._disk
        if self._was_prepared:
            # Somebody deleted it; if the project around it is gone too, it was moved, and no second
            # one is to grow where it was.
            make_folder(disk, str(self.root), at=None)
        else:
            self._make_root(self.root)
        root = self.root_folder()
        if root is None:
            raise FileNotFoundError(str(self.root))
        remove_abandoned(disk, root, self._abandoned_seconds)
        self._put(names.IGNORE, b"*\n", root)
        self._put(names.README, self._readme.encode(), root)
        if self._schema:
            make_folder(disk, names.SCHEMA, at=root)
            with opened_folder(disk, names.SCHEMA, at=root) as schema:
                remove_abandoned(disk, schema, self._abandoned_seconds)
                self._put(names.SCHEMA_FILE, self._schema, schema)
        if not make_folder(disk, names.TASKS, at=root):
            with opened_folder(disk, names.TASKS, at=root) as tasks:
                # Copies of whole tasks that were on their way.
                remove_abandoned(disk, tasks, self._abandoned_seconds)
        self._put_settings(root)
        self._adopt(self.settings())
        _pending_ids.pop(self.root, None)
        self.alive.begin(root)
        # Of several processes that race each flushes all of it: whoever made what, it is durable
        # before any of them answers.
        self.flush()
        self.is_prepared = self._was_prepared = True

    def _make_root(self, folder: Path) -> None:
        """Make a folder and those above it, each flushed into the one that holds it."""
        try:
            is_new = make_folder(self._disk, str(folder), at=None)
        except FileNotFoundError:
            self._make_root(folder.parent)
            is_new = make_folder(self._disk, str(folder), at=None)
        if is_new:
            self._flush_path(folder.parent)

    def _put(self, name: str, raw: bytes, at: int) -> None:
        """Write a file unless one is there; people may have changed theirs."""
        if not raw:
            return
        with suppress(FileNotFoundError):
            self._disk.stat(name, at=at)
            return
        temporary = names.temporary_name(self._disk.random_hex())
        write_new_file(self._disk, temporary, raw, at=at)
        try:
            self._disk.rename_new(temporary, name, at=at)
        except FileExistsError:
            # Another process was first: its file counts.
            self._disk.unlink(temporary, at=at)

    def _put_settings(self, root: int) -> None:
        settings = {"format": FORMAT, "workspace": self.workspace_id, **self._settings}
        self._put(names.SETTINGS, strict_json.pretty(settings), root)

    # --- flushing -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Make the names of the tasks' folders, and of all that is around them, survive a power cut."""
        for folder in (self.tasks_folder(), self.root_folder()):
            if folder is not None:
                self._disk.flush(folder)
        self._flush_path(self.root.parent)

    def _flush_path(self, folder: Path) -> None:
        fd = open_folder(self._disk, str(folder), at=None)
        try:
            self._disk.flush(fd)
        finally:
            self._disk.close(fd)
