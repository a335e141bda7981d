"""What a process has allocated and not let go, apart from the holes its allocators keep.

Python takes memory for small objects in arenas of a MiB and gives one back when nothing is left in it.
So a process that keeps no more than before may still need an arena more in an hour, because what it
keeps lies elsewhere; RSS alone cannot tell that from a leak.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from typing import Any, NamedTuple


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


# Absent where the system's is not glibc, or one before 2.33.
_mallinfo2: Any = getattr(ctypes.CDLL(None), "mallinfo2", None)
if _mallinfo2 is not None:
    _mallinfo2.restype = _Mallinfo2

_ALLOCATED = re.compile(rb"bytes in allocated blocks +=\s+([\d,]+)")


class LiveMemory(NamedTuple):
    """What is alive at one moment."""

    blocks: int  # of Python's own allocator: objects of up to 512 bytes
    malloc_bytes: int  # of whatever is larger; 0 where the system does not tell
    block_bytes: int = 0  # what those objects take; 0 where Python does not tell

    @classmethod
    def now(cls) -> LiveMemory:
        """Ask both allocators of this process."""
        malloc_bytes = 0
        if _mallinfo2 is not None:
            found = _mallinfo2()
            malloc_bytes = found.uordblks + found.hblkhd
        return cls(sys.getallocatedblocks(), malloc_bytes, _block_bytes())


def _block_bytes() -> int:
    found = _ALLOCATED.search(_statistics())
    return int(found[1].replace(b",", b"")) if found else 0


def _statistics() -> bytes:
    """Catch what Python tells of its allocator: it tells nobody but the standard error stream."""
    if not hasattr(os, "memfd_create") or not hasattr(sys, "_debugmallocstats"):
        return b""
    kept, caught = os.dup(2), os.memfd_create("statistics")
    try:
        os.dup2(caught, 2)
        sys._debugmallocstats()  # pyright: ignore[reportPrivateUsage] - there is no public way
        return os.pread(caught, 1 << 20, 0)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(caught)
