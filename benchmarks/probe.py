"""The limit of the disk, sampled between measured operations because a shared disk drifts."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pydantic_core

now = time.perf_counter


class Probe:
    """Append 300 bytes and flush: the least that a durable record can cost."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(folder / "probe", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def seconds(self) -> float:
        """Time one append of 300 bytes with its flush."""
        began = now()
        os.write(self._fd, b"x" * 300)
        os.fsync(self._fd)
        return now() - began


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    """Time one call."""
    began = now()
    await call()
    return now() - began


def durable_write_seconds(folder: Path, raw: bytes) -> float:
    """Time the plain way to replace a file: temp file, flush, rename, flush of the folder."""
    began = now()
    fd = os.open(folder / "raw.tmp", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.write(fd, raw)
    os.fsync(fd)
    os.close(fd)
    (folder / "raw.tmp").rename(folder / "raw")
    above = os.open(folder, os.O_RDONLY)
    os.fsync(above)
    os.close(above)
    return now() - began


def read_and_parse_seconds(folder: Path) -> float:
    """Time reading the file back and parsing it, with the parser that Holdfast uses."""
    began = now()
    pydantic_core.from_json((folder / "raw").read_bytes())
    return now() - began


def size_of(folder: Path) -> int:
    """Give the bytes of everything in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def median(values: Sequence[float]) -> float:
    """Give the median."""
    return statistics.median(values)


def undisturbed(values: Sequence[float]) -> float:
    """Give what it costs when nobody else is in the way: of five samples the second best.

    On a machine of one's own that is nearly the median; on a shared one the median tells of the others.
    """
    return percentile(values, 0.2)


def percentile(values: Sequence[float], part: float) -> float:
    """Give the value below which this part of them lies."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]
