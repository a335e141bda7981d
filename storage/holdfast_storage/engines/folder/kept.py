"""Keep files beside a task: what people must not lose, and renderings of checkpoints."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING

from holdfast_storage.engines.folder import names
from holdfast_storage.engines.folder.disk import READ, Disk
from holdfast_storage.engines.folder.files import (
    make_folder,
    open_file,
    open_folder,
    opened_folder,
    read_fd,
    read_file,
    remove_abandoned,
    replace_file,
    write_new_file,
)

if TYPE_CHECKING:
    from collections.abc import Container, Generator

    from holdfast_storage.engines.base import Kind

# People read these and edit state.json instead.
_CHECKPOINT_MODE = 0o400


class Kept:
    """The files of one task's folder that are neither journal nor view."""

    def __init__(self, disk: Disk, folder: int) -> None:
        self._disk, self._folder = disk, folder

    def keep(self, kind: Kind, name: str, raw: bytes) -> str:
        """Keep bytes durably; answers the name they have, beginning with the folder's."""
        names.check_kept_name(name)
        with self._opened(kind) as folder:
            if kind == "checkpoints":
                replace_file(self._disk, name, raw, at=folder, mode=_CHECKPOINT_MODE)
            else:
                name = self._keep_all(name, raw, folder)
            self._disk.flush(folder)
        # The folder may be new, whoever made it.
        self._disk.flush(self._folder)
        return f"{kind}/{name}"

    def _keep_all(self, name: str, raw: bytes, folder: int) -> str:
        for number in count(2):
            candidate = name if number == 2 else names.numbered(name, number - 1)
            with suppress(FileExistsError):
                write_new_file(self._disk, candidate, raw, at=folder)
                return candidate
            if self._is_kept(candidate, raw, folder):
                return candidate
        raise AssertionError("there is always another number")

    def _is_kept(self, name: str, raw: bytes, folder: int) -> bool:
        fd = open_file(self._disk, name, READ, at=folder)
        try:
            if read_fd(self._disk, fd) != raw:
                return False
            # Whoever wrote it may have died before flushing it.
            self._disk.flush(fd)
            return True
        finally:
            self._disk.close(fd)

    def kept(self, kind: Kind, but: Container[str] = ()) -> dict[str, bytes]:
        """Give what was kept, but for these names."""
        try:
            folder = open_folder(self._disk, kind, at=self._folder)
        except FileNotFoundError:
            return {}
        try:
            return dict(self._read_all(folder, but))
        finally:
            self._disk.close(folder)

    def _read_all(
        self, folder: int, but: Container[str]
    ) -> Generator[tuple[str, bytes], None, None]:
        for name in sorted(self._disk.listdir(folder)):
            if not name.startswith(".") and name not in but:
                with suppress(FileNotFoundError):
                    yield name, read_file(self._disk, name, at=folder)

    def tidy(self, older_than_seconds: float) -> None:
        """Remove renderings of checkpoints that were never finished."""
        with (
            suppress(FileNotFoundError),
            opened_folder(self._disk, "checkpoints", at=self._folder) as folder,
        ):
            remove_abandoned(self._disk, folder, older_than_seconds)

    def drop(self, name: str) -> None:
        """Remove the rendering of a checkpoint."""
        names.check_kept_name(name)
        with suppress(FileNotFoundError):
            folder = open_folder(self._disk, "checkpoints", at=self._folder)
            try:
                self._disk.unlink(name, at=folder)
            finally:
                self._disk.close(folder)

    @contextmanager
    def _opened(self, kind: Kind) -> Generator[int, None, None]:
        make_folder(self._disk, kind, at=self._folder)
        folder = open_folder(self._disk, kind, at=self._folder)
        try:
            yield folder
        finally:
            self._disk.close(folder)
