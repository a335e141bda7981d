"""The asynchronous face: one flush for many, nothing before the first write, nothing left at the end."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from pathlib import Path

import pytest
from tests.storage.engines.folder.harness import (
    CountingDisk,
    Recording,
    commit,
    drafted,
    entries,
    ids,
    segment,
    task_folder,
)

from holdfast_storage.core.errors import (
    Damaged,
    InvalidName,
    NewerFormat,
    NotSaved,
    Unreadable,
    UnsafeFile,
)
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# --- group commit -----------------------------------------------------------------------------


async def test_many_commits_at_once_share_flushes(root: Path) -> None:
    disk = CountingDisk()
    engine = FolderEngine.open(root, disk=disk)
    await engine.commit("t", Recording(drafted("first")))
    before = disk.flushes

    await asyncio.gather(*(engine.commit("t", Recording(drafted(f"{n}"))) for n in range(100)))

    assert 1 <= disk.flushes - before <= 10
    await engine.close()
    assert len(ids(task_folder(root))) == 101


async def test_a_caller_that_stops_waiting_stops_nothing(root: Path) -> None:
    engine = FolderEngine.open(root)
    operation = Recording(drafted("a"))
    waiting = asyncio.create_task(engine.commit("t", operation))
    await asyncio.sleep(0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await engine.close()

    assert [record.id for record in operation.accepted if record] == ["a"]
    assert ids(task_folder(root)) == ["a"]


async def test_closing_waits_for_what_is_under_way(root: Path) -> None:
    engine = FolderEngine.open(root)
    commits = [
        asyncio.create_task(engine.commit("t", Recording(drafted(f"{n}")))) for n in range(50)
    ]
    await asyncio.sleep(0)

    await engine.close()

    assert await asyncio.gather(*commits) == [None] * 50
    with pytest.raises(NotSaved):
        await engine.commit("t", Recording(drafted("late")))


async def test_descriptors_of_many_tasks_are_bounded(root: Path) -> None:
    engine = FolderEngine.open(root, hot_tasks=3)
    await engine.commit("task-0", Recording(drafted("a")))
    before = open_descriptors()

    for n in range(1, 20):
        await engine.commit(f"task-{n}", Recording(drafted("a")))
    for n in range(20):
        await engine.commit(f"task-{n}", Recording(drafted("b")))

    assert open_descriptors() <= before + 3 * 5
    await engine.close()


async def test_closing_leaves_no_descriptor_open(root: Path) -> None:
    before = open_descriptors()
    engine = FolderEngine.open(root)
    await engine.commit("t", Recording(drafted("a")))
    [_ async for _ in engine.read("t", 0)]
    await engine.swap_view("t", b"{}", 1)
    await engine.heads("", 10)

    await engine.close()

    assert open_descriptors() == before


# --- the first write --------------------------------------------------------------------------


async def test_opening_and_reading_make_nothing(root: Path) -> None:
    engine = FolderEngine.open(root)

    assert [_ async for _ in engine.read("t", 0)] == []
    assert await engine.opening("t") == 0
    assert await engine.heads("", 10) == ([], "")
    assert await engine.view("t") == []
    assert await engine.settings() == {}
    assert await engine.trash() == []
    assert await engine.check(repair=False) == []
    assert not engine.may_have_changed("t")
    with pytest.raises(ValueError, match="refused"):
        await engine.commit("t", Refusal())
    await engine.close()

    assert files_in(root.parent) == []


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


class Refusal(Recording):
    def __init__(self) -> None:
        super().__init__(None)

    def decide(self, entries: object) -> None:
        raise ValueError("refused")


async def test_the_first_write_makes_a_workspace_that_explains_itself(root: Path) -> None:
    engine = FolderEngine.open(
        root, schema=b'{"type": "object"}', readme="What this is.\n", settings={"limits": {}}
    )

    await engine.commit("t", Recording(drafted("a")))

    assert (root / "README.md").read_text() == "What this is.\n"
    assert (root / ".gitignore").read_text() == "*\n"
    assert (root / "schema" / "state.schema.json").read_bytes() == b'{"type": "object"}'
    assert await engine.settings() == {"format": 1, "workspace": engine.workspace_id, "limits": {}}
    await engine.close()


async def test_only_their_owner_may_read_the_files_whatever_the_umask(root: Path) -> None:
    old = os.umask(0o027)
    try:
        engine = FolderEngine.open(root, schema=b"{}", readme="x")
        await engine.commit("t", Recording(drafted("a")))
        await engine.keep("t", "conflicts", "a.json", b"{}")
        await engine.keep("t", "checkpoints", "0001.json", b"{}")
        await engine.log_load("t", {})
        await engine.note_head("t", 1, {})
        await engine.swap_view("t", b"{}", 1)
        await engine.close()
    finally:
        os.umask(old)

    for path in files_in(root.parent):
        expected = 0o700 if path.is_dir() else 0o400 if path.name == "0001.json" else 0o600
        assert (path, oct(stat.S_IMODE(path.stat().st_mode))) == (path, oct(expected))


async def test_a_persons_settings_are_not_overwritten(root: Path) -> None:
    engine = FolderEngine.open(root)
    await engine.commit("t", Recording(drafted("a")))
    (root / "holdfast.json").write_text('{"workspace": "mine", "limits": 1}')

    other = FolderEngine.open(root)
    await other.commit("t", Recording(drafted("b"), known=1))

    assert other.workspace_id == "mine"
    assert await other.settings() == {"workspace": "mine", "limits": 1}
    await engine.close()
    await other.close()


def settings_say(root: Path, text: str) -> Path:
    root.mkdir(exist_ok=True)
    file = root / "holdfast.json"
    file.write_text(text)
    os.utime(file, ns=(1, 10**18 + 1))
    return file


async def test_settings_are_read_again_when_the_file_changed_and_only_then(root: Path) -> None:
    settings_say(root, '{"limits": {"steps": 1}}')
    await asyncio.sleep(0.03)  # its ctime says too that it was changed just now
    engine = FolderEngine.open(root)

    first = await engine.settings()
    again = await engine.settings()
    settings_say(root, '{"limits": {"steps": 2}}')
    changed = await engine.settings()

    assert again is first == {"limits": {"steps": 1}}
    assert changed == {"limits": {"steps": 2}}
    await engine.close()


async def test_settings_that_changed_a_moment_ago_are_read_each_time(root: Path) -> None:
    file = settings_say(root, "{}")

    class Frozen(Disk):
        def now_ns(self) -> int:
            return file.stat().st_ctime_ns

    engine = FolderEngine.open(root, disk=Frozen())

    assert await engine.settings() is not await engine.settings()
    await engine.close()


def test_a_newer_format_is_refused(root: Path) -> None:
    root.mkdir()
    (root / "holdfast.json").write_text('{"format": 2}')

    with pytest.raises(NewerFormat):
        FolderEngine.open(root)


def test_broken_settings_keep_it_from_starting_and_say_where(root: Path) -> None:
    root.mkdir()
    (root / "holdfast.json").write_text('{\n "format": 1,\n}')

    with pytest.raises(Unreadable) as caught:
        FolderEngine.open(root)

    assert (caught.value.file, caught.value.line) == ("holdfast.json", 3)


# --- staying inside ---------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["tasks", "tasks/t", "tasks/t/journal"])
async def test_a_link_in_the_place_of_a_folder_is_refused(
    root: Path, tmp_path: Path, where: str
) -> None:
    commit(task_folder(root), "a")
    moved = tmp_path / "elsewhere"
    (root / where).rename(moved)
    (root / where).symlink_to(moved)
    before = sorted(path.name for path in moved.rglob("*"))
    engine = FolderEngine.open(root)

    with pytest.raises(UnsafeFile):
        await engine.commit("t", Recording(drafted("b")))
    with pytest.raises(UnsafeFile):
        [_ async for _ in engine.read("t", 0)]
    await engine.close()

    assert sorted(path.name for path in moved.rglob("*")) == before


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("name", ["journal/000001.jsonl", ".lock", ".gate"])
async def test_a_link_in_the_place_of_a_file_is_refused(
    root: Path, tmp_path: Path, name: str, link: object
) -> None:
    commit(task_folder(root), "a")
    file, moved = root / "tasks" / "t" / name, tmp_path / "elsewhere"
    file.rename(moved)
    assert callable(link)
    link(moved, file)
    before = moved.read_bytes()
    engine = FolderEngine.open(root)

    with pytest.raises(UnsafeFile):
        await engine.commit("t", Recording(drafted("b")))
    await engine.close()

    assert moved.read_bytes() == before


async def test_a_pipe_in_the_place_of_a_file_holds_nobody(root: Path) -> None:
    commit(task_folder(root), "a")
    segment(root).unlink()
    os.mkfifo(segment(root))
    engine = FolderEngine.open(root)

    with pytest.raises(UnsafeFile):
        [_ async for _ in engine.read("t", 0)]
    await engine.close()


@pytest.mark.parametrize("name", ["../out.json", "a/b", "", ".hidden", "a\nb", "x" * 300])
async def test_a_kept_file_stays_in_its_folder(root: Path, name: str) -> None:
    engine = FolderEngine.open(root)
    await engine.commit("t", Recording(drafted("a")))

    with pytest.raises(InvalidName):
        await engine.keep("t", "conflicts", name, b"{}")
    await engine.close()


# --- listing ----------------------------------------------------------------------------------


async def test_a_task_that_cannot_be_read_is_listed_with_its_problem(
    root: Path, tmp_path: Path
) -> None:
    engine = FolderEngine.open(root)
    for task in ("sound", "linked", "Stränge", "mixed up", "no journal"):
        await engine.commit(task, Recording(drafted("a")))
    tasks = root / "tasks"
    (tasks / "linked" / "journal").rename(tmp_path / "away")
    (tasks / "linked" / "journal").symlink_to(tmp_path / "away")
    [mixed] = tasks.glob("mixed*")
    mixed.rename(tasks / "another~0123456789abcdef")
    [without] = tasks.glob("no-journal*")
    (without / "journal" / "000001.jsonl").unlink()
    (without / "journal").rmdir()
    (without / "state.json").write_text("{}")

    heads, cursor = await engine.heads("", 100)

    assert cursor == ""
    problems = {head.task: bool(head.problem) for head in heads}
    assert problems == {
        "sound": False,
        "Stränge": False,
        "linked": True,
        "another~0123456789abcdef": True,
        without.name: True,
    }
    await engine.close()


async def test_a_broken_summary_is_no_summary(root: Path) -> None:
    engine = FolderEngine.open(root)
    await engine.commit("t", Recording(drafted("a")))
    for raw in (b"", b"{", b"[]", b"{}", b'{"task": 1}', b'{"task": "u", "segment": 1}'):
        (root / "tasks" / "t" / ".head").write_bytes(raw)

        [head] = (await engine.heads("", 10))[0]

        assert (head.task, head.summary, head.problem) == ("t", None, "")
    await engine.close()


# --- checking ---------------------------------------------------------------------------------


async def test_everything_that_is_wrong_is_found_and_named(root: Path) -> None:
    engine = FolderEngine.open(root, segment_bytes=300)
    for n in range(20):
        await engine.commit("t", Recording(drafted(f"{n}"), known=n))
    lines = segment(root, 2).read_bytes().splitlines(keepends=True)
    segment(root, 2).write_bytes(lines[0] + b"garbage\n" + b"".join(lines[2:]))
    segment(root, 3).unlink()
    with segment(root, 4).open("ab") as file:
        file.write(b'{"seq":')
    (root / "tasks" / "t" / "state.json").write_text('{\n"a": 1,\n}')
    (root / "tasks" / "stray").write_text("")
    (root / "tasks" / "t").chmod(0o755)
    (root / "tasks" / "t" / ".gate").unlink()

    found = await engine.check(repair=False)

    places = {(finding.file, finding.line) for finding in found}
    assert places == {
        ("tasks/t/journal/000002.jsonl", 2),
        ("tasks/t/journal/000004.jsonl", 0),
        ("tasks/t/journal/000004.jsonl", 1),
        ("tasks/t/journal/000004.jsonl", 4),
        ("tasks/t/state.json", 3),
        ("tasks/t/.gate", 0),
        ("tasks/stray", 0),
        ("tasks/t", 0),
    }
    assert await engine.check(repair=False) == found
    await engine.close()


async def test_repairing_sets_aside_and_deletes_nothing(root: Path) -> None:
    engine = FolderEngine.open(root)
    await engine.commit("t", Recording(drafted("a")))
    await engine.commit("t", Recording(drafted("b"), known=1))
    raw = segment(root).read_bytes()
    segment(root).write_bytes(raw + b"garbage\n")
    (root / "tasks" / "t" / "state.json").write_bytes(b"{")

    await engine.check(repair=True)

    assert sorted((await engine.kept("t", "quarantine")).values()) == [b"garbage", b"{"]
    assert segment(root).read_bytes() == raw + b"garbage\n"
    assert not (root / "tasks" / "t" / "state.json").exists()
    await engine.close()


# --- what the disk refuses --------------------------------------------------------------------


class BrokenDisk(Disk):
    """Can read nothing any more."""

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_journal_that_cannot_be_read_is_an_error_and_not_empty(root: Path) -> None:
    commit(task_folder(root), "a")
    (root / "holdfast.json").unlink()

    with pytest.raises(Damaged):
        entries(task_folder(root, BrokenDisk()))


class VanishingDisk(Disk):
    """Somebody takes the task's folder away just after it was made, as often as that."""

    def __init__(self, times: int) -> None:
        self._times = times

    def open(self, name: str, flags: int, mode: int = 0o600, *, at: int | None) -> int:
        if name == "t" and self._times:
            self._times -= 1
            self.rmdir(name, at=at or 0)
        return super().open(name, flags, mode, at=at)


