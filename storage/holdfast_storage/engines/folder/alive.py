"""Tell other processes that this one lives: a file it keeps locked until it ends, however it ends."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast_storage.core.errors import UnsafeFile
from holdfast_storage.engines.folder.disk import READ
from holdfast_storage.engines.folder.files import (
    make_folder,
    new_file,
    open_file,
    opened_folder,
    remove_abandoned,
)
from holdfast_storage.engines.folder.names import ALIVE, is_process, temporary_name

if TYPE_CHECKING:
    from holdfast_storage.engines.folder.disk import Disk

# So many files of dead processes are tidied up at once, at most.
_SWEPT = 100


class Alive:
    """The sign of life of one process in one workspace."""

    def __init__(self, disk: Disk, process: str, abandoned_seconds: float) -> None:
        self._disk, self._process = disk, process
        self._abandoned_seconds = abandoned_seconds
        self._fd = -1

    def begin(self, root: int) -> None:
        """Show that this process lives."""
        make_folder(self._disk, ALIVE, at=root)
        with opened_folder(self._disk, ALIVE, at=root) as folder:
            if self._fd < 0:
                self._fd = self._begun(folder)
            self._sweep(folder)

    def _begun(self, folder: int) -> int:
        # Locked before it has its name: nobody ever finds it unlocked while we live.
        temporary = temporary_name(self._process)
        fd = new_file(self._disk, temporary, at=folder)
        try:
            self._disk.lock(fd)
            self._disk.rename(temporary, self._process, at=folder)
        except BaseException:
            self._disk.close(fd)
            with suppress(OSError):
                self._disk.unlink(temporary, at=folder)
            raise
        return fd

    def _sweep(self, folder: int) -> None:
        remove_abandoned(self._disk, folder, self._abandoned_seconds)
        others = [name for name in self._disk.listdir(folder) if is_process(name)]
        for name in others[:_SWEPT]:
            if name != self._process and not self._is_held(name, folder):
                with suppress(FileNotFoundError):
                    self._disk.unlink(name, at=folder)

    def is_alive(self, process: str, root: int | None) -> bool:
        """Say whether that process has not ended yet."""
        if process == self._process:
            return True
        if root is None or not is_process(process):
            return False
        try:
            with opened_folder(self._disk, ALIVE, at=root) as folder:
                return self._is_held(process, folder)
        except FileNotFoundError:
            return False

    def _is_held(self, name: str, folder: int) -> bool:
        try:
            fd = open_file(self._disk, name, READ, at=folder)
        except (FileNotFoundError, UnsafeFile):
            return False
        try:
            # Shared, so that two who ask at once do not take each other for the process.
            return not self._disk.lock(fd, shared=True)
        finally:
            self._disk.close(fd)

    def leave_behind(self) -> None:
        """Let go of a sign whose workspace was moved or deleted; the next write makes another."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def close(self, root: int) -> None:
        """Take the sign away."""
        if self._fd < 0:
            return
        with suppress(OSError), opened_folder(self._disk, ALIVE, at=root) as folder:
            self._disk.unlink(self._process, at=folder)
        self._disk.close(self._fd)
        self._fd = -1
