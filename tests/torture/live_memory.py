"""What a process has allocated and not let go, apart from the holes its allocators keep.

RSS only ever shows the most that was needed at one moment: pages once touched stay. A leak shows here.
"""

from __future__ import annotations

import ctypes
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


class LiveMemory(NamedTuple):
    """What is alive at one moment."""

    blocks: int  # of Python's own allocator: objects of up to 512 bytes
    malloc_bytes: int  # of whatever is larger; 0 where the system does not tell

    @classmethod
    def now(cls) -> LiveMemory:
        """Ask both allocators of this process."""
        if _mallinfo2 is None:
            return cls(sys.getallocatedblocks(), 0)
        found = _mallinfo2()
        return cls(sys.getallocatedblocks(), found.uordblks + found.hblkhd)
