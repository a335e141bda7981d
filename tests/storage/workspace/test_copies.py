"""A task can be copied, to rehearse on beside it or to be carried to another workspace."""

from __future__ import annotations

import os
import stat
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage import copying
from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import (
    AlreadyThere,
    Damaged,
    InvalidName,
    InvalidValue,
    PartlyImported,
    TooLarge,
    Unavailable,
    Unknown,
)
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.records import Draft, encode_line
from holdfast_storage.engines.memory import MemoryEngine, MemoryStore
from holdfast_storage.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storage.workspace.conftest import FolderPlace, Place


async def worked(workspace: Workspace, task: str = "report") -> None:
    """Leave a task with something of everything."""
    ann = workspace.caller("ann")
    await ann.save(task, {"tone": "formal", "n": 1}, goal="All of it", plan=["a", "b", "c"])
    await ann.mark(task, "a", {"rows": 4})
    await ann.begin(task, "b")
    await ann.save(task, {"n": 2}, next="go on with c")
    await ann.mark(task, "b")
    await ann.ask(task, "Which colour?", ["red", "blue"])
    await ann.save(task, {"n": 3})


async def story(workspace: Workspace, task: str) -> list[tuple[Any, ...]]:
    found = (await workspace.caller("looker").list_checkpoints(task, show="events")).events
    return [(event.seq, event.at, event.by, event.op, event.about) for event in found]


# --- fork -------------------------------------------------------------------------------------


async def test_a_fork_stands_where_the_task_stood_at_that_checkpoint(workspace: Workspace) -> None:
    await worked(workspace)

    await workspace.fork("report", 1, "rehearsal")

    brief = await workspace.brief("rehearsal")
    assert (brief.status, brief.goal, brief.state) == (
        "paused",
        "All of it",
        {"tone": "formal", "n": 1},
    )
    assert brief.remaining == ["a", "b", "c"]
    assert (await workspace.brief("report")).state == {"tone": "formal", "n": 3}


async def test_a_fork_keeps_what_was_done_and_how_it_ended(workspace: Workspace) -> None:
    await worked(workspace)

    await workspace.fork("report", 2, "rehearsal")

    again = await workspace.caller("bob").mark("rehearsal", "a", None)
    assert (again.already_done, again.result) == (True, {"rows": 4})
    assert await workspace.state_at("rehearsal", 1) == {"tone": "formal", "n": 1}


async def test_what_ran_is_in_doubt_in_the_fork(workspace: Workspace) -> None:
    await worked(workspace)

    await workspace.fork("report", 2, "rehearsal")

    assert (await workspace.brief("rehearsal")).in_doubt == ["b"]
    await workspace.resolve("rehearsal", "b", happened=True)
    assert (await workspace.brief("report")).in_doubt == []


async def test_a_fork_is_paused_until_a_person_lets_it_go_on(workspace: Workspace) -> None:
    await worked(workspace)
    await workspace.fork("report", 3, "rehearsal", by="human:Maria")

    refused = await workspace.caller("bob").begin("rehearsal", "c")
    await workspace.go_on("rehearsal")
    begun = await workspace.caller("bob").begin("rehearsal", "c")

    assert (refused.go, refused.status) == (False, "paused")
    assert begun.go


async def test_the_steps_of_a_fork_have_idempotency_keys_of_their_own(workspace: Workspace) -> None:
    await worked(workspace)
    await workspace.fork("report", 3, "rehearsal")
    await workspace.go_on("rehearsal")

    original = await workspace.caller("ann").begin("report", "c")
    copy = await workspace.caller("ann").begin("rehearsal", "c")

    assert original.idempotency_key != copy.idempotency_key


async def test_without_a_checkpoint_a_fork_is_the_task_as_it_is_now(workspace: Workspace) -> None:
    await worked(workspace)

    revision = await workspace.fork("report", 0, "rehearsal", by="human:Maria")

    events = (await workspace.caller("x").list_checkpoints("rehearsal", show="events")).events
    assert (events[0].seq, events[0].op, events[0].by) == (revision, "fork", "human:Maria")
    assert [question.id for question in (await workspace.brief("rehearsal")).questions] == ["q1"]
    assert (await story(workspace, "rehearsal"))[1:] == await story(workspace, "report")


