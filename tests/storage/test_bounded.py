"""However many tasks a process meets, it remembers the last few, and tidies up after the dead."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from weakref import WeakSet

import pytest

from holdfast_storage import listing
from holdfast_storage.core import strict_json, view
from holdfast_storage.core.errors import HoldfastError, LoadFirst
from holdfast_storage.core.fold import Changed, Fold, Step
from holdfast_storage.core.records import Draft
from holdfast_storage.desk import Folds
from holdfast_storage.engines.base import Beside
from holdfast_storage.engines.folder import FolderEngine, engine
from holdfast_storage.engines.folder.commit_queue import CommitQueue
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.lock import TaskLock
from holdfast_storage.engines.folder.progress import Reached
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.trash import Trash
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder
from holdfast_storage.remembered import Remembered
from holdfast_storage.workspace import Workspace


def alive(*kinds: type) -> int:
    """Count the objects of these kinds that somebody still holds."""
    gc.collect()
    # Not isinstance: a weak reference to one calls itself one as well.
    return sum(type(each) in kinds for each in gc.get_objects())


@contextmanager
def no_collector() -> Generator[None, None, None]:
    """Let only what nobody refers to go, as it does at once, and nothing that refers to itself."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def inside(workspace: Workspace) -> FolderEngine:
    """Give the engine, to look at what it remembers."""
    engine: FolderEngine = vars(workspace)["_engine"]
    return engine


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


@pytest.mark.parametrize("forgotten_kept", [1024, 0], ids=["known again", "forgotten for good"])
async def test_a_journal_that_was_replaced_while_it_was_forgotten_is_read_anew(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten_kept: int
) -> None:
    """What is remembered of the old one must not be taken for the beginning of the new one."""
    monkeypatch.setattr(engine, "_FORGOTTEN_KEPT", forgotten_kept)
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


def folded(number: int, size: int = 2, steps: int = 0, changes: int = 0) -> Fold:
    fold = Fold(f"task-{number}")
    fold.seq, fold.state_bytes = 1, size
    fold.steps = {f"s{n}": Step() for n in range(steps)}
    for seq in range(changes):
        fold.changes.add(Changed(seq, "id", "ann", "/state/a", "", ""))
    return fold


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"size": 1000}, 256),
        ({"size": 10_000_000}, 64),
        ({"steps": 3000}, 64),
        ({"size": 10_000, "changes": 512}, 64),
    ],
    ids=["small", "large state", "many steps", "large old values"],
)
def test_many_small_tasks_are_kept_at_hand_and_fewer_large_ones(
    more: dict[str, int], kept: int
) -> None:
    folds = Folds()
    for number in range(300):
        folds.put(folded(number, **more), folds.drops)

    assert [folds.is_warm(f"task-{number}") for number in range(300)] == [
        number >= 300 - kept for number in range(300)
    ]


async def test_of_large_views_what_they_showed_is_kept_only_a_few_times(root: Path) -> None:
    """So that a person's save need not be compared with a fold made anew; it held gigabytes."""
    async with opened(root) as workspace:
        task = workspace.task("report")
        for number in range(24):
            state = {"marker": {"this view": [number]}, "text": f"{number}" + "x" * 2_000_000}
            await task.save(state, replace=True)
            await workspace.render("report")
        gc.collect()
        shown = sum(type(each) is dict and "this view" in each for each in gc.get_objects())

    assert shown <= 12


