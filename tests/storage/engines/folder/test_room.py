"""Room behind the last line of a journal: made by who writes often, passed over by everybody."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from tests.storage.engines.folder.harness import (
    CountingDisk,
    FullDisk,
    Recording,
    commit,
    drafted,
    entries,
    ids,
    is_line,
    quarantined,
    segment,
    task_folder,
)
from tests.storage.processes import Parent, child

from holdfast_storage.core.errors import Busy
from holdfast_storage.core.records import Record
from holdfast_storage.engines.folder.check import Checker
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.limits import Limits
from holdfast_storage.engines.folder.lock import LOCK
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

_SECTOR = 512
_NOTE = b"%06d %012d %020d\n"


def eager(root: Path, disk: Disk | None = None) -> TaskFolder:
    """Open a task as a process that makes room at its first write."""
    return task_folder(root, disk, room_after_writes=0, room_bytes=8192)


class NotTheNote(Disk):
    """Cannot flush the file of the lock."""

    def flush_data(self, fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().name == LOCK:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().flush_data(fd)


def room_of(root: Path, number: int = 1) -> int:
    """Give how many bytes lie behind the last line."""
    raw = segment(root, number).read_bytes()
    return len(raw) - len(raw.rstrip(b" "))


def problems(root: Path, disk: Disk | None = None) -> list[str]:
    """Give what `check` finds."""
    disk = disk or Disk()
    workspace = WorkspaceFolder(disk, root)
    try:
        return [found.problem for found in Checker(disk, workspace, repair=False).findings()]
    finally:
        workspace.close()


# --- when it is made, and when it goes --------------------------------------------------------


def test_a_task_that_is_seldom_written_to_gets_none(root: Path) -> None:
    commit(task_folder(root), *map(str, range(8)))

    assert room_of(root) == 0


def test_lines_over_room_make_the_file_no_larger(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, *map(str, range(9)))
    before = segment(root).stat().st_size

    commit(folder, *map(str, range(9, 40)))

    assert segment(root).stat().st_size == before
    assert room_of(root) > 0
    assert ids(task_folder(root)) == list(map(str, range(40)))


def test_longer_lines_get_more_and_large_ones_none(root: Path) -> None:
    for number, (size, least, most) in enumerate(
        [(300, 10_000, 32 << 10), (12_000, 100_000, 256 << 10), (40_000, 0, 0)]
    ):
        folder = task_folder(root / str(number))
        commit(folder, *map(str, range(9)), result="x" * size)

        assert least <= room_of(root / str(number)) <= most


def test_no_more_is_made_than_anybody_takes_for_room(root: Path) -> None:
    limits = Limits()
    folder = task_folder(root)
    commit(folder, *map(str, range(9)), result="x" * (limits.most_room_bytes // 8 - 500))
    made = room_of(root)

    assert made == limits.most_room_bytes
    # Another process sees it for the first time, and goes on behind the last line.
    other = task_folder(root)
    commit(other, "more")
    assert ids(task_folder(root))[-1] == "more"


def test_it_is_given_back_at_the_end(root: Path) -> None:
    folder = eager(root)
    commit(folder, "a", "b")
    assert room_of(root) > 0

    folder.close()

    assert segment(root).read_bytes().endswith(b"}\n")
    assert ids(eager(root)) == ["a", "b"]


def test_it_is_not_taken_from_those_who_still_write(root: Path) -> None:
    one, other = eager(root), eager(root)
    commit(one, "a")
    commit(other, "b")

    one.close()
    commit(other, "c")

    assert ids(eager(root)) == ["a", "b", "c"]
    other.close()
    assert room_of(root) == 0


def test_a_closed_segment_has_none(root: Path) -> None:
    folder = task_folder(root, room_after_writes=0, room_bytes=8192, segment_bytes=1000)
    commit(folder, *map(str, range(30)))

    segments = sorted(segment(root).parent.iterdir())
    assert len(segments) > 2
    assert [room_of(root, number) for number in range(1, len(segments))] == [0] * (
        len(segments) - 1
    )
    assert room_of(root, len(segments)) > 0


def test_on_a_disk_that_is_nearly_full_the_step_counts_and_not_the_room(root: Path) -> None:
    disk = FullDisk()
    folder = eager(root, disk)
    commit(folder, "a")
    folder.close()
    disk.room = 1000

    folder = eager(root, disk)
    commit(folder, "b")

    assert room_of(root) < 1000
    assert ids(task_folder(root)) == ["a", "b"]


def test_a_note_that_cannot_be_kept_costs_the_room_and_not_the_step(root: Path) -> None:
    commit(eager(root, NotTheNote()), "a", "b")

    assert room_of(root) == 0
    assert ids(task_folder(root)) == ["a", "b"]


# --- who passes over it -----------------------------------------------------------------------


def test_two_who_write_by_turns_use_the_same(root: Path) -> None:
    one, other = eager(root), eager(root)
    commit(one, "0")
    size = segment(root).stat().st_size

    for number in range(1, 20):
        commit((one, other)[number % 2], str(number))

    assert segment(root).stat().st_size == size
    assert ids(one) == ids(other) == list(map(str, range(20)))


def test_a_question_without_the_lock_misses_nothing_written_over_room(root: Path) -> None:
    one, other = eager(root), eager(root)
    commit(one, "a")
    for number in range(5):
        commit(other, f"b{number}")
        asked = Recording(None)
        assert (one.answer_at_once(asked) or one.commit([asked])) == [None]
        seen = [entry.id for each in asked.shown for entry in each if isinstance(entry, Record)]
        assert seen[-1] == f"b{number}"


def test_a_step_that_could_not_be_noted_is_not_written_over(root: Path) -> None:
    class Forgetting(Disk):
        forgets = False

        def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
            if self.forgets and not is_line(raw):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().pwrite(fd, raw, offset)

    disk = Forgetting()
    one, other = eager(root, disk), eager(root)
    commit(one, "a")
    commit(other, "b")
    disk.forgets = True
    commit(one, "c")

    commit(other, "d")

    assert ids(eager(root)) == ["a", "b", "c", "d"]


def test_check_says_nothing_of_it(root: Path) -> None:
    folder = eager(root)
    commit(folder, "a", "b")

    assert room_of(root) > 0
    assert not [each for each in problems(root) if "crc" in each or "parse" in each]


def test_every_line_is_json_to_whoever_skips_blanks(root: Path) -> None:
    commit(eager(root), "a", "b")

    lines = segment(root).read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines if line.strip()] == ["a", "b"]


async def writes_on_and_on(parent: Parent, root: Path) -> None:
    folder = eager(root)
    for number in range(5):
        commit(folder, f"{number}")
    parent.say("written")
    parent.wait_to_be_killed()


def test_what_a_killed_writer_leaves_is_used_by_the_next(root: Path) -> None:
    with child(writes_on_and_on, root) as writer:
        writer.expect("written")
        writer.kill()
    size = segment(root).stat().st_size
    assert room_of(root) > 0

    folder = eager(root)
    commit(folder, "after")

    assert segment(root).stat().st_size == size
    assert ids(task_folder(root)) == ["0", "1", "2", "3", "4", "after"]
    assert quarantined(root) == []


# --- what a power cut leaves ------------------------------------------------------------------


class Dying(Disk):
    """Leaves only some sectors of the next line that is written, and takes no note of it."""

    def __init__(self, spared: range) -> None:
        self._spared = spared
        self.is_dying = False
        self.torn = b""

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        if not self.is_dying:
            return super().pwrite(fd, raw, offset)
        if is_line(raw):
            first = offset // _SECTOR
            for number in self._spared:
                start = max(offset, (first + number) * _SECTOR)
                part = raw[start - offset : (first + number + 1) * _SECTOR - offset]
                super().pwrite(fd, part, start)
        return len(raw)


def _cut_in_the_middle(root: Path, spared: range, *, count: int = 1) -> None:
    disk = Dying(spared)
    folder = eager(root, disk)
    commit(folder, "a")
    disk.is_dying = True
    operations = [Recording(drafted(f"torn {n}", result="x" * 900)) for n in range(count)]
    folder.commit(operations)


@pytest.mark.parametrize("spared", [range(1, 3), range(2, 3), range(1), range(1, 2), range(2)])
@pytest.mark.parametrize("count", [1, 4])
def test_a_line_of_which_sectors_are_missing_is_set_aside(
    root: Path, spared: range, count: int
) -> None:
    _cut_in_the_middle(root, spared, count=count)

    after = eager(root)
    commit(after, "b")

    assert [(entry.seq, getattr(entry, "id", None)) for entry in entries(after)] == [
        (1, "a"),
        (2, "b"),
    ]
    assert len(quarantined(root)) == 1


def test_lines_after_one_of_which_sectors_are_missing_are_set_aside_with_it(root: Path) -> None:
    # The first of four is torn, the others are whole: all are of the same write, none was answered.
    _cut_in_the_middle(root, range(1, 20), count=4)

    after = eager(root)
    commit(after, "b")

    assert ids(after) == ["a", "b"]
    [kept] = quarantined(root)
    assert b"torn 3" in kept


def test_sectors_that_go_missing_from_lines_long_flushed_are_damage(root: Path) -> None:
    folder = eager(root)
    commit(folder, "a", "b", "c", result="x" * 1500)
    folder.close()
    _lose_a_sector_of(root, b'"id":"b"')

    after = eager(root)
    commit(after, "d")

    assert ids(after) == ["a", "c", "d"]
    assert len(entries(after)) == 4
    assert quarantined(root) == []


def test_where_nothing_tells_what_was_flushed_lines_with_others_behind_them_are_damage(
    root: Path,
) -> None:
    # A copy of a task, say, made without the files that begin with a dot, and not a good one.
    folder = eager(root)
    commit(folder, "a", "b", "c", result="x" * 1500)
    folder.close()
    _lose_a_sector_of(root, b'"id":"b"')
    (segment(root).parent.parent / ".lock").unlink()

    after = eager(root)
    commit(after, "d")

    assert ids(after) == ["a", "c", "d"]
    assert len(entries(after)) == 4
    assert quarantined(root) == []


def _lose_a_sector_of(root: Path, line: bytes) -> None:
    raw = bytearray(segment(root).read_bytes())
    lost = (raw.index(line) // _SECTOR + 1) * _SECTOR
    raw[lost : lost + _SECTOR] = bytes(_SECTOR)
    segment(root).write_bytes(raw)


def test_what_was_flushed_and_is_blank_now_is_damage(root: Path) -> None:
    for number, blank in enumerate((b"\0", b" ")):
        here = root / str(number)
        folder = eager(here)
        commit(folder, "a", "b")
        raw = segment(here).read_bytes()
        start = raw.index(b'{"seq":2')
        segment(here).write_bytes(raw[:start] + blank * (len(raw) - start))
        assert any("is not there" in problem for problem in problems(here))

        after = eager(here)
        commit(after, "c")

        assert [entry.seq for entry in entries(after)] == [1, None, 3]
        assert any("parse" in problem for problem in problems(here))


def test_an_acknowledged_line_that_is_lost_with_the_newline_before_it_is_damage(
    root: Path,
) -> None:
    folder = eager(root)
    commit(folder, "a", "b")
    raw = bytearray(segment(root).read_bytes())
    start = raw.index(b'{"seq":2')
    end = raw.index(b"\n", start) + 1
    raw[start - 1 : end] = bytes(end - start + 1)
    segment(root).write_bytes(raw)

    after = eager(root)
    commit(after, "c")

    assert [entry.seq for entry in entries(after)] == [1, None, 3]


def test_a_note_of_another_file_tells_nothing(root: Path, tmp_path: Path) -> None:
    # A copy that was made while somebody wrote: the journal first, and the note after another step.
    folder = eager(root)
    commit(folder, "a")
    earlier = segment(root).read_bytes()
    commit(folder, "b")
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    segment(copy).write_bytes(earlier)

    after = task_folder(copy)
    commit(after, "c")

    assert ids(after) == ["a", "c"]
    assert len(entries(after)) == 2


def test_who_only_reads_can_do_without_a_note_that_is_kept(root: Path) -> None:
    commit(eager(root), "a")
    (segment(root).parent.parent / LOCK).unlink()

    assert ids(task_folder(root, NotTheNote())) == ["a"]
    # There is no room where no note can be kept of it.
    assert room_of(root) == 0


@pytest.mark.parametrize("length", ["behind the room", "behind the file"])
def test_a_note_that_tells_of_too_much_does_not_say_where_the_next_line_goes(
    root: Path, length: str
) -> None:
    folder = eager(root)
    commit(folder, "a", "b")
    size = segment(root).stat().st_size + (1000 if length == "behind the file" else 0)
    _note(root, size)

    commit(folder, "c")

    assert ids(task_folder(root)) == ["a", "b", "c"]


def test_a_note_that_points_into_a_line_takes_nothing_away(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a", result="x" + " " * 3000 + "y")
    commit(folder, "b", "c")
    folder.close()
    _note(root, 200)

    assert ids(task_folder(root)) == ["a", "b", "c"]
    commit(task_folder(root), "d")
    assert ids(task_folder(root)) == ["a", "b", "c", "d"]


def _note(root: Path, length: int) -> None:
    noted = _NOTE % (1, length, segment(root).stat().st_ino)
    (segment(root).parent.parent / LOCK).write_bytes(noted)


def test_a_reader_on_a_full_disk_takes_nothing_torn_for_flushed(root: Path) -> None:
    class Full(Disk):
        def mkdir(self, name: str, *, at: int | None) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _cut_in_the_middle(root, range(1, 20), count=4)
    assert ids(task_folder(root, Full())) == ["a"]

    after = eager(root)
    commit(after, "b")

    assert ids(after) == ["a", "b"]
    assert len(entries(after)) == 2


def test_over_room_that_was_found_nothing_is_written_before_a_note_is_kept(root: Path) -> None:
    class Keeping(Disk):
        kept = b""

        def flush_data(self, fd: int) -> None:
            if Path(f"/proc/self/fd/{fd}").readlink().name == LOCK:
                self.kept = os.pread(fd, 100, 0)
            super().flush_data(fd)

    commit(eager(root), "a")
    lock = segment(root).parent.parent / LOCK
    lock.unlink()
    disk = Keeping()

    commit(task_folder(root, disk), "b")

    first = len(segment(root).read_bytes().split(b"\n")[0]) + 1
    assert disk.kept == _NOTE % (1, first, segment(root).stat().st_ino)


def test_zeros_in_the_place_of_room_go(root: Path) -> None:
    commit(task_folder(root), "a", "b")
    with segment(root).open("ab") as file:
        file.write(bytes(4096))
    disk = CountingDisk()
    after = task_folder(root, disk)
    commit(after, "c")
    before = disk.flushes

    commit(after, "d", "e")

    assert disk.flushes - before == 2
    assert ids(task_folder(root)) == ["a", "b", "c", "d", "e"]


def test_where_a_task_is_closed_after_each_write_none_is_made_each_time(root: Path) -> None:
    disk = CountingDisk()
    folder = task_folder(root, disk)
    commit(folder, *map(str, range(12)))
    before = disk.flushes

    for number in range(12, 32):
        commit(folder, str(number))
        folder.close_if_idle()

    # One more for the room that was there when it began.
    assert disk.flushes - before <= 22


def test_who_closes_a_segment_cuts_off_the_room_that_another_made(root: Path) -> None:
    one, other = task_folder(root), task_folder(root)
    commit(one, *map(str, range(9)))
    assert room_of(root) > 0
    entries(other)

    commit(other, "next run", opens=True)

    assert room_of(root) == 0
    assert ids(task_folder(root))[-1] == "next run"


def test_nobody_writes_over_room_while_check_reads_it(root: Path) -> None:
    class Meanwhile(Disk):
        had_to_wait = False

        def pread(self, fd: int, size: int, offset: int) -> bytes:
            raw = super().pread(fd, size, offset)
            if len(raw) == 1 << 20:
                # The first part of the segment is read, and the rest is not.
                with pytest.raises(Busy):
                    commit(task_folder(root, lock_wait_seconds=0.01), "meanwhile")
                self.had_to_wait = True
            return raw

    commit(task_folder(root), *map(str, range(60)), result="x" * 20_000)
    disk = Meanwhile()

    found = problems(root, disk)

    assert disk.had_to_wait
    assert [each for each in found if "parse" in each or "crc" in each or "missing" in each] == []


def test_a_disk_that_takes_all_of_a_write_or_nothing_takes_it_without_room(root: Path) -> None:
    class AllOrNothing(Disk):
        def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
            if is_line(raw) and raw.endswith(b" "):
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
            return super().pwrite(fd, raw, offset)

    commit(eager(root, AllOrNothing()), "a", "b")

    assert ids(task_folder(root)) == ["a", "b"]


# --- what is flushed, and when ----------------------------------------------------------------


def test_the_note_is_flushed_when_room_is_made_and_not_again(root: Path) -> None:
    disk = CountingDisk()
    folder = eager(root, disk)
    commit(folder, "a")
    before = disk.flushes

    commit(folder, *map(str, range(10)))

    assert disk.flushes == before + 10


def test_what_a_file_is_can_be_asked_without_its_times(root: Path) -> None:
    commit(task_folder(root), "a")
    found = segment(root).stat()

    assert Disk().identity(str(segment(root))) == (found.st_ino, found.st_dev, found.st_size)
    with pytest.raises(FileNotFoundError):
        Disk().identity(f"{root}/gone")
