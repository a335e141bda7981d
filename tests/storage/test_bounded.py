"""However many tasks a process meets, it remembers the last few, and tidies up after the dead."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import pytest

from holdfast_storage.core import strict_json, view
from holdfast_storage.core.errors import HoldfastError, LoadFirst
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.commit_queue import CommitQueue
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.remembered import Remembered
from holdfast_storage.workspace import Workspace


def alive(*kinds: type) -> int:
    """Count the objects of these kinds that somebody still holds."""
    gc.collect()
    return sum(isinstance(each, kinds) for each in gc.get_objects())


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*")]


def opened(root: Path, known_tasks: int = 256) -> Workspace:
    schema = strict_json.pretty(view.schema())
    return Workspace(FolderEngine.open(root, schema=schema, hot_tasks=2, known_tasks=known_tasks))


async def test_the_engine_forgets_the_tasks_used_least_recently(root: Path) -> None:
    before = alive(TaskFolder, CommitQueue)
    async with opened(root, known_tasks=4) as workspace:
        for number in range(30):
            await workspace.task(f"task-{number}").done("step", number)

        assert alive(TaskFolder, CommitQueue) - before <= 2 * 5

        for number in range(30):
            again = await workspace.task(f"task-{number}").done("step", "another")
            assert (again.already_done, again.result) == (True, number)


async def test_the_engine_forgets_tasks_whose_views_it_and_others_rendered_in_turn(
    root: Path,
) -> None:
    """What a rendering displaced is looked at there and then, and keeps nobody busy for ever."""
    before = alive(TaskFolder)
    async with opened(root, known_tasks=4) as ours, opened(root, known_tasks=4) as theirs:
        for number in range(20):
            for count, workspace in enumerate([ours, theirs, ours, theirs]):
                await workspace.task(f"task-{number}").done(f"step-{count}")
                await workspace.render(f"task-{number}")

        assert alive(TaskFolder) - before <= 2 * 5
        assert not any(name.startswith(".hfview.") for name in names_in(root / "tasks"))


async def test_a_journal_that_was_replaced_while_it_was_forgotten_is_read_anew(
    root: Path, tmp_path: Path
) -> None:
    """What is remembered of the old one must not be taken for the beginning of the new one."""
    async with opened(tmp_path / "other") as other:
        for number in range(8):
            await other.task("report").done(f"theirs-{number}")
    async with opened(root, known_tasks=2) as workspace:
        report = workspace.task("report")
        await report.done("ours")
        for number in range(4):
            await workspace.task(f"task-{number}").done("step")

        journal = Path("tasks", "report", "journal")
        shutil.copytree(tmp_path / "other" / journal, root / journal, dirs_exist_ok=True)
        marked = await report.done("ours")

        assert (marked.already_done, marked.progress.done) == (False, 9)


async def test_a_caller_forgets_the_tasks_met_least_recently_and_must_load_them_again(
    root: Path,
) -> None:
    before = alive(Remembered)
    async with Workspace.open("memory:") as workspace:
        caller = workspace.caller("agent")
        for number in range(300):
            await caller.save(f"task-{number}", {"n": number})

        assert alive(Remembered) - before <= 256
        with pytest.raises(LoadFirst):
            await caller.save("task-0", {"n": "an old memory"})
        await caller.load("task-0")
        assert (await caller.save("task-0", {"n": 1})).conflicts == []


async def test_tasks_that_cannot_be_read_leave_nothing_behind(root: Path) -> None:
    async with opened(root) as workspace:
        await workspace.task("good").done("step")
        for number in range(5):
            journal = root / "tasks" / f"bad-{number}" / "journal"
            journal.parent.mkdir()
            journal.write_text("this should be a folder")
            with pytest.raises(HoldfastError):
                await workspace.brief(f"bad-{number}")

        assert vars(vars(workspace)["_desk"])["_warming"] == {}


@pytest.mark.parametrize(
    "folder", [".", ".alive", "schema", "tasks/t", "tasks/t/journal", "tasks/t/checkpoints"]
)
async def test_what_a_killed_process_had_not_put_in_place_yet_is_removed(
    root: Path, folder: str
) -> None:
    async with Workspace.open(root) as workspace:
        await workspace.task("t").save({"n": 1})
    left, young = (root / folder / f".new.{word * 4}" for word in ("dead", "beef"))
    for path in (left, young):
        path.write_bytes(b"half a fi")
    os.utime(left, (1, 1))

    async with Workspace.open(root) as workspace:
        await workspace.task("t").done("step")

    assert not left.exists()
    # Its writer may be about to put it in place.
    assert young.exists()