async def test_a_task_that_was_forgotten_for_good_costs_what_a_new_one_does(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for one whose journal had been replaced, and read from its very beginning."""
    monkeypatch.setattr(engine, "_FORGOTTEN_KEPT", 0)
    async with opened(root, known_tasks=2) as workspace:
        report = workspace.task("report")
        for number in range(4):
            await report.save({"run": number})
            if number < 3:
                await report.finish()
                await report.load()
        for number in range(4):
            await workspace.task(f"task-{number}").done("step")
        begun_anew: list[str] = []

        def drop(_: Folds, task: str) -> None:
            begun_anew.append(task)

        monkeypatch.setattr(Folds, "drop", drop)

        brief = await report.load()

        assert (brief.run, brief.state) == (4, {"run": 3})
        assert begun_anew == []


async def test_of_a_forgotten_task_little_is_remembered(root: Path) -> None:
    """A thousand of them are remembered, so the end of each one's last line has to do."""
    async with opened(root, known_tasks=2) as workspace:
        forgotten: dict[str, bytes] = vars(inside(workspace))["_forgotten"]
        numbers = count()
        # One whose view is just being rendered is not forgotten yet.
        while len(forgotten) < 3:
            await workspace.task(f"task-{next(numbers)}").done("step", "x" * 10_000)

        assert all(0 < len(packed) <= 128 for packed in forgotten.values())


def test_of_a_journal_with_numbers_that_nobody_writes_nothing_is_remembered() -> None:
    assert Reached(seq=2**70, ending=b"x").packed() is None


async def test_python_keeps_no_table_of_the_names_of_tasks(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interned: set[str] = set()

    def intern(name: str) -> str:
        interned.add(name)
        return name

    monkeypatch.setattr(sys, "intern", intern)
    async with opened(root) as workspace:
        await workspace.task("never-seen-before").done("step")
        await workspace.render("never-seen-before")

    assert "never-seen-before" not in interned


async def test_a_forgotten_task_is_gone_at_once(root: Path) -> None:
    """One that refers to itself is there until the collector comes, and a process grows by as many."""
    async with opened(root, known_tasks=4) as workspace:
        await workspace.task("first").done("step")
        with no_collector():
            for number in range(30):
                await workspace.task(f"task-{number}").done("step")

            there = [each for each in gc.get_objects() if type(each) is TaskFolder]
            assert len([folder for folder in there if folder.task.startswith("task-")]) <= 5


async def test_tasks_that_were_in_use_when_it_was_their_turn_are_forgotten_later(
    root: Path,
) -> None:
    engine = inside(opened(root, known_tasks=2))

    def use(task: str) -> TaskLock:
        folder: TaskFolder = engine._task(task)  # pyright: ignore[reportPrivateUsage]
        lock: TaskLock = vars(folder)["_lock"]
        lock.enter()
        engine._warm(folder)  # pyright: ignore[reportPrivateUsage]
        return lock

    in_use = [use(f"task-{number}") for number in range(4)]
    assert len(vars(engine)["_tasks"]) == len(vars(engine)["_hot"]) == 4
    for lock in in_use:
        lock.leave()

    use("one-more").leave()

    assert len(vars(engine)["_tasks"]) == len(vars(engine)["_hot"]) == 2
    await engine.close()


async def test_of_a_task_with_many_runs_only_the_newest_segments_are_remembered(
    root: Path,
) -> None:
    async with opened(root) as workspace:
        report, engine = workspace.task("report"), inside(workspace)
        for number in range(80):
            await report.load(max_tokens=0)
            await report.done("step", number)
            await report.finish()
            await engine.opening("report")  # it looks at the first line of the newest segment

        tasks: dict[str, TaskFolder] = vars(engine)["_tasks"]
        assert 0 < len(vars(tasks["report"].segments)["_firsts"]) <= 64
        assert (await report.load()).run == 80


async def test_what_a_call_made_is_gone_when_it_ends(root: Path) -> None:
    """A file that is not there is no rarity; its error must not keep every frame it came through."""
    async with opened(root, known_tasks=4) as workspace:
        caller = workspace.caller("agent")
        await caller.save("warm", {"n": 0})
        with no_collector():
            for number in range(10):
                task = f"task-{number}"
                await caller.save(task, {"n": number})
                await caller.load(task)
                await caller.mark(task, "step", number)
                await workspace.render(task)
                await caller.load(f"nothing-{number}")

            assert gc.collect() < 10


async def test_a_task_that_is_not_there_is_looked_for_among_names(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for every task, at the first load of each new one, costs as much as there are tasks."""

    async def never(*_: object) -> None:
        raise AssertionError("no task is to be read")

    async with opened(root) as workspace:
        for number in range(3):
            await workspace.task(f"report-{number}").done("step")
        monkeypatch.setattr(listing, "line_of", never)

        brief = await workspace.brief("report-9")

        assert (brief.found, sorted(brief.similar)) == (
            False,
            ["report-0", "report-1", "report-2"],
        )


class CountingDisk(Disk):
    """Counts how often a folder is listed, and notes what is opened."""

    def __init__(self) -> None:
        self.listings = 0
        self.opened: list[str] = []

    def folders(self, fd: int) -> Iterable[str]:
        self.listings += 1
        return super().folders(fd)

    def open(self, name: str, flags: int, mode: int = 0, *, at: int | None) -> int:
        self.opened.append(name)
        return super().open(name, flags, mode, at=at)


async def test_emptying_the_trash_does_not_look_at_what_is_young(root: Path) -> None:
    """It follows the end of every run: in a day's trash it looked at each by listing all of them."""
    disk = CountingDisk()
    async with Workspace(FolderEngine.open(root, disk=disk)) as workspace:
        for number in range(10):
            for _ in range(2):
                await workspace.task(f"task-{number}").save({"n": os.urandom(4).hex()})
            await workspace.caller("agent").prune(f"task-{number}", keep_last=1, older_than_hours=0)
        assert len(await workspace.trash()) == 10
        engine, (disk.listings, disk.opened) = inside(workspace), (0, [])

        await engine.empty_trash(24 * 3600)

        assert disk.listings == 1
        assert "info.json" not in disk.opened
        assert len(await workspace.trash()) == 10
        await engine.empty_trash(-1)
        assert await workspace.trash() == []


class FullTrash(Disk):
    """Has names without end in the trash, of which it is counted how many somebody holds."""

    def __init__(self) -> None:
        self.most = 0

    def folders(self, fd: int) -> Iterable[str]:
        class Name(str):
            __slots__ = ("__weakref__",)

        held: WeakSet[Name] = WeakSet()
        for number in range(1000):
            held.add(name := Name(f"99990101T000000-task-{number:04}"))
            yield name
            del name
            self.most = max(self.most, len(held))


def test_a_days_trash_is_passed_over_one_by_one(tmp_path: Path) -> None:
    """A list of it, made at the end of every run, let processes grow with what lay there."""
    disk = FullTrash()
    workspace = WorkspaceFolder(disk, tmp_path / ".holdfast")
    workspace.prepare()
    (tmp_path / ".holdfast/.trash").mkdir()

    Trash(disk, workspace).empty(24 * 3600)

    workspace.close()
    assert 1 <= disk.most <= 2


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


def half_a_copy(root: Path, word: str) -> Path:
    """Leave what a fork or an import that was killed leaves, written to a day ago."""
    copy = root / "tasks" / f".new.{word}"
    segment = copy / "journal" / "000001.jsonl"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b'{"half":')
    day_ago = time.time() - 86_400
    for path in (segment, segment.parent, copy):
        os.utime(path, (day_ago, day_ago))
    return copy


async def test_a_copy_on_its_way_is_not_taken_for_one_that_was_left(root: Path) -> None:
    """However long it takes: the machine may have slept meanwhile."""
    async with opened(root) as slow, opened(root) as other:
        await slow.task("report").save({"n": 1})

        async def drafts() -> AsyncIterator[list[Draft]]:
            [copy] = (root / "tasks").glob(".new.*")
            for path in (copy / "journal", copy):
                os.utime(path, (1, 1))
            await other.task("another").done("step")
            yield [Draft("id-1", "2026-01-01T00:00:00.000Z", "ann", "save", {"run": 1}, opens=True)]

        is_there = await inside(slow).plant("copy", drafts(), Beside({}, []))

        assert is_there
        assert [path.name for path in (root / "tasks" / "copy" / "journal").iterdir()]


async def test_a_copy_that_is_finished_just_when_it_is_taken_for_a_dead_one_is_left_alone(
    root: Path,
) -> None:
    class Late(Disk):
        def lock(self, fd: int, *, shared: bool = False) -> bool:
            if dead.exists():
                dead.rename(root / "tasks" / "copy")
            return super().lock(fd, shared=shared)

    async with opened(root) as workspace:
        await workspace.task("report").done("step")
    dead = half_a_copy(root, "dead" * 4)

    engine_of_another = FolderEngine.open(root, disk=Late())
    await engine_of_another.prepare()
    await engine_of_another.close()

    assert (root / "tasks" / "copy" / "journal" / "000001.jsonl").exists()


async def test_half_a_copy_that_a_killed_process_left_is_removed(root: Path) -> None:
    async with opened(root) as workspace:
        await workspace.task("report").done("step")
    dead, alive_still, planted, persons = (
        half_a_copy(root, word) for word in ("dead" * 4, "beef" * 4, "feed" * 4, "1")
    )
    os.utime(alive_still / "journal" / "000001.jsonl")
    # Somebody else's, whatever it is.
    deep = planted.joinpath(*(["x"] * 5))
    deep.mkdir(parents=True)
    (root.parent / "outside").write_text("mine")
    (dead / "link").symlink_to(root.parent)
    os.utime(dead, (1, 1))
    os.utime(dead / "link", (1, 1), follow_symlinks=False)

    async with opened(root) as workspace:
        await workspace.task("report").done("another")
        problems = [problem.file for problem in await workspace.check()]

    assert not dead.exists()
    assert (root.parent / "outside").read_text() == "mine"
    assert (alive_still / "journal" / "000001.jsonl").exists()
    assert deep.exists()
    assert persons.exists()
    assert f"tasks/.new.{'feed' * 4}" in problems
