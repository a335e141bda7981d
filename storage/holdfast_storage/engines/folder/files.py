"""The seam: every system call of the folder engine, and the few safe ways in which files are made.

Nothing else in the engine touches the disk, the clock or a lock, so whoever passes in another `Disk`
can record, delay, fail or crash any of it.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import fcntl
import functools
import os
import queue
import secrets
import signal
import stat
import sys
import threading
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast_storage.core.errors import Damaged, UnsafeFile
from holdfast_storage.engines.folder.names import is_temporary, temporary_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable


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
            found = self.stat(path, at=None)
            return found.st_ino, found.st_dev, found.st_size
        raw = _Statx()
        if statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _INODE_AND_SIZE, raw):
            number = ctypes.get_errno()
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

    def lock_in_turn(self, gate: int, fd: int, wait_seconds: float = 0.0) -> bool:
        """Take the gate, then the lock, and open the gate; False if that could not be had in that time.

        After waiting in vain both descriptors must be closed: their turn may still come, and would
        then be taken for the lock of whoever else uses the same open files.
        """
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return wait_seconds > 0 and _wait_in_turn(gate, fd, wait_seconds)
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


# --- waiting for a lock, in turn and not for ever ---------------------------------------------


# Whoever gave up leaves a thread behind until its turn comes, which is never while a stopped process
# holds the lock. Beyond these many, waiting is no longer in turn.
_MOST_WAITING = 64
_turns = threading.BoundedSemaphore(_MOST_WAITING)


class _Waiter:
    """A thread that waits for locks, one after the other: to begin one for each costs 30 us and more."""

    # Those that wait for nothing now.
    idle: ClassVar[list[_Waiter]] = []

    def __init__(self) -> None:
        self._given: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        # Not threading.Thread, whose start waits for the thread to run: this is the contended path.
        _thread.start_new_thread(self._serve, ())

    @classmethod
    def one(cls) -> _Waiter | None:
        """Give one that is idle, or one more if the system has a thread to spare."""
        with suppress(IndexError):
            return cls.idle.pop()
        with suppress(RuntimeError):
            return cls()
        return None

    def begin(self, call: Callable[[], None]) -> None:
        """Have something done that raises nothing."""
        self._given.put(call)

    def _serve(self) -> None:
        while True:
            self._given.get()()
            self.idle.append(self)


def _begin_anew() -> None:
    """Be a child: it has the list and the count, and none of the threads."""
    global _turns
    _Waiter.idle.clear()
    _turns = threading.BoundedSemaphore(_MOST_WAITING)


os.register_at_fork(after_in_child=_begin_anew)


def _wait_in_turn(gate: int, fd: int, wait_seconds: float) -> bool:
    """Block in the kernel, whose queue is fair, in a thread that can be given up on.

    A call that blocks cannot be told to stop, and asking again and again starves somebody: with 8 busy
    processes the longest wait was 0.9 to 1.9 s.
    """
    if not _turns.acquire(blocking=False):
        return _ask_again_and_again(gate, fd, wait_seconds)
    # Second descriptors of the same open files: what is locked through one is locked through the
    # other, and stays so until both are closed.
    own = _second(gate, fd)
    waiter = _Waiter.one() if own else None
    if own is None or waiter is None:
        for each in own or ():
            os.close(each)
        _turns.release()
        return _ask_again_and_again(gate, fd, wait_seconds)
    own_gate, own_fd = own
    has_lock: list[bool] = []
    is_over = threading.Lock()
    is_over.acquire()

    def wait() -> None:
        try:
            fcntl.flock(own_gate, fcntl.LOCK_EX)
            fcntl.flock(own_fd, fcntl.LOCK_EX)
            has_lock.append(True)
        except OSError:
            return  # as if it had been in vain
        finally:
            # Whoever comes next waits for the lock while this one works.
            fcntl.flock(own_gate, fcntl.LOCK_UN)
            os.close(own_gate)
            os.close(own_fd)
            _turns.release()
            is_over.release()

    waiter.begin(wait)
    is_over.acquire(timeout=wait_seconds)
    # If the turn comes right now, it ends when the caller closes its descriptors.
    return bool(has_lock)


def _second(gate: int, fd: int) -> tuple[int, int] | None:
    """Give another descriptor of each; None if there are none to be had."""
    try:
        own_gate = os.dup(gate)
    except OSError:
        return None
    try:
        return own_gate, os.dup(fd)
    except OSError:
        os.close(own_gate)
        return None


def _ask_again_and_again(gate: int, fd: int, wait_seconds: float) -> bool:
    until = time.monotonic() + wait_seconds
    while time.monotonic() < until:
        time.sleep(0.01)
        with suppress(BlockingIOError):
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


# --- safe ways to open and make things --------------------------------------------------------


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
    if disk.write(fd, raw) != len(raw):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_at(disk: Disk, fd: int, raw: bytes, offset: int, room: bytes = b"") -> None:
    """Write all of it at a place, or raise OSError likewise; room behind it, as far as there is space."""
    if disk.pwrite(fd, raw + room, offset) < len(raw):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


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