async def test_a_run_that_is_over_is_open_again_in_a_fork_of_it(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1})
    await ann.finish("report")

    await workspace.fork("report", 0, "rehearsal")

    assert (await workspace.brief("rehearsal")).status == "paused"
    assert (await workspace.brief("report")).status == "done"


async def test_a_fork_takes_in_first_what_a_person_saved(
    place: Place, workspace: Workspace
) -> None:
    await worked(workspace)
    await place.edit(workspace, lambda document: document["state"].update(tone="warm"))

    await workspace.fork("report", 0, "rehearsal")

    assert (await workspace.brief("rehearsal")).state["tone"] == "warm"


async def test_a_fork_has_a_view_of_its_own(place: Place, workspace: Workspace) -> None:
    await worked(workspace)
    await workspace.fork("report", 1, "rehearsal")

    await place.edit(workspace, lambda document: document.update(goal="Try it"), "rehearsal")

    assert (await workspace.brief("rehearsal")).goal == "Try it"
    assert (await workspace.brief("report")).goal == "All of it"


async def test_a_fork_takes_no_other_tasks_place(workspace: Workspace) -> None:
    await worked(workspace)
    await workspace.caller("ann").save("taken", {"mine": True})

    with pytest.raises(AlreadyThere):
        await workspace.fork("report", 1, "taken")
    with pytest.raises(AlreadyThere):
        await workspace.fork("report", 1, "report")
    with pytest.raises(InvalidName):
        await workspace.fork("report", 1, "")

    assert (await workspace.brief("taken")).state == {"mine": True}


async def test_there_is_no_fork_of_what_is_not_there(workspace: Workspace) -> None:
    await worked(workspace)
    await workspace.prune("report", keep_last=1, older_than_hours=0)

    with pytest.raises(Unknown):
        await workspace.fork("repotr", 1, "rehearsal")
    with pytest.raises(Unknown):
        await workspace.fork("report", 9, "rehearsal")
    with pytest.raises(Unavailable):
        await workspace.fork("report", 1, "rehearsal")
    assert [line.task for line in await workspace.tasks()] == ["report"]


async def test_what_is_damaged_is_not_copied_as_if_it_were_whole(
    place: Place, tmp_path: Path
) -> None:
    workspace = await place.open()
    await worked(workspace)
    await workspace.close()
    place.spoil(2)
    workspace = await place.open()

    with pytest.raises(Damaged):
        await workspace.fork("report", 3, "rehearsal")
    with pytest.raises(Damaged):
        await workspace.export_to(tmp_path / "report.jsonl", "report")

    assert [line.task for line in await workspace.tasks()] == ["report"]
    assert not (tmp_path / "report.jsonl").exists()


async def test_a_forked_workspace_checks_clean(folder: FolderPlace) -> None:
    workspace = await folder.open()
    await worked(workspace)

    await workspace.fork("report", 2, "rehearsal")
    await workspace.render("rehearsal")

    assert await workspace.check() == []


# --- export and import ------------------------------------------------------------------------


def elsewhere() -> Workspace:
    return Workspace(MemoryEngine(MemoryStore()), by="agent@elsewhere")


async def test_an_imported_task_says_what_the_exported_one_said(
    workspace: Workspace, tmp_path: Path
) -> None:
    await worked(workspace)
    await workspace.caller("bob").load("report")
    await workspace.caller("bob").finish("report", "paused", "for the night")

    await workspace.export_to(tmp_path / "out.jsonl", "report")
    async with elsewhere() as other:
        taken = await other.import_from(tmp_path / "out.jsonl")
        await other.export_to(tmp_path / "again.jsonl")

        assert taken == ["report"]
        assert await story(other, "report") == await story(workspace, "report")
        assert (await other.brief("report")).progress.resumes == 1
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()


