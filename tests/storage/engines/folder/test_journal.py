"""What is in the journal survives what happens to its file."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.storage.engines.folder.harness import (
    CountingDisk,
    FailingFlush,
    FullDisk,
    Recording,
    Refusing,
    commit,
    drafted,
    entries,
    ids,
    last_seq,
    quarantined,
    raised,
    segment,
    task_folder,
)

from holdfast_storage.core.errors import Damaged, JournalReplaced, NotSaved
from holdfast_storage.core.records import DamagedLine, Record
from holdfast_storage.engines.folder.disk import FILE_MODE, Disk, Identity
from holdfast_storage.engines.folder.trash import Trash
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


# --- torn tails -------------------------------------------------------------------------------


def test_a_last_line_cut_at_any_byte_is_there_whole_or_not_at_all(
    root: Path, tmp_path: Path
) -> None:
    commit(task_folder(root), "a", "b")
    whole = segment(root).read_bytes()
    start = whole.index(b"\n") + 1

    for length in range(start, len(whole) + 1):
        copy = tmp_path / f"cut at {length}"
        shutil.copytree(root, copy)
        segment(copy).write_bytes(whole[:length])

        found = ids(task_folder(copy))
        [record] = commit(task_folder(copy), "c")

        is_whole = length >= len(whole) - 1  # the newline alone may be missing
        assert found == (["a", "b"] if is_whole else ["a"])
        assert record.seq == len(found) + 1
        assert ids(task_folder(copy)) == [*found, "c"]
        is_torn = start < length < len(whole) - 1
        assert quarantined(copy) == ([whole[start:length]] if is_torn else [])


def test_a_tail_is_mended_only_after_its_copy_is_kept(root: Path) -> None:
    commit(task_folder(root), "a")
    with segment(root).open("ab") as file:
        file.write(b'{"seq":2,"id":"half')
    disk = FullDisk()
    disk.room = 0

    with pytest.raises(NotSaved):
        commit(task_folder(root, disk), "b")

    assert segment(root).read_bytes().endswith(b'{"seq":2,"id":"half')


# --- damaged lines ----------------------------------------------------------------------------


def test_a_damaged_middle_line_costs_only_itself(root: Path) -> None:
    commit(task_folder(root), "a", "b", "c", step="doc")
    damage(root, b'"id":"b"', b'"id":"?"')

    first, second, third = entries(task_folder(root))

    assert (first.seq, third.seq) == (1, 3)
    assert isinstance(second, DamagedLine)
    assert (second.seq, second.step, second.op) == (2, "doc", "done")
    assert [record.seq for record in commit(task_folder(root), "d")] == [4]


def test_a_damaged_last_line_keeps_its_seq(root: Path) -> None:
    commit(task_folder(root), "a", "b")
    lines = segment(root).read_bytes().splitlines(keepends=True)
    segment(root).write_bytes(lines[0] + b"\x00" * 20 + b"\n")

    [record] = commit(task_folder(root), "c")

    assert record.seq == 3
    assert [type(entry) for entry in entries(task_folder(root))] == [Record, DamagedLine, Record]


def test_a_line_that_somebody_put_in_takes_no_seq(root: Path) -> None:
    commit(task_folder(root), "a", "b")
    lines = segment(root).read_bytes().splitlines(keepends=True)
    segment(root).write_bytes(lines[0] + b"a remark\n" + lines[1])

    first, remark, second = entries(task_folder(root))

    assert isinstance(remark, DamagedLine)
    assert (first.seq, remark.seq, second.seq) == (1, 1, 2)
    assert [record.seq for record in commit(task_folder(root), "c")] == [3]


def test_a_damaged_seq_far_off_is_not_believed(root: Path) -> None:
    commit(task_folder(root), "a", "b")
    damage(root, b'"seq":2,', b'"seq":999999999999,')

    [record] = commit(task_folder(root), "c")

    assert record.seq == 3


def test_another_tasks_journal_is_not_taken_for_ours(root: Path) -> None:
    commit(task_folder(root, task="other"), "a")
    (root / "tasks" / "other").rename(root / "tasks" / "t")

    with pytest.raises(Damaged):
        entries(task_folder(root))
    with pytest.raises(Damaged):
        commit(task_folder(root), "b")


def damage(root: Path, old: bytes, new: bytes) -> None:
    raw = segment(root).read_bytes()
    assert old in raw
    segment(root).write_bytes(raw.replace(old, new))


# --- a journal that was replaced --------------------------------------------------------------


def test_whoever_remembers_a_replaced_journal_must_begin_anew(root: Path, tmp_path: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a", "b")
    backup = tmp_path / "backup"
    shutil.copytree(root / "tasks" / "t" / "journal", backup)
    commit(folder, "c", "d")
    shutil.rmtree(root / "tasks" / "t" / "journal")
    shutil.copytree(backup, root / "tasks" / "t" / "journal")

    with pytest.raises(JournalReplaced):
        commit(folder, "e")
    # A reader that begins anew does so for itself.
    assert folder.opening() == 0
    remembers = folder.commit([Recording(drafted("e"), known=2)])
    began_anew = folder.commit([Recording(drafted("e"), known=0)])

    assert raised(remembers) == [JournalReplaced]
    assert began_anew == [None]
    assert ids(task_folder(root)) == ["a", "b", "e"]


def test_a_shortened_journal_is_a_replaced_one(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a", "b")
    segment(root).write_bytes(segment(root).read_bytes().splitlines(keepends=True)[0])

    with pytest.raises(JournalReplaced):
        entries(folder, after=2)

    assert [record.seq for record in commit(task_folder(root), "c")] == [2]


def test_another_last_line_of_the_same_length_is_a_replaced_journal(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a", "b")
    damage(root, b'"id":"b"', b'"id":"x"')

    outcome = folder.commit([Recording(drafted("c"), known=2)])

    assert raised(outcome) == [JournalReplaced]


def test_a_folder_that_was_replaced_is_reached_anew(root: Path, tmp_path: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a")
    (root / "tasks" / "t").rename(tmp_path / "moved away")
    commit(task_folder(root), "b")

    found = ids(folder)

    assert found == ["b"]
    assert ids(task_folder(root)) == ["b"]


def test_a_workspace_that_was_deleted_is_made_anew(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a")
    shutil.rmtree(root)

    outcome = folder.commit([Recording(drafted("b"))])

    assert outcome == [None]
    assert ids(task_folder(root)) == ["b"]
    assert (root / "holdfast.json").exists()


def test_a_lock_that_somebody_deleted_locks_nobody_out(root: Path) -> None:
    folder, other = task_folder(root), task_folder(root)
    commit(folder, "a")
    (root / "tasks" / "t" / ".lock").unlink()

    commit(other, "b")
    commit(folder, "c")

    assert ids(task_folder(root)) == ["a", "b", "c"]


# --- segments ---------------------------------------------------------------------------------


def test_a_segment_rolls_when_it_is_full(root: Path) -> None:
    folder = task_folder(root, segment_bytes=1000)

    records = commit(folder, *(f"{n}" for n in range(30)))

    assert records[-1].place.segment > 2
    assert [record.seq for record in records] == list(range(1, 31))
    assert ids(task_folder(root)) == [f"{n}" for n in range(30)]
    for number in range(1, records[-1].place.segment):
        assert 1000 <= segment(root, number).stat().st_size < 1500


def test_a_long_line_does_not_make_a_segment_each_time(root: Path) -> None:
    folder = task_folder(root, segment_bytes=1000)

    records = commit(folder, *"abcd", state="x" * 5000)

    assert {record.place.segment for record in records} == {1}


def test_a_run_opens_at_the_start_of_a_segment(root: Path) -> None:
    folder = task_folder(root)
    operations = [
        Recording(drafted("a")),
        Recording(drafted("b", opens=True)),
        Recording(drafted("c")),
        Recording(drafted("d", opens=True)),
    ]

    folder.commit(operations)

    places = [
        (record.place.segment, record.place.offset)
        for op in operations
        for record in op.accepted
        if record
    ]
    assert [places[1], places[3]] == [(2, 0), (3, 0)]
    cold = task_folder(root)
    assert cold.opening() == 3
    assert [entry.seq for entry in entries(cold, after=3)] == [4]


def test_a_cold_reader_looks_only_at_the_segments_it_needs(root: Path) -> None:
    commit(task_folder(root, segment_bytes=1000), *(f"{n}" for n in range(60)))
    disk = OpeningDisk()
    cold = task_folder(root, disk)

    found = entries(cold, after=57)

    assert [entry.seq for entry in found] == [58, 59, 60]
    assert len([name for name in disk.opened if name.endswith(".jsonl")]) <= 4


def test_a_second_process_follows_to_a_new_segment(root: Path) -> None:
    one, other = task_folder(root, segment_bytes=500), task_folder(root, segment_bytes=500)

    for n in range(20):
        commit((one, other)[n % 2], f"{n}")

    assert ids(one) == [f"{n}" for n in range(20)]


class OpeningDisk(CountingDisk):
    """Remembers what was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open(self, name: str, flags: int, mode: int = 0o600, *, at: int | None) -> int:
        self.opened.append(name)
        return super().open(name, flags, mode, at=at)


