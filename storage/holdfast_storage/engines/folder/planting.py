"""Make a whole task at once: written beside the others under another name, then renamed into place."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast_storage.core.ids import folder_name
from holdfast_storage.engines.folder import loads, names
from holdfast_storage.engines.folder.disk import APPEND
from holdfast_storage.engines.folder.drafting import Drafting
from holdfast_storage.engines.folder.files import (
    make_folder,
    new_file,
    open_folder,
    remove,
    write_all,
)
from holdfast_storage.engines.folder.kept import Kept
from holdfast_storage.engines.folder.progress import Reached

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast_storage.core.records import Draft
    from holdfast_storage.engines.base import Beside
    from holdfast_storage.engines.folder.disk import Disk
    from holdfast_storage.engines.folder.drafting import Chunk
    from holdfast_storage.engines.folder.limits import Limits
    from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class Planting:
    """A task in the making, under a name that nobody takes for a task's."""

    def __init__(self, disk: Disk, workspace: WorkspaceFolder, task: str, limits: Limits) -> None:
        self._disk, self._workspace, self._limits = disk, workspace, limits
        self._name, self._temporary = folder_name(task), names.temporary_name(disk.random_hex())
        # No boot: these records were not written by this machine at this time.
        self._drafting = Drafting(
            task,
            Reached(),
            boot="",
            booted_in=0,
            segment_bytes=limits.segment_bytes,
            avoid=0,
        )
        self._tasks = workspace.prepare()
        self._folder = self._journal = self._segment = -1

    def begin(self, beside: Beside) -> bool:
        """Make room, and put there what lies beside the journal; False if the name is taken."""
        with suppress(FileNotFoundError):
            self._disk.stat(self._name, at=self._tasks)
            return False
        make_folder(self._disk, self._temporary, at=self._tasks)
        self._folder = open_folder(self._disk, self._temporary, at=self._tasks)
        # Nobody takes it for one that was left behind, however long this takes.
        self._disk.lock(self._folder)
        make_folder(self._disk, names.JOURNAL, at=self._folder)
        self._journal = open_folder(self._disk, names.JOURNAL, at=self._folder)
        for (kind, name), raw in beside.kept.items():
            Kept(self._disk, self._folder).keep(kind, name, raw)
        for line in beside.loads:
            loads.append(self._disk, self._folder, line, self._limits.loads_bytes)
        return True

    def add(self, drafts: Sequence[Draft]) -> None:
        """Write the next records."""
        for draft in drafts:
            self._drafting.add(draft)
        chunks, self._drafting.chunks = self._drafting.chunks, []
        for chunk in chunks:
            self._write(chunk)

    def _write(self, chunk: Chunk) -> None:
        if chunk.is_new:
            self._end_segment()
            name = names.segment_name(chunk.segment)
            self._segment = new_file(self._disk, name, at=self._journal, flags=APPEND)
        write_all(self._disk, self._segment, b"".join(chunk.raw))

    def _end_segment(self) -> None:
        if self._segment >= 0:
            self._disk.flush(self._segment)
            self._disk.close(self._segment)
            self._segment = -1

    def finish(self) -> bool:
        """Give it its name, all of it flushed before; False if the name was taken meanwhile."""
        self._end_segment()
        self._disk.flush(self._journal)
        self._disk.flush(self._folder)
        try:
            # A folder replaces no folder that has anything in it.
            self._disk.rename(self._temporary, self._name, at=self._tasks)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            return False
        self._workspace.flush()
        return True

    def close(self) -> None:
        """Let go of everything; what was not finished goes away."""
        for fd in (self._segment, self._journal, self._folder):
            if fd >= 0:
                self._disk.close(fd)
        with suppress(FileNotFoundError):
            remove(self._disk, self._temporary, at=self._tasks)
