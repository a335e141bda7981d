"""What only asks is answered without the lock as long as nothing was written, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.storage.engines.folder.harness import (
    FailingFlush,
    Recording,
    Refusing,
    commit,
    drafted,
    last_seq,
    segment,
    task_folder,
)

from holdfast_storage.core.errors import NotSaved
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.waiting import WhileWaiting


class WithoutLock(Disk):
    """Nobody gets a lock from now on."""

    is_locked = False

    def lock_in_turn(
        self,
        gate: int,
        fd: int,
        wait_seconds: float = 0.0,
        while_waiting: WhileWaiting | None = None,
    ) -> bool:
        return not self.is_locked and super().lock_in_turn(gate, fd, wait_seconds, while_waiting)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


def committed(folder: TaskFolder, *ids: str) -> TaskFolder:
    """Commit, and look under the lock that this is all there is."""
    commit(folder, *ids)
    assert folder.commit_at_once(Recording(None, known=last_seq(folder))) == [None]
    return folder


def asked(folder: TaskFolder) -> bool:
    """Ask, knowing all that this process has read; False if that was not to be answered so."""
    question = Recording(None, known=last_seq(folder))
    outcomes = folder.answer_at_once(question)
    assert outcomes in ([], [None])
    assert question.accepted == [None] * len(outcomes)
    return bool(outcomes)


def test_the_second_question_needs_no_lock(root: Path) -> None:
    disk = WithoutLock()
    folder = committed(task_folder(root, disk), "a")
    disk.is_locked = True

    assert asked(folder)


def test_a_question_after_ones_own_write_needs_no_lock(root: Path) -> None:
    disk = WithoutLock()
    folder = task_folder(root, disk)
    commit(folder, "a")
    disk.is_locked = True

    assert asked(folder)


def test_after_ones_own_write_a_record_of_another_process_is_seen(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a")
    commit(task_folder(root), "b")

    assert not asked(folder)


def test_after_ones_own_write_a_run_that_another_process_opened_is_seen(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a")
    [refusal] = task_folder(root).commit([Recording(drafted("b", opens=True))])

    assert refusal is None
    assert not asked(folder)


def test_after_ones_own_write_what_another_is_just_writing_is_not_passed_over(root: Path) -> None:
    folder = task_folder(root)
    commit(folder, "a")
    with segment(root).open("ab") as journal:
        journal.write(b'{"seq":2,"id"')

    assert not asked(folder)


def test_a_question_needs_no_descriptors(root: Path) -> None:
    folder = committed(task_folder(root), "a")
    folder.close()

    assert asked(folder)


def test_a_refusal_is_the_answer(root: Path) -> None:
    folder = committed(task_folder(root), "a")

    [refusal] = folder.answer_at_once(Refusing(known=1))

    assert isinstance(refusal, ValueError)


def test_whoever_has_not_seen_everything_is_not_answered_so(root: Path) -> None:
    folder = committed(task_folder(root), "a", "b")

    assert folder.answer_at_once(Recording(None, known=1)) == []


def test_a_record_of_another_process_is_seen(root: Path) -> None:
    folder = committed(task_folder(root), "a")
    commit(task_folder(root), "b")

    assert not asked(folder)


def test_what_another_process_is_just_writing_is_not_passed_over(root: Path) -> None:
    folder = committed(task_folder(root), "a")
    with segment(root).open("ab") as journal:
        journal.write(b'{"seq":2,"id"')

    assert not asked(folder)


def test_a_run_that_another_process_opened_is_seen(root: Path) -> None:
    """It begins a segment of its own, and leaves the one before as it was."""
    folder = committed(task_folder(root), "a")
    other = task_folder(root)
    [refusal] = other.commit([Recording(drafted("b", opens=True))])

    assert refusal is None
    assert segment(root, 2).exists()
    assert not asked(folder)


def test_a_journal_that_somebody_replaced_is_seen(root: Path) -> None:
    folder = committed(task_folder(root), "a")
    raw = segment(root).read_bytes()
    segment(root).rename(segment(root).with_suffix(".old"))
    segment(root).write_bytes(raw)

    assert not asked(folder)


def test_a_journal_written_over_in_its_place_is_seen_though_it_is_as_long(root: Path) -> None:
    folder = committed(task_folder(root), "a")
    raw = segment(root).read_bytes()
    with segment(root).open("r+b") as journal:
        journal.write(raw.replace(b"an agent", b"a backup"))

    assert not asked(folder)


def test_a_task_that_somebody_took_away_is_not_answered_for(root: Path) -> None:
    folder = committed(task_folder(root), "a")
    (root / "tasks" / "t").rename(root / "tasks" / "elsewhere")

    assert not asked(folder)


def test_after_a_flush_that_failed_the_journal_is_looked_at(root: Path) -> None:
    disk = FailingFlush()
    folder = committed(task_folder(root, disk), "a")
    disk.failures, disk.can_truncate = 100, False
    with pytest.raises(NotSaved):
        commit(folder, "b")

    assert not asked(folder)


def test_what_was_only_read_is_looked_at_under_the_lock_first(root: Path) -> None:
    commit(task_folder(root), "a")
    reader = task_folder(root)
    list(reader.read(0))

    assert not asked(reader)
    assert reader.commit_at_once(Recording(None, known=1)) in ([], [None])