# --- reading on -------------------------------------------------------------------------------


class LookingDisk(Disk):
    """Counts what is read and looked at."""

    looks = 0

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self.looks += 1
        return super().pread(fd, size, offset)

    def fstat(self, fd: int) -> os.stat_result:
        self.looks += 1
        return super().fstat(fd)

    def stat(self, name: str, *, at: int | None) -> os.stat_result:
        self.looks += 1
        return super().stat(name, at=at)

    def identity(self, path: str) -> Identity:
        self.looks += 1
        return super().identity(path)


def test_reading_on_costs_no_more_than_finding_that_there_is_nothing(root: Path) -> None:
    disk = LookingDisk()
    ours, theirs = task_folder(root, disk), task_folder(root)
    commit(ours, "a", "b")
    before = disk.looks
    commit(ours, "c")
    with_nothing = disk.looks - before
    commit(theirs, "d", "e", "f")
    before = disk.looks

    [record] = commit(ours, "g")

    assert record.seq == 7
    assert disk.looks - before == with_nothing == 4


def test_what_two_write_by_turns_each_of_them_is_shown(root: Path) -> None:
    ours, theirs = task_folder(root), task_folder(root)
    commit(ours, "a")
    commit(theirs, "b", "c")
    operation = Recording(drafted("d"), known=last_seq(ours))

    ours.commit([operation])

    assert [(entry.seq, entry.place) for entry in operation.shown[-1]] == [
        (entry.seq, entry.place) for entry in entries(task_folder(root))[1:3]
    ]
    commit(theirs, "e")
    assert ids(ours) == ids(theirs) == ids(task_folder(root)) == ["a", "b", "c", "d", "e"]