def test_a_folder_that_vanishes_when_it_is_just_made_is_made_again(root: Path) -> None:
    folder = task_folder(root, VanishingDisk(1))

    commit(folder, "a")

    assert ids(task_folder(root)) == ["a"]


def test_what_is_kept_is_kept_where_the_folder_vanishes_when_it_is_just_made(root: Path) -> None:
    folder = task_folder(root, VanishingDisk(1))

    path = folder.keep("conflicts", "theirs.json", b"theirs")

    assert (root / path).read_bytes() == b"theirs"


def test_a_folder_that_vanishes_again_and_again_is_said_to(root: Path) -> None:
    folder = task_folder(root, VanishingDisk(100))

    [refusal] = folder.commit([Recording(drafted("a"))])

    assert isinstance(refusal, Damaged)


async def test_loads_are_kept_within_bounds(root: Path) -> None:
    engine = FolderEngine.open(root, loads_bytes=1000)
    await engine.commit("t", Recording(drafted("a")))

    for n in range(200):
        await engine.log_load("t", {"n": n, "by": "an agent"})

    found = [line["n"] for line in await engine.loads("t")]
    assert found == list(range(200))[-len(found) :]
    assert 20 <= len(found) <= 100
    await engine.close()


async def test_the_way_to_the_workspace_may_have_links_and_be_new(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    engine = FolderEngine.open(tmp_path / "linked" / "a" / "b" / ".holdfast")

    await engine.commit("t", Recording(drafted("a")))
    await engine.close()

    assert ids(task_folder(tmp_path / "real" / "a" / "b" / ".holdfast")) == ["a"]


def test_a_workspace_that_is_itself_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    root.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UnsafeFile):
        FolderEngine.open(root)


