"""When operations of one write make up their answers, and when they are told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tests.storage.engines.folder.harness import Recording, drafted, ids, task_folder

from holdfast_storage.core.records import Record
from holdfast_storage.engines.base import Foreseeing
from holdfast_storage.engines.folder.disk import Disk


class Story:
    """What happened, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []


class Telling(Disk):
    """Tells of every write to a journal and every flush of one."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def begin_flush(self, fd: int) -> None:
        self._story.told.append("written")
        super().begin_flush(fd)

    def flush_data(self, fd: int) -> None:
        super().flush_data(fd)
        self._story.told.append("flushed")


class Foreseen(Recording, Foreseeing):
    """An operation that tells when it decides, makes up its answer and is accepted."""

    def __init__(self, story: Story, id: str, known: int, *, fails: bool = False) -> None:
        super().__init__(drafted(id), known)
        self._story, self._id, self._fails = story, id, fails

    def foresee(self, record: Record | None) -> None:
        self._story.told.append(f"{self._id} foresees")
        if self._fails:
            raise ValueError(self._id)

    def abandon(self) -> None:
        raise AssertionError

    def accept(self, record: Record | None) -> None:
        self._story.told.append(f"{self._id} accepted")
        super().accept(record)


def test_the_last_one_makes_up_its_answer_while_the_disk_writes(tmp_path: Path) -> None:
    story = Story()
    folder = task_folder(tmp_path / ".holdfast", disk=Telling(story))
    folder.commit([Recording(drafted("zero"), 0)])
    story.told.clear()

    folder.commit([Foreseen(story, "a", 1), Foreseen(story, "b", 1)])

    made_up = ["a foresees", "written", "b foresees", "flushed"]
    assert story.told == [*made_up, "a accepted", "b accepted"]
    folder.close()


def test_an_answer_that_cannot_be_made_up_costs_the_others_nothing(tmp_path: Path) -> None:
    story = Story()
    folder = task_folder(tmp_path / ".holdfast", disk=Telling(story))
    folder.commit([Recording(drafted("zero"), 0)])

    refusals = folder.commit(
        [
            Foreseen(story, "a", 1, fails=True),
            Foreseen(story, "b", 1),
            Foreseen(story, "c", 1, fails=True),
        ]
    )

    assert [type(refusal) for refusal in refusals] == [ValueError, type(None), ValueError]
    assert ids(folder) == ["zero", "a", "b", "c"]
    folder.close()


def test_what_the_disk_says_when_it_begins_to_write_is_heard(tmp_path: Path) -> None:
    """It may say it only once: the flush after it would then succeed and mean nothing."""

    class Failing(Disk):
        has_failed = False

        def begin_flush(self, fd: int) -> None:
            if not self.has_failed:
                self.has_failed = True
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    story = Story()
    folder = task_folder(tmp_path / ".holdfast", disk=Failing())
    folder.commit([Recording(drafted("zero"), 0)])

    refusals = folder.commit([Foreseen(story, "a", 1)])

    assert refusals == [None]
    assert story.told == ["a accepted"]
    journal = tmp_path / ".holdfast/tasks/t/journal"
    assert b'"id":"a"' in (journal / "000002.jsonl").read_bytes()
    folder.close()