def test_a_line_damaged_before_it_was_read_on_is_not_believed(root: Path) -> None:
    ours, theirs = task_folder(root), task_folder(root)
    commit(ours, "a")
    commit(theirs, "b", "c")
    damage(root, b'"id":"b"', b'"id":"?"')
    operation = Recording(drafted("d"), known=last_seq(ours))

    ours.commit([operation])

    assert [type(entry) for entry in operation.shown[-1]] == [DamagedLine, Record]
    assert [record.seq for record in operation.accepted if record] == [4]


def test_a_line_damaged_after_it_was_read_makes_it_another_journal(root: Path) -> None:
    ours, theirs = task_folder(root), task_folder(root)
    commit(ours, "a")
    commit(theirs, "b")
    damage(root, b'"id":"a"', b'"id":"?"')

    with pytest.raises(JournalReplaced):
        commit(ours, "c")


def test_more_than_is_read_in_one_go_is_read_all_the_same(root: Path) -> None:
    ours, theirs = task_folder(root), task_folder(root)
    commit(ours, "a")
    commit(theirs, *(f"b{n}" for n in range(10)), result="x" * 10_000)
    operation = Recording(drafted("c"), known=last_seq(ours))

    ours.commit([operation])

    assert [entry.seq for entry in operation.shown[-1]] == list(range(2, 12))


# --- flushing ---------------------------------------------------------------------------------


def test_a_hot_commit_flushes_once(root: Path) -> None:
    disk = CountingDisk()
    folder = task_folder(root, disk)
    commit(folder, "a")
    before = disk.flushes

    commit(folder, "b", "c", "d")

    assert disk.flushes - before == 3


def test_a_batch_flushes_once(root: Path) -> None:
    disk = CountingDisk()
    folder = task_folder(root, disk)
    commit(folder, "a")
    before = disk.flushes

    folder.commit([Recording(drafted(f"{n}"), known=1) for n in range(50)])

    assert disk.flushes - before == 1


def test_a_reader_does_not_flush_what_is_known_to_be_flushed(root: Path) -> None:
    commit(task_folder(root), "a", "b")
    disk = CountingDisk()

    assert ids(task_folder(root, disk)) == ["a", "b"]

    assert disk.flushes == 0


def test_each_operation_of_a_batch_sees_those_before_it(root: Path) -> None:
    folder = task_folder(root)
    operations = [Recording(drafted("a")), Refusing(), Recording(None), Recording(drafted("b"))]

    outcomes = folder.commit(operations)

    assert raised(outcomes) == [None, ValueError, None, None]
    assert [[entry.seq for entry in op.shown[-1]] for op in operations if op.shown] == [
        [],
        [1],
        [1],
    ]
    assert ids(task_folder(root)) == ["a", "b"]