async def test_all_tasks_go_into_one_file_and_come_out_of_it(
    folder: FolderPlace, tmp_path: Path
) -> None:
    tasks = {"report", "Über uns/1", "letters"}
    async with elsewhere() as other:
        for task in tasks:
            await worked(other, task)
        await other.export_to(tmp_path / "out.jsonl")
    workspace = await folder.open()

    taken = await workspace.import_from(tmp_path / "out.jsonl")

    assert set(taken) == {line.task for line in await workspace.tasks()} == tasks
    assert await workspace.check() == []


async def test_what_was_kept_beside_a_task_goes_with_it(
    place: Place, workspace: Workspace, tmp_path: Path
) -> None:
    ann, bea = workspace.caller("ann"), workspace.caller("bea")
    await ann.save("report", {"colour": "red"})
    await bea.load("report")
    await ann.save("report", {"colour": "blue"})
    await bea.save("report", {"colour": "green"})
    kept = await place.kept("conflicts")

    await workspace.export_to(tmp_path / "out.jsonl", "report")
    await workspace.import_from(tmp_path / "out.jsonl", new="copy")

    assert kept
    assert await place.kept("conflicts", "copy") == kept


async def test_an_export_is_readable_by_its_owner_only_and_replaces_nothing(
    workspace: Workspace, tmp_path: Path
) -> None:
    await worked(workspace)
    await workspace.export_to(tmp_path / "out.jsonl", "report")

    with pytest.raises(FileExistsError):
        await workspace.export_to(tmp_path / "out.jsonl", "report")

    assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == 0o600


async def test_tasks_can_go_through_a_pipe(workspace: Workspace, tmp_path: Path) -> None:
    await worked(workspace)
    reading, writing = os.pipe()

    await workspace.export_to(writing, "report")
    os.close(writing)
    async with elsewhere() as other:
        assert await other.import_from(reading) == ["report"]
    os.close(reading)


async def test_an_import_takes_no_other_tasks_place(workspace: Workspace, tmp_path: Path) -> None:
    await worked(workspace)
    await workspace.export_to(tmp_path / "out.jsonl", "report")

    with pytest.raises(AlreadyThere):
        await workspace.import_from(tmp_path / "out.jsonl")
    with pytest.raises(Unknown):
        await workspace.import_from(tmp_path / "out.jsonl", "letters")


async def test_an_import_that_stops_halfway_names_what_it_took_in(
    workspace: Workspace, tmp_path: Path
) -> None:
    await worked(workspace)
    await worked(workspace, "letters")
    await workspace.export_to(tmp_path / "out.jsonl", "report", "letters")

    async with elsewhere() as other:
        await worked(other, "letters")
        with pytest.raises(PartlyImported) as refusal:
            await other.import_from(tmp_path / "out.jsonl")

        assert (refusal.value.imported, refusal.value.why) == (["report"], "already_there")
        assert {line.task for line in await other.tasks()} == {"report", "letters"}


async def test_of_several_tasks_only_one_can_be_given_another_name(
    workspace: Workspace, tmp_path: Path
) -> None:
    await worked(workspace)
    await worked(workspace, "letters")
    await workspace.export_to(tmp_path / "out.jsonl")

    async with elsewhere() as other:
        assert await other.import_from(tmp_path / "out.jsonl", "letters", new="mail") == ["mail"]
        with pytest.raises(InvalidValue, match="which one"):
            await other.import_from(tmp_path / "out.jsonl", new="other")
        with pytest.raises(InvalidValue, match="which one"):
            await other.import_from(tmp_path / "out.jsonl", "letters", "report", new="other")

        assert [line.task for line in await other.tasks()] == ["mail"]


async def exported(workspace: Workspace, tmp_path: Path) -> list[bytes]:
    await worked(workspace)
    await workspace.caller("bob").load("report")
    await workspace.export_to(tmp_path / "out.jsonl", "report")
    return (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)


