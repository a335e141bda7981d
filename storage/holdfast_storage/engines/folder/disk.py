"""The seam: every system call of the folder engine.

Nothing else in the engine touches the disk, the clock or a lock, so whoever passes in another `Disk`
can record, delay, fail or crash any of it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import secrets
import signal
import sys
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

from holdfast_storage.engines.folder.waiting import WhileWaiting, wait_in_turn

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable


FOLDER_MODE = 0o700
FILE_MODE = 0o600

# A pipe in the place of a file must not hold us for ever.
READ = os.O_RDONLY | os.O_NONBLOCK
APPEND = os.O_RDWR | os.O_APPEND
UPDATE = os.O_RDWR
NEW = os.O_CREAT | os.O_EXCL
FOLDER = os.O_RDONLY | os.O_DIRECTORY

_IS_MACOS = sys.platform == "darwin"
# fcntl.F_FULLFSYNC, which exists only there.
_F_FULLFSYNC = 51
_IS_LINUX = sys.platform == "linux"
_SYNC_FILE_RANGE_WRITE = 2

Identity = tuple[int, int, int]  # inode, device, size
# Of struct statx: stx_ino, stx_size, stx_dev_major, stx_dev_minor.
_STATX = Struct("=32xQQ88xII")
_Statx = ctypes.c_char * 256
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW = -100, 0x100
# How Python writes paths, without its asking each time what it was given.
_PATHS, _AS_FOUND = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_INODE_AND_SIZE = 0x100 | 0x200  # STATX_INO | STATX_SIZE

# These say "not on this system or this kind of disk", where others say what went wrong.
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})


class ExchangeUnsupported(Exception):
    """Two names cannot be exchanged in one go here."""


class LeaseUnsupported(Exception):
    """Nobody can tell here whether a file is open elsewhere."""


class Disk:
    """Thin methods, one system call each. `at` is the descriptor of a folder; None needs a whole path."""

    # --- descriptors --------------------------------------------------------------------------

    def open(self, name: str, flags: int, mode: int = FILE_MODE, *, at: int | None) -> int:
        """Open a file, never through a link, never to be inherited by a child."""
        return os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode, dir_fd=at)

    def close(self, fd: int) -> None:
        """Close it."""
        os.close(fd)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read at a place."""
        return os.pread(fd, size, offset)

    def write(self, fd: int, raw: bytes) -> int:
        """Write, at the end if it was opened so; answers how much went in, which may be less."""
        return os.write(fd, raw)

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        """Write at a place."""
        return os.pwrite(fd, raw, offset)

    def truncate(self, fd: int, length: int) -> None:
        """Cut a file off."""
        os.ftruncate(fd, length)

    def chmod(self, fd: int, mode: int) -> None:
        """Set the mode whatever the umask says."""
        os.fchmod(fd, mode)

    def begin_flush(self, fd: int) -> None:
        """Have the disk begin to write, so that a flush soon after waits less; promises nothing.

        What cannot be written it may say only here, and not again when it is flushed.
        """
        if (
            _IS_LINUX
            and (begin := _sync_file_range()) is not None
            and begin(fd, 0, 0, _SYNC_FILE_RANGE_WRITE)
        ):
            number = ctypes.get_errno()
            if number not in _UNSUPPORTED:
                raise OSError(number, os.strerror(number))

    def flush_data(self, fd: int) -> None:
        """Make the bytes of a file, and its length, survive a power cut."""
        if _IS_MACOS:
            self.flush(fd)
        else:
            os.fdatasync(fd)

    def flush(self, fd: int) -> None:
        """Make a file or a folder survive a power cut."""
        if _IS_MACOS:
            try:
                # There fsync leaves the bytes in the drive's cache.
                fcntl.fcntl(fd, _F_FULLFSYNC)
                return
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
        os.fsync(fd)

    def fstat(self, fd: int) -> os.stat_result:
        """Look at what is open."""
        return os.fstat(fd)

    # --- names --------------------------------------------------------------------------------

    def stat(self, name: str, *, at: int | None) -> os.stat_result:
        """Look at a name, never through a link."""
        return os.stat(name, dir_fd=at, follow_symlinks=False)

    def identity(self, path: str) -> Identity:
        """Say which file has a whole path, and its size, without asking for its times.

        Since Linux 6.13 whoever asks for those makes the next write note a new one, and the flush after
        it write the inode, too: that takes half as long again as the bytes alone.
        """
        if (statx := _statx()) is None:
            return _identity(path)
        raw = _Statx()
        if statx(
            _AT_FDCWD, path.encode(_PATHS, _AS_FOUND), _AT_SYMLINK_NOFOLLOW, _INODE_AND_SIZE, raw
        ):
            number = ctypes.get_errno()
            if number in _UNSUPPORTED:
                # Some containers forbid it.
                return _identity(path)
            raise OSError(number, os.strerror(number), path)
        inode, size, major, minor = _STATX.unpack_from(raw)
        return inode, os.makedev(major, minor), size

    def listdir(self, fd: int) -> list[str]:
        """Name what lies in a folder."""
        with self._listed_alone(fd) as own:
            return os.listdir(own)  # noqa: PTH208 - there is no path, only a descriptor

    def folders(self, fd: int) -> Iterable[str]:
        """Name the folders in a folder; the listing tells them apart, so this costs no more."""
        with self._listed_alone(fd) as own, os.scandir(own) as entries:
            yield from (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def links(self, fd: int) -> Iterable[str]:
        """Name the links in a folder."""
        with self._listed_alone(fd) as own, os.scandir(own) as entries:
            yield from (entry.name for entry in entries if entry.is_symlink())

    @contextmanager
    def _listed_alone(self, fd: int) -> Generator[int, None, None]:
        """Open a folder once more: two who list the same open folder each get a part of it."""
        own = os.open(".", FOLDER | os.O_CLOEXEC, dir_fd=fd)
        try:
            yield own
        finally:
            os.close(own)

    def mkdir(self, name: str, *, at: int | None) -> None:
        """Make a folder that only its owner may enter."""
        os.mkdir(name, FOLDER_MODE, dir_fd=at)

    def rmdir(self, name: str, *, at: int) -> None:
        """Remove an empty folder."""
        os.rmdir(name, dir_fd=at)

    def rename(self, old: str, new: str, *, at: int) -> None:
        """Rename, replacing what has the new name."""
        os.rename(old, new, src_dir_fd=at, dst_dir_fd=at)

    def rename_new(self, old: str, new: str, *, at: int) -> None:
        """Rename, or raise FileExistsError if something has the new name."""
        try:
            _rename_with(_NO_REPLACE, old, new, at)
        except ExchangeUnsupported:
            os.link(old, new, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
            os.unlink(old, dir_fd=at)

    def exchange(self, one: str, other: str, *, at: int) -> None:
        """Exchange two names in one go, or raise ExchangeUnsupported."""
        _rename_with(_EXCHANGE, one, other, at)

    def link(self, old: str, new: str, *, at: int) -> None:
        """Give a file a second name, or raise FileExistsError."""
        os.link(old, new, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)

    def unlink(self, name: str, *, at: int) -> None:
        """Take a name away."""
        os.unlink(name, dir_fd=at)

    # --- locks --------------------------------------------------------------------------------

    def lock(self, fd: int, *, shared: bool = False) -> bool:
        """Take the file's lock if it can be had at once."""
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lock_in_turn(
        self,
        gate: int,
        fd: int,
        wait_seconds: float = 0.0,
        while_waiting: WhileWaiting | None = None,
    ) -> bool:
        """Take the gate, then the lock, and open the gate; False if that could not be had in that time.

        After waiting in vain both descriptors must be closed: their turn may still come, and would
        then be taken for the lock of whoever else uses the same open files.
        """
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return wait_seconds > 0 and wait_in_turn(gate, fd, wait_seconds, while_waiting)
        finally:
            fcntl.flock(gate, fcntl.LOCK_UN)
        return True

    def unlock(self, fd: int) -> None:
        """Let go of the file's lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    @contextmanager
    def alone_with(self, fd: int) -> Generator[bool, None, None]:
        """Say whether nobody else has the file open; while this lasts an opener has to wait.

        Raises LeaseUnsupported where that cannot be known.
        """
        if not _IS_LINUX:
            raise LeaseUnsupported
        # An opener who must wait makes the kernel signal us, by default with one that kills.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EBUSY):
                raise LeaseUnsupported from error
            yield False
            return
        try:
            yield True
        finally:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    # --- time and chance ----------------------------------------------------------------------

    def now_ns(self) -> int:
        """Give the time of day."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Give seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def random_hex(self, count: int = 8) -> str:
        """Give that many random bytes in hex."""
        return secrets.token_hex(count)

    def up_since(self) -> float:
        """Give when this machine was started, in seconds since the epoch."""
        return self.now_ns() / 1e9 - _seconds_up()

    def boot_id(self) -> str:
        """Give a word that is this machine's until it starts again; it tells nothing about it."""
        return sha256(_boot_word()).hexdigest()[:12]


def _identity(path: str) -> Identity:
    found = os.lstat(path)
    return found.st_ino, found.st_dev, found.st_size


def _seconds_up() -> float:
    # The clock that goes on while the machine sleeps; elsewhere the one that does not will have to do.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _boot_word() -> bytes:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()
    # Elsewhere the moment it was started must do.
    library, word = ctypes.CDLL(None), ctypes.create_string_buffer(16)
    if hasattr(library, "sysctlbyname"):
        library.sysctlbyname(b"kern.boottime", word, ctypes.byref(ctypes.c_size_t(16)), None, 0)
    return word.raw


# --- renaming with a flag, which Python does not offer ----------------------------------------

_NO_REPLACE, _EXCHANGE = "no replace", "exchange"
_LINUX_FLAGS = {_NO_REPLACE: 1, _EXCHANGE: 2}  # RENAME_NOREPLACE, RENAME_EXCHANGE
_MACOS_FLAGS = {_NO_REPLACE: 4, _EXCHANGE: 2}  # RENAME_EXCL, RENAME_SWAP


@functools.cache
def _rename_function() -> tuple[Any, dict[str, int]]:
    library = ctypes.CDLL(None, use_errno=True)
    name, flags = ("renameatx_np", _MACOS_FLAGS) if _IS_MACOS else ("renameat2", _LINUX_FLAGS)
    function: Any = getattr(library, name, None)
    if function is not None:
        function.argtypes = (
            *(ctypes.c_int, ctypes.c_char_p) * 2,
            ctypes.c_uint,
        )
    return function, flags


@functools.cache
def _sync_file_range() -> Any:
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


@functools.cache
def _statx() -> Any:
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "statx", None) if _IS_LINUX else None
    if function is not None:
        function.argtypes = (
            *(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint),
            ctypes.c_void_p,
        )
    return function


def _rename_with(flag: str, old: str, new: str, at: int) -> None:
    function, flags = _rename_function()
    if function is None:
        raise ExchangeUnsupported
    if function(at, os.fsencode(old), at, os.fsencode(new), flags[flag]) == 0:
        return
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        raise ExchangeUnsupported
    raise OSError(code, os.strerror(code), old, None, new)