def test_a_value_that_cannot_be_written_harms_only_its_own_operation(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a")
    operations = [Recording(drafted("b", text="\ud800"), known=1), Recording(drafted("c"), known=1)]

    outcomes = folder.commit(operations)

    assert outcomes[0] is not None and outcomes[1] is None
    assert [entry.seq for entry in entries(task_folder(root))] == [1, 2]


# --- a flush that fails -----------------------------------------------------------------------


def test_after_a_failed_flush_the_records_go_to_a_new_segment(root: Path) -> None:
    disk = FailingFlush()
    folder = task_folder(root, disk)
    commit(folder, "a")
    disk.failures = 1

    [record] = commit(folder, "b")

    assert (record.seq, record.place.segment, record.place.offset) == (2, 2, 0)
    commit(folder, "c")
    for reader in (folder, task_folder(root)):
        assert ids(reader) == ["a", "b", "c"]
        assert reader.fetch([record.place]) == [record]


def test_a_record_that_is_there_twice_counts_once(root: Path) -> None:
    disk = FailingFlush()
    disk.can_truncate = False  # so it stays in the old segment too
    folder = task_folder(root, disk)
    commit(folder, "a")
    disk.failures = 1

    commit(folder, "b", "c")

    assert all(b'"id":"b"' in segment(root, number).read_bytes() for number in (1, 2))
    for reader in (folder, task_folder(root)):
        assert [entry.seq for entry in entries(reader)] == [1, 2, 3]
        assert [entry.seq for entry in entries(reader, after=1)] == [2, 3]
    assert [record.seq for record in commit(task_folder(root), "d")] == [4]


def test_a_tail_that_broke_off_and_was_written_again_is_no_damage(root: Path) -> None:
    disk = FailingFlush()
    folder = task_folder(root, disk)
    commit(folder, "a")
    disk.failures = 1
    commit(folder, "b")

    with segment(root).open("ab") as file:
        file.write(b'{"seq":2,"id":"b","at"')

    found = entries(task_folder(root))
    assert [(type(entry), entry.seq) for entry in found] == [(Record, 1), (Record, 2)]


def test_what_can_be_flushed_nowhere_is_not_saved_and_not_there(root: Path) -> None:
    disk = FailingFlush()
    folder = task_folder(root, disk)
    commit(folder, "a")
    disk.failures = 1000

    with pytest.raises(NotSaved):
        commit(folder, "b")
    with pytest.raises(NotSaved):
        commit(folder, "c")
    found = ids(task_folder(root))
    disk.failures = 0
    commit(folder, "d")

    assert found == ["a"]
    assert ids(task_folder(root)) == ["a", "d"]
    assert [entry.seq for entry in entries(task_folder(root))] == [1, 2]


def test_a_refusal_is_not_told_if_what_it_rests_on_was_not_saved(root: Path) -> None:
    disk = FailingFlush()
    folder = task_folder(root, disk)
    commit(folder, "a")
    disk.failures = 1000

    outcomes = folder.commit(
        [Recording(drafted("b"), known=1), Refusing(known=1), Recording(None, 1)]
    )

    assert raised(outcomes) == [NotSaved, NotSaved, NotSaved]


# --- a full disk ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("room", "length"),
    [
        (0, 0),
        (1, 0),
        (50, 0),
        (90, 0),
        *((room, 1_000_000) for room in (300_000, 600_000, 999_000)),
    ],
)
def test_a_full_disk_takes_nothing_and_work_goes_on_when_there_is_room(
    root: Path, room: int, length: int
) -> None:
    disk = FullDisk()
    folder = task_folder(root, disk)
    commit(folder, "a")
    before = segment(root).read_bytes()
    disk.room = room

    with pytest.raises(NotSaved):
        commit(folder, "b", result="x" * length)

    assert segment(root).read_bytes() == before
    disk.room = None
    commit(folder, "c", result="y" * length)
    assert [(entry.seq, getattr(entry, "id", "")) for entry in entries(task_folder(root))] == [
        (1, "a"),
        (2, "c"),
    ]


def test_a_long_line_is_written_in_pieces_that_the_kernel_has_memory_for(root: Path) -> None:
    disk = NotingSizes()
    folder = task_folder(root, disk)

    [record] = commit(folder, "a", result=list(range(300_000)))

    assert record.place.length > 4 * max(disk.sizes)
    [read] = entries(task_folder(root))
    assert isinstance(read, Record)
    assert read.body["result"] == list(range(300_000))


