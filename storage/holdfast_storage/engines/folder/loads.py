"""Note who resumed when: cheap, unlocked, and nothing is lost if it is lost."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast_storage.core import strict_json
from holdfast_storage.engines.folder.disk import APPEND
from holdfast_storage.engines.folder.files import new_file, open_file, read_file, write_all
from holdfast_storage.engines.folder.names import LOADS, OLD_LOADS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast_storage.engines.folder.disk import Disk


def append(disk: Disk, folder: int, line: Mapping[str, Any], limit_bytes: int) -> None:
    """Add one line; what is older than two files' worth goes."""
    fd = _opened(disk, folder)
    try:
        write_all(disk, fd, strict_json.encode(line) + b"\n")
        is_full = disk.fstat(fd).st_size >= limit_bytes
    finally:
        disk.close(fd)
    if is_full:
        # Two processes may do this at once; then one file's worth goes early.
        with suppress(FileNotFoundError):
            disk.rename(LOADS, OLD_LOADS, at=folder)


def _opened(disk: Disk, folder: int) -> int:
    with suppress(FileNotFoundError):
        return open_file(disk, LOADS, APPEND, at=folder)
    with suppress(FileExistsError):
        disk.close(new_file(disk, LOADS, at=folder))
    return open_file(disk, LOADS, APPEND, at=folder)


def read(disk: Disk, folder: int) -> list[Mapping[str, Any]]:
    """Give the lines that can be read, oldest first."""
    found: list[Mapping[str, Any]] = []
    for name in (OLD_LOADS, LOADS):
        with suppress(FileNotFoundError):
            for line in read_file(disk, name, at=folder).splitlines():
                # A power cut may leave half a line or none.
                with suppress(ValueError):
                    value = strict_json.decode(line)
                    if strict_json.is_object(value):
                        found.append(value)
    return found
