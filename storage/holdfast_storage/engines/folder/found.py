"""Read files that people may be writing to, and remove them only when nobody can lose by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import Unreadable, UnsafeFile
from holdfast_storage.core.seal import is_sealed
from holdfast_storage.engines.folder.disk import READ, LeaseUnsupported
from holdfast_storage.engines.folder.files import open_file, read_fd
from holdfast_storage.engines.folder.kept import Kept

if TYPE_CHECKING:
    import os

    from holdfast_storage.engines.folder.disk import Disk
    from holdfast_storage.engines.folder.limits import Limits

Stamp = tuple[int, int, int, int]
NO_FILE: Stamp = (0, 0, 0, 0)
Removal = Literal["gone", "open", "changed"]


def stamp_of(found: os.stat_result) -> Stamp:
    """Give what changes when a file does: inode, size, mtime_ns, ctime_ns."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it was read."""

    name: str
    raw: bytes
    stamp: Stamp
    is_moving: bool = False  # it changed while it was read

    @property
    def mtime_ns(self) -> int:
        """When it was last written."""
        return self.stamp[2]

    @property
    def is_ours(self) -> bool:
        """Whether Holdfast wrote it, byte for byte."""
        return is_sealed(self.raw)

    @property
    def is_broken(self) -> bool:
        """Whether it is empty, half saved or otherwise not JSON."""
        try:
            strict_json.parse_object(self.raw)
        except Unreadable:
            return True
        return False

    def is_still(self, other: Found | None) -> bool:
        """Say whether it is the same file with the same bytes; a rename alone changes its ctime."""
        if other is None:
            return False
        return self.stamp[:3] == other.stamp[:3] and self.raw == other.raw


class Finder:
    """Reads and removes such files in one task's folder; removing needs the task's lock."""

    def __init__(self, disk: Disk, limits: Limits) -> None:
        self._disk, self._limits = disk, limits

    def read(self, name: str, folder: int) -> Found | None:
        """Read a file, None if there is none."""
        try:
            fd = open_file(self._disk, name, READ, at=folder)
        except FileNotFoundError:
            return None
        try:
            before = stamp_of(self._disk.fstat(fd))
            raw = read_fd(self._disk, fd, self._limits.view_bytes)
            after = stamp_of(self._disk.fstat(fd))
        finally:
            self._disk.close(fd)
        return Found(name, raw, after, is_moving=before != after)

    def age_seconds(self, time_ns: int) -> float:
        """Say how long ago that was."""
        return (self._disk.now_ns() - time_ns) / 1e9

    def is_settled(self, found: Found, before: Found | None) -> bool:
        """Say whether nobody is likely to be in the middle of writing it; `before` is an earlier look."""
        if found.is_moving:
            return False
        # A time in the future says nothing: such a file is read twice as well.
        age = self.age_seconds(max(found.stamp[2:]))
        return age >= self._limits.settled_after_seconds or found.is_still(before) or found.is_ours

    def remove(self, found: Found, folder: int) -> Removal:
        """Remove a displaced file that is as it was found, once nobody has it open.

        An editor that had it open would save into a file without a name, and the save would be gone.
        """
        try:
            fd = open_file(self._disk, found.name, READ, at=folder)
        except (FileNotFoundError, UnsafeFile):
            return "gone"
        try:
            return self._remove(fd, found, folder)
        finally:
            self._disk.close(fd)

    def _remove(self, fd: int, found: Found, folder: int) -> Removal:
        try:
            with self._disk.alone_with(fd) as is_alone:
                return self._remove_unchanged(fd, found, folder) if is_alone else "open"
        except LeaseUnsupported:
            if not self._is_quiet(fd):
                return "open"
            return self._remove_unchanged(fd, found, folder)

    def _is_quiet(self, fd: int) -> bool:
        age = self.age_seconds(self._disk.fstat(fd).st_ctime_ns)
        return age >= self._limits.leftover_seconds

    def _remove_unchanged(self, fd: int, found: Found, folder: int) -> Removal:
        if read_fd(self._disk, fd, self._limits.view_bytes) != found.raw:
            return "changed"
        self._disk.unlink(found.name, at=folder)
        return "gone"

    def set_aside(self, broken: Found, folder: int) -> Removal:
        """Move to quarantine what a save left half done, once it is clear that it will stay so."""
        try:
            fd = open_file(self._disk, broken.name, READ, at=folder)
        except (FileNotFoundError, UnsafeFile):
            return "gone"
        try:
            is_closed = self._is_closed(fd)
        finally:
            self._disk.close(fd)
        if not is_closed:
            return "open"
        if broken.raw:
            name = f"displaced{broken.name}.json"
            Kept(self._disk, folder).keep("quarantine", name, broken.raw)
        return self.remove(broken, folder)

    def _is_closed(self, fd: int) -> bool:
        try:
            with self._disk.alone_with(fd) as is_alone:
                return is_alone
        except LeaseUnsupported:
            return self._is_quiet(fd)
