"""List tasks without folding journals: a summary beside each, believed only while it is current."""

from __future__ import annotations

from contextlib import suppress
from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, Any

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import HoldfastError
from holdfast_storage.core.ids import folder_name
from holdfast_storage.core.records import Place, Record, decode_line
from holdfast_storage.engines.base import Head
from holdfast_storage.engines.folder.disk import READ, Disk
from holdfast_storage.engines.folder.files import (
    new_file,
    open_file,
    opened_folder,
    reading,
    write_all,
)
from holdfast_storage.engines.folder.lines import ROOM, lines_of
from holdfast_storage.engines.folder.names import (
    HEAD,
    JOURNAL,
    TASKS,
    VIEW,
    segment_name,
    segment_number,
    temporary_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast_storage.engines.folder.progress import Reached

# No summary is longer; what is, somebody else wrote.
_MOST_BYTES = 2**13


def write(disk: Disk, folder: int, task: str, reached: Reached, summary: Mapping[str, Any]) -> None:
    """Note a summary of the journal up to where it was read; lost in a power cut, it is made anew."""
    head = {
        "segment": reached.segment,
        "size": reached.offset,
        "revision": reached.seq,
        "task": task,
        "summary": dict(summary),
    }
    temporary = temporary_name(disk.random_hex())
    fd = new_file(disk, temporary, at=folder)
    try:
        write_all(disk, fd, strict_json.encode(head))
        disk.rename(temporary, HEAD, at=folder)
    except OSError:
        with suppress(OSError):
            disk.unlink(temporary, at=folder)
        raise
    finally:
        disk.close(fd)


def listed(disk: Disk, tasks: int, cursor: str, limit: int) -> tuple[list[Head], str]:
    """Give the tasks whose folders' names come after the cursor, and the next cursor or ""."""
    found: list[Head] = []
    while len(found) < limit:
        wanted = limit - len(found)
        names = _names_after(disk, tasks, cursor, wanted + 1)
        for name, is_link in names[:wanted]:
            # It may lead anywhere, and yet there may have been a task: it is named and not followed.
            link = Head(name, None, problem="it is a link") if is_link else None
            if head := link or _head(disk, tasks, name):
                found.append(head)
        if len(names) <= wanted:
            return found, ""
        cursor = names[wanted - 1][0]
    return found, cursor


def _names_after(disk: Disk, tasks: int, cursor: str, count: int) -> list[tuple[str, bool]]:
    """Give the next names, each with whether it is a link, holding no more of them than that."""
    with reading(TASKS):
        links = ((name, True) for name in disk.links(tasks))
        folders = ((name, False) for name in disk.folders(tasks))
        # One with a dot is a task in the making.
        names = (each for each in chain(folders, links) if each[0] > cursor and each[0][0] != ".")
        return nsmallest(count, names)


def _head(disk: Disk, tasks: int, name: str) -> Head | None:
    try:
        noted = _noted(disk, tasks, name)
        if noted is not None:
            return noted
        return _looked_up(disk, tasks, name)
    except (OSError, HoldfastError) as error:
        return Head(name, None, problem=str(error))


def task_in(disk: Disk, tasks: int, name: str) -> str | None:
    """Give the task whose folder has this name, None if it is none."""
    head = _head(disk, tasks, name)
    return head.task if head and not head.problem else None


def _noted(disk: Disk, tasks: int, name: str) -> Head | None:
    """Read a summary that is current: a handful of calls, because a thousand tasks are listed at once."""
    try:
        fd = disk.open(f"{name}/{HEAD}", READ, at=tasks)
    except OSError:
        return None
    try:
        raw = disk.pread(fd, _MOST_BYTES, 0)
    finally:
        disk.close(fd)
    try:
        head = strict_json.decode(raw)
        task, segment, size = head["task"], head["segment"], head["size"]
        summary: Mapping[str, Any] = head["summary"]
        # It has no checksum: a bit that fell over in there must not give the task another name.
        is_ours = folder_name(task) == name and summary.get("task", task) == task
        return (
            Head(task, summary) if is_ours and _ends_at(disk, tasks, name, segment, size) else None
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _ends_at(disk: Disk, tasks: int, name: str, segment: int, size: int) -> bool:
    journal = f"{name}/{JOURNAL}"
    try:
        newest = f"{journal}/{segment_name(segment)}"
        there = disk.stat(newest, at=tasks).st_size
        if there < size or (there > size and not _is_room(disk, tasks, newest, size)):
            return False
        disk.stat(f"{journal}/{segment_name(segment + 1)}", at=tasks)
    except FileNotFoundError as error:
        return error.filename is None or segment_name(segment + 1) in str(error.filename)
    return False


def _is_room(disk: Disk, tasks: int, segment: str, size: int) -> bool:
    """Say whether somebody who is at work made room there, and wrote nothing to it yet."""
    fd = disk.open(segment, READ, at=tasks)
    try:
        return disk.pread(fd, 1, size) == ROOM
    finally:
        disk.close(fd)


def _looked_up(disk: Disk, tasks: int, name: str) -> Head | None:
    """Find a task's id in its journal; None if it has no record yet, and so is none."""
    with opened_folder(disk, name, at=tasks) as folder:
        try:
            with opened_folder(disk, JOURNAL, at=folder) as journal:
                found = _from_journal(disk, journal, name)
        except FileNotFoundError:
            found = None
        if found is None and VIEW in disk.listdir(folder):
            return Head(name, None, problem="it has a state.json and no journal")
        return found


def _from_journal(disk: Disk, journal: int, name: str) -> Head | None:
    numbers = sorted(filter(None, map(segment_number, disk.listdir(journal))), reverse=True)
    is_empty = True
    for number in numbers:
        fd = open_file(disk, segment_name(number), READ, at=journal)
        try:
            length = disk.fstat(fd).st_size
            is_empty = is_empty and length == 0
            task = _task_in(disk, fd, length)
        finally:
            disk.close(fd)
        if task is not None:
            is_ours = folder_name(task) == name
            problem = "" if is_ours else f"its journal belongs to the task {task[:80]!a}"
            return Head(task if is_ours else name, None, problem=problem)
    if is_empty:
        return None
    if folder_name(name) == name:
        return Head(name, None)
    return Head(name, None, problem="no line of its journal tells whose it is")


def _task_in(disk: Disk, fd: int, length: int) -> str | None:
    for portion in lines_of(disk, fd, 0, length):
        first = decode_line(portion[0][1], Place(0, 0, 0))
        task = first.body.get("task") if isinstance(first, Record) else None
        return task if isinstance(task, str) else None
    return None