class NotingSizes(Disk):
    """Notes how much is written at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        self.sizes.append(len(raw))
        return super().pwrite(fd, raw, offset)


def test_a_disk_that_is_full_from_the_start_leaves_no_task(root: Path) -> None:
    disk = FullDisk()
    folder = task_folder(root, disk)
    disk.room = 0

    with pytest.raises(NotSaved):
        commit(folder, "a")

    disk.room = None
    [record] = commit(folder, "a")
    assert record.seq == 1


def test_a_full_disk_keeps_nobody_from_reading(root: Path) -> None:
    commit(task_folder(root), "a", "b")
    with segment(root).open("ab") as file:
        file.write(b'{"seq":3,"id":"half')
    disk = FullDisk()
    disk.room = 0

    assert ids(task_folder(root, disk)) == ["a", "b"]

    assert segment(root).read_bytes().endswith(b'"half')
    assert [record.seq for record in commit(task_folder(root), "c")] == [3]


def test_a_workspace_that_may_not_be_written_to_can_be_read(root: Path) -> None:
    commit(task_folder(root), "a", "b")
    folder = task_folder(root, ReadOnlyDisk())

    assert ids(folder) == ["a", "b"]
    with pytest.raises(NotSaved):
        commit(folder, "c")

    assert ids(task_folder(root)) == ["a", "b"]


class ReadOnlyDisk(Disk):
    """A disk that was mounted read-only."""

    def open(self, name: str, flags: int, mode: int = 0o600, *, at: int | None) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return super().open(name, flags, mode, at=at)

    def mkdir(self, name: str, *, at: int | None) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_whoever_knows_nothing_begins_anew_by_deciding(root: Path, tmp_path: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a", "b")
    segment(root).write_bytes(segment(root).read_bytes().splitlines(keepends=True)[0])
    operations = [
        Recording(drafted("c"), known=2),
        Recording(drafted("d"), known=0),
        Recording(drafted("e"), known=2),
    ]

    outcomes = [folder.commit([operation])[0] for operation in operations]

    assert raised(outcomes) == [JournalReplaced, None, None]
    assert ids(task_folder(root)) == ["a", "d", "e"]


def test_no_second_workspace_grows_where_a_project_was_moved_away(tmp_path: Path) -> None:
    project = tmp_path / "project"
    folder = task_folder(project / ".holdfast")
    commit(folder, "a")
    project.rename(tmp_path / "renamed")

    with pytest.raises(NotSaved):
        commit(folder, "b")

    assert not project.exists()
    assert ids(task_folder(tmp_path / "renamed" / ".holdfast")) == ["a"]


def test_others_of_a_batch_that_began_anew_need_not(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a", "b")
    segment(root).write_bytes(segment(root).read_bytes().splitlines(keepends=True)[0])
    anew, follower = Recording(drafted("c"), known=0), Recording(drafted("d"), known=1)

    assert raised(folder.commit([Recording(None, known=2)])) == [JournalReplaced]
    outcomes = folder.commit([anew, follower])

    assert outcomes == [None, None]
    assert ids(task_folder(root)) == ["a", "c", "d"]


# --- reading while others write ---------------------------------------------------------------


class InterruptedReader(Disk):
    """Does something just before a segment is opened, once."""

    before_segment: Callable[[], object] | None = None

    def open(self, name: str, flags: int, mode: int = FILE_MODE, *, at: int | None) -> int:
        happen = self.before_segment
        if happen and name.endswith(".jsonl"):
            self.before_segment = None
            happen()
        return super().open(name, flags, mode, at=at)


@pytest.mark.parametrize("text", ["", "longer than before"])
def test_a_reader_does_not_take_a_segment_that_is_rewritten_meanwhile_for_damaged(
    root: Path, text: str
) -> None:
    disk = InterruptedReader()
    reader, writer = task_folder(root, disk), task_folder(root)
    commit(writer, "a", "b", "c")
    trash = Trash(Disk(), WorkspaceFolder(Disk(), root))
    commit(reader, "d")
    disk.before_segment = lambda: writer.rewrite({2: drafted("b", text=text)}, "prune", trash)
    portions = reader.read(0)

    found = [entry for portion in portions for entry in portion]

    assert [entry.id for entry in found if isinstance(entry, Record)] == ["a", "b", "c", "d"]
    assert len(found) == 4


def test_two_who_list_the_same_open_folder_each_see_all_of_it(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / f"task-{number}").mkdir()
    disk = Disk()

    def folders(fd: int) -> list[str]:
        return list(disk.folders(fd))

    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with ThreadPoolExecutor(8) as threads:
            listings = [len(found) for found in threads.map(folders, [fd] * 100)]
            names = [len(found) for found in threads.map(disk.listdir, [fd] * 100)]
    finally:
        os.close(fd)

    assert set(listings) == set(names) == {500}
