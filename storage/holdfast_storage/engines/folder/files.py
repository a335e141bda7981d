"""The few safe ways to open, make and remove files: never through a link, never half of one."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast_storage.core.errors import Damaged, UnsafeFile
from holdfast_storage.engines.folder.disk import FILE_MODE, FOLDER, NEW, READ, UPDATE
from holdfast_storage.engines.folder.names import is_temporary, temporary_name

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from holdfast_storage.engines.folder.disk import Disk


_PIECE_BYTES = 1 << 18


@contextmanager
def reading(what: str) -> Generator[None, None, None]:
    """Turn what the disk says while something is read into an error that names it."""
    try:
        yield
    except OSError as error:
        raise Damaged(what, f"cannot be read ({error.strerror or error})") from error


def open_file(disk: Disk, name: str, flags: int, *, at: int, label: str = "") -> int:
    """Open a regular file with one name only, or raise UnsafeFile; FileNotFoundError passes through."""
    try:
        fd = disk.open(name, flags | os.O_NONBLOCK, at=at)
    except OSError as error:
        if problem := _UNSAFE.get(error.errno or 0):
            raise UnsafeFile(label or name, problem) from error
        # Never from itself: an error that is its own cause keeps every frame it passed, and the folds
        # and bytes in them, until the collector comes by.
        raise
    try:
        _refuse_unless_plain(disk.fstat(fd), label or name)
    except BaseException:
        disk.close(fd)
        raise
    return fd


def open_at_least_to_read(disk: Disk, name: str, flags: int, *, at: int) -> int:
    """Open a file to change it, or where nothing may be changed, to read it."""
    try:
        return open_file(disk, name, flags, at=at)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        return open_file(disk, name, READ, at=at)


_UNSAFE = {
    **dict.fromkeys((errno.ELOOP, errno.EMLINK), "is a link"),
    **dict.fromkeys((errno.EISDIR, errno.ENXIO, errno.ENODEV), "is not a file"),
}


def _refuse_unless_plain(found: os.stat_result, label: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFile(label, "is not a file")
    if found.st_nlink > 1:
        raise UnsafeFile(label, "has another name elsewhere (a hard link)")


def open_folder(disk: Disk, name: str, *, at: int | None, label: str = "") -> int:
    """Open a folder that is no link, or raise UnsafeFile; FileNotFoundError passes through."""
    try:
        return disk.open(name, FOLDER, at=at)
    except OSError as error:
        # A link to a folder gives ENOTDIR on Linux and ELOOP elsewhere.
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            raise UnsafeFile(label or name, "is not a folder") from error
        raise


def make_folder(disk: Disk, name: str, *, at: int | None) -> bool:
    """Make a folder unless it is there; the caller flushes what holds it."""
    try:
        disk.mkdir(name, at=at)
    except FileExistsError:
        return False
    return True


def new_file(disk: Disk, name: str, *, at: int, mode: int = FILE_MODE, flags: int = UPDATE) -> int:
    """Make a file that must not exist yet, with exactly this mode."""
    fd = disk.open(name, flags | NEW, mode, at=at)
    try:
        disk.chmod(fd, mode)
    except BaseException:
        disk.close(fd)
        raise
    return fd


def write_all(disk: Disk, fd: int, raw: bytes) -> None:
    """Write all of it, or raise OSError: a full disk shows as a short write first."""
    for piece in _pieces(raw):
        if disk.write(fd, piece) != len(piece):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_at(disk: Disk, fd: int, raw: bytes, offset: int, room: bytes = b"") -> None:
    """Write all of it at a place, or raise OSError likewise; room behind it, as far as there is space."""
    written = 0
    for piece in _pieces(raw + room):
        length = disk.pwrite(fd, piece, offset + written)
        written += length
        if length < len(piece):
            break
    if written < len(raw):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _pieces(raw: bytes) -> Iterable[bytes]:
    """Give what is written with one call each.

    For more at once the kernel takes pages of up to 2 MiB. A virtual machine may have to be given those
    first, and then 10 MB take 20 ms in place of 2.
    """
    if len(raw) <= _PIECE_BYTES:
        return (raw,)
    return (raw[start : start + _PIECE_BYTES] for start in range(0, len(raw), _PIECE_BYTES))


def write_new_file(disk: Disk, name: str, raw: bytes, *, at: int, mode: int = FILE_MODE) -> None:
    """Make a file and flush it; if that fails nothing of it stays. The caller flushes the folder."""
    fd = new_file(disk, name, at=at, mode=mode)
    try:
        write_all(disk, fd, raw)
        disk.flush(fd)
    except BaseException:
        with suppress(OSError):
            disk.unlink(name, at=at)
        raise
    finally:
        disk.close(fd)


def replace_file(disk: Disk, name: str, raw: bytes, *, at: int, mode: int = FILE_MODE) -> None:
    """Replace a file that people do not edit, so that a reader sees the old bytes or the new ones."""
    temporary = temporary_name(disk.random_hex())
    write_new_file(disk, temporary, raw, at=at, mode=mode)
    disk.rename(temporary, name, at=at)
    # The rename lives in the folder: without this a power cut may bring the old file back.
    disk.flush(at)


# A task's folder has folders in it, and these have none.
_LEVELS = 2


def remove_abandoned(disk: Disk, folder: int, older_than_seconds: float) -> None:
    """Remove what somebody who died meant to put in place; whoever lives is done long before.

    It was never answered for: what it was to replace is there, or is made again.
    """
    for name in filter(is_temporary, disk.listdir(folder)):
        # Another process may be doing the same; and an untidy folder keeps nobody from working.
        with suppress(OSError, UnsafeFile):
            if untouched_seconds(disk, name, at=folder) >= older_than_seconds:
                _remove_unless_held(disk, name, folder)


def _remove_unless_held(disk: Disk, name: str, at: int) -> None:
    """Remove what nobody is making; whoever makes a folder holds its lock until it has its name."""
    if not stat.S_ISDIR(disk.stat(name, at=at).st_mode):
        disk.unlink(name, at=at)
        return
    with opened_folder(disk, name, at=at) as folder:
        # Its maker may have given it its name, and let go of it, since it was opened.
        if disk.lock(folder) and disk.stat(name, at=at).st_ino == disk.fstat(folder).st_ino:
            _empty(disk, folder)
            disk.rmdir(name, at=at)


def untouched_seconds(disk: Disk, name: str, *, at: int) -> float:
    """Say how long ago a file, or anything in a folder, was last written to."""
    return (disk.now_ns() - _touched_ns(disk, name, at, _LEVELS)) / 1e9


def _touched_ns(disk: Disk, name: str, at: int, levels: int) -> int:
    found = disk.stat(name, at=at)
    if not stat.S_ISDIR(found.st_mode):
        return found.st_mtime_ns
    if levels == 0:
        raise UnsafeFile(name, "it is nested deeper than anything of ours")
    with opened_folder(disk, name, at=at) as folder:
        inside = [_touched_ns(disk, each, folder, levels - 1) for each in disk.listdir(folder)]
    return max([found.st_mtime_ns, *inside])


def remove(disk: Disk, name: str, *, at: int) -> None:
    """Remove a file, or a folder with all that is in it."""
    if not stat.S_ISDIR(disk.stat(name, at=at).st_mode):
        disk.unlink(name, at=at)
        return
    with opened_folder(disk, name, at=at) as folder:
        _empty(disk, folder)
    disk.rmdir(name, at=at)


def _empty(disk: Disk, folder: int) -> None:
    for each in disk.listdir(folder):
        remove(disk, each, at=folder)


def read_fd(disk: Disk, fd: int, limit: int | None = None) -> bytes:
    """Read a file from its beginning to its end, or as far as the limit."""
    portions: list[bytes] = []
    offset = 0
    # The memory for a portion is taken before the kernel says how little there was to read: asking
    # for a mebibyte each time tore such holes into it that processes grew by megabytes an hour.
    most = min(1 << 20, disk.fstat(fd).st_size + 1)
    while limit is None or offset < limit:
        size = most if limit is None else min(most, limit - offset)
        portion = disk.pread(fd, size, offset)
        if not portion:
            break
        portions.append(portion)
        offset += len(portion)
    return b"".join(portions)


def read_file(disk: Disk, name: str, *, at: int, label: str = "") -> bytes:
    """Read a whole file that is safe to read."""
    fd = open_file(disk, name, READ, at=at, label=label)
    try:
        return read_fd(disk, fd)
    finally:
        disk.close(fd)


@contextmanager
def opened_folder(disk: Disk, name: str, *, at: int) -> Generator[int, None, None]:
    """Have a folder open for a while."""
    fd = open_folder(disk, name, at=at)
    try:
        yield fd
    finally:
        disk.close(fd)
