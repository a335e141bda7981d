"""A disk in memory that fails at one call, or from one call on, in the way that disks do."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from tests.torture.memory_disk import File, MemoryDisk

SHORT = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong. A code of SHORT means that a write takes half of what it is given."""

    name: str
    code: int
    lasts: bool
    # A full disk and one that may not be written to can still be read.
    spares_reading: bool = True


FAULTS = (
    Fault("EIO once", errno.EIO, lasts=False, spares_reading=False),
    Fault("EIO from then on", errno.EIO, lasts=True, spares_reading=False),
    Fault("ENOSPC once", errno.ENOSPC, lasts=False),
    Fault("ENOSPC from then on", errno.ENOSPC, lasts=True),
    Fault("EROFS from then on", errno.EROFS, lasts=True),
    Fault("a short write", SHORT, lasts=False),
    Fault("short writes from then on", SHORT, lasts=True),
)


class FailingDisk(MemoryDisk):
    """Fails as told; until told, and when healed, it works."""

    fault: Fault | None = None
    has_failed = False
    _left = 0

    def fail(self, fault: Fault, at: int) -> None:
        """Fail at this call, counted from now and from one."""
        self.fault, self._left, self.has_failed = fault, at, False

    def heal(self) -> None:
        """Work again."""
        self.fault = None

    def _is_due(self) -> bool:
        """Count one call that could fail."""
        if self.fault is None or (self.has_failed and not self.fault.lasts):
            return False
        self._left -= 1
        if self._left > 0:
            return False
        self.has_failed = True
        return True

    def _fail_if_due(self, *, is_change: bool) -> None:
        fault = self.fault
        if fault is None or fault.code == SHORT or (fault.spares_reading and not is_change):
            return
        if self._is_due():
            raise OSError(fault.code, os.strerror(fault.code))

    def _begin(self) -> None:
        super()._begin()
        self._fail_if_due(is_change=False)

    def _begin_change(self) -> None:
        MemoryDisk._begin(self)
        self.fs.tick()
        self._fail_if_due(is_change=True)

    # --- what cannot fail, and what fails in its own way --------------------------------------

    def close(self, fd: int) -> None:
        fault, self.fault = self.fault, None
        super().close(fd)
        self.fault = fault

    def unlock(self, fd: int) -> None:
        fault, self.fault = self.fault, None
        super().unlock(fd)
        self.fault = fault

    def flush(self, fd: int) -> None:
        try:
            super().flush(fd)
        except OSError:
            node = self._handle(fd).node
            if isinstance(node, File):
                node.fail_to_flush()
            raise

    def truncate(self, fd: int, length: int) -> None:
        # Also a full disk lets go.
        fault = self.fault
        if fault is not None and fault.code == errno.ENOSPC:
            self.fault = None
        try:
            super().truncate(fd, length)
        finally:
            self.fault = fault

    def write(self, fd: int, raw: bytes) -> int:
        return super().write(fd, self._shortened(raw))

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        return super().pwrite(fd, self._shortened(raw), offset)

    def _shortened(self, raw: bytes) -> bytes:
        is_short = self.fault is not None and self.fault.code == SHORT and self._is_due()
        return raw[: len(raw) // 2] if is_short else raw