def test_that_nobody_has_resumed_is_known_at_a_look(root: Path) -> None:
    folder, other = task_folder(root), task_folder(root)
    commit(folder, "a")
    folder.loads()

    assert folder.loads_if_unchanged() == []
    other.log_load({"by": "ann"})
    assert folder.loads_if_unchanged() is None


async def test_loads_that_became_old_meanwhile_are_found(root: Path) -> None:
    engine, other = FolderEngine.open(root), FolderEngine.open(root, loads_bytes=1000)
    await engine.commit("t", Recording(drafted("a")))
    assert await engine.loads("t") == []

    written = 0
    while written == 0 or (root / "tasks/t/loads.jsonl").exists():
        await other.log_load("t", {"by": "ann", "run": 1})
        written += 1

    assert len(await engine.loads("t")) == written
    await engine.close()
    await other.close()


async def test_a_summary_that_names_another_task_is_not_believed(root: Path) -> None:
    async with Workspace(FolderEngine.open(root)) as workspace:
        await workspace.task("report").save({"n": 1})
        assert [line.task for line in await workspace.tasks()] == ["report"]
        head = root / "tasks/report/.head"
        noted = head.read_bytes()
        head.write_bytes(noted.replace(b'"task":"report"', b'"task":"rEport"'))
        both = [line.task for line in await workspace.tasks()]
        before, _, after = noted.rpartition(b'"task":"report"')
        head.write_bytes(before + b'"task":"rEport"' + after)
        one = [line.task for line in await workspace.tasks()]

    assert (both, one) == (["report"], ["report"])