async def test_an_export_that_was_cut_off_anywhere_is_not_imported(
    memory: Place, tmp_path: Path
) -> None:
    lines = await exported(await memory.open(), tmp_path)
    whole = b"".join(lines)
    for end in [*range(0, len(whole) - 1, 97), len(whole) - len(lines[-1])]:
        (tmp_path / "cut.jsonl").write_bytes(whole[:end])

        async with elsewhere() as other:
            with pytest.raises((InvalidValue, Unknown)):
                await other.import_from(tmp_path / "cut.jsonl")

            assert await other.tasks() == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"export":1', b'{"export":2'),
        (b'{"export":1', b'{"extort":1'),
        (b'"revision":', b'"revision":-'),
        (b'"task":"report"', b'"task":"re\\u0000port"'),
        (b'{"load":{', b'{"lord":{'),
        (b'{"load":{"at"', b'{"load":{"ta"'),
        (b'{"load":', b'{"kept":"checkpoints","load":'),
        (b'{"load":', b'{"kept":"conflicts","name":"../x","base64":"!!","load":'),
        (b'{"load":', b"[1]\n{"),
        (b'"tone":"formal"', b'"tone":"curt!!"'),
        (b'"opens":true,', b""),
        (b'"op":"begin"', b'"op":"BEGIN"'),
    ],
)
async def test_an_export_that_somebody_changed_is_not_imported(
    memory: Place, tmp_path: Path, old: bytes, new: bytes
) -> None:
    whole = b"".join(await exported(await memory.open(), tmp_path))
    assert old in whole
    (tmp_path / "changed.jsonl").write_bytes(whole.replace(old, new, 1))

    async with elsewhere() as other:
        with pytest.raises((InvalidValue, InvalidName)):
            await other.import_from(tmp_path / "changed.jsonl")

        assert await other.tasks() == []


def forged(tmp_path: Path, at: str = "2026-01-01T00:00:00.000Z", **says: Any) -> Path:
    """Write an export whose checksums are all right: anybody can count them."""
    body: dict[str, Any] = {"run": 1, "checkpoint_before": 0, "checkpoint": 1, "goal": "g"}
    body |= {"state": {}, **says}
    raw = b'{"export":1,"task":"evil","revision":1}\n'
    raw += encode_line(1, Draft("a" * 20, at, "eve", "save", body, opens=True))
    end = strict_json.encode({"end": "evil", "sha256": sha256(raw).hexdigest()})
    (tmp_path / "forged.jsonl").write_bytes(raw + end + b"\n")
    return tmp_path / "forged.jsonl"


NONSENSE: list[dict[str, Any]] = [
    {"goal": 5},
    {"total": "many"},
    {"run": "x"},
    {"checkpoint": "../../x"},
    {"label": 5},
    {"plan": [1]},
    {"at": "yesterday"},
]


@pytest.mark.parametrize("says", NONSENSE)
async def test_an_export_that_makes_no_task_is_not_imported(
    memory: Place, tmp_path: Path, says: dict[str, Any]
) -> None:
    await memory.open()
    async with elsewhere() as other:
        await worked(other)
        with pytest.raises((InvalidValue, InvalidName)):
            await other.import_from(forged(tmp_path, **says))

        assert [line.task for line in await other.tasks()] == ["report"]


async def test_a_journal_that_makes_no_task_hides_no_other(
    memory: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.open()

    def believe(fold: Fold, now: datetime) -> None:
        """Take in whatever it says."""

    monkeypatch.setattr(copying, "_require_sense", believe)
    async with elsewhere() as other:
        await worked(other)
        await other.import_from(forged(tmp_path, goal=5))

        listed = {line.task: line.damaged for line in await other.tasks()}
        assert listed == {"evil": True, "report": False}
        assert [problem.task for problem in await other.check()] == ["evil"]


async def test_a_line_longer_than_any_state_is_not_read(memory: Place, tmp_path: Path) -> None:
    await memory.open()
    (tmp_path / "long.jsonl").write_bytes(b"x" * (2**24 + 2**20 + 1))

    async with elsewhere() as other:
        with pytest.raises(TooLarge):
            await other.import_from(tmp_path / "long.jsonl")


async def test_many_records_go_in_portions(memory: Place, tmp_path: Path) -> None:
    workspace = await memory.open()
    task = workspace.task("many")
    for number in range(1100):
        await task.done(f"step-{number}", number)

    await workspace.export_to(tmp_path / "out.jsonl", "many")
    async with elsewhere() as other:
        await other.import_from(tmp_path / "out.jsonl")

        assert (await other.brief("many")).progress.done == 1100
