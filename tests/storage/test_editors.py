"""People edit state.json while agents work: every save of theirs counts, and counts once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.storage.processes import PATIENCE_SECONDS, Parent, children, let_go, opened

from holdfast_storage.caller import Caller
from holdfast_storage.results import Brief, Change
from holdfast_storage.workspace import Workspace

TASK = "report"
# A torture run sets this to 500.
EDITS = int(os.environ.get("HOLDFAST_EDITS", "25"))

Document = dict[str, Any]


class View:
    """The file as a person has it before them."""

    def __init__(self, root: Path, task: str = TASK) -> None:
        self.folder = root / "tasks" / task
        self.path = self.folder / "state.json"

    def text(self) -> str:
        return self.path.read_text()

    def document(self) -> Document:
        found: Document = json.loads(self.text())
        return found

    def save(self, document: Document) -> None:
        """Save as most editors do it: in place."""
        write_in_place(self.path, json.dumps(document, indent=2, ensure_ascii=False))

    def edit(self, change: Callable[[Document], object]) -> None:
        document = self.document()
        change(document)
        self.save(document)

    def edits(self) -> list[Document]:
        """Give the edits in the journal, as they are in the file at this moment."""
        lines = [
            line
            for segment in sorted((self.folder / "journal").glob("*.jsonl"))
            for line in segment.read_bytes().splitlines(keepends=True)
        ]
        # The last line may be on its way.
        records = [json.loads(line) for line in lines if line.endswith(b"\n") and b'"edit"' in line]
        return [record for record in records if record["op"] == "edit"]

    def wait_for_edits(self, number: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.edits()) < number:
            assert time.monotonic() < deadline, f"edit {number} is not in the journal"
            time.sleep(0.002)

    def conflicts(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("conflicts/*"))

    def conflict_texts(self) -> list[str]:
        return [(self.folder / "conflicts" / name).read_text() for name in self.conflicts()]


def write_in_place(path: Path, text: str) -> None:
    """Write the way VS Code does: truncate, then 64 KiB at a time, then flush."""
    raw = text.encode()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for start in range(0, len(raw), 64 * 2**10):
            os.write(fd, raw[start : start + 64 * 2**10])
        os.fdatasync(fd)
    finally:
        os.close(fd)


# --- while agents save 50 times a second ------------------------------------------------------

AGENTS = 2
NOTES = "abcde"


def vim(backupcopy: str) -> Callable[[Path, str, int], None]:
    def edit(path: Path, note: str, value: int) -> None:
        # The system's temporary folder is on vim's list of places where it writes in place.
        options = f"set nocompatible backupskip= backupcopy={backupcopy}"
        substitute = rf'%s/"note-{note}": \d\+/"note-{note}": {value}/'
        command = ["vim", "-es", "-u", "NONE", "--cmd", options, "-c", substitute, "-c", "wq"]
        for _ in range(10):
            # If the file was rendered since vim read it, vim asks whether to write all the same; at
            # the end of its input it would leave without having written, and call that success.
            done = subprocess.run(
                [*command, str(path)], input=b"y", capture_output=True, check=False
            )
            if done.returncode == 0:
                return
            # It was rendered just as vim was about to write: vim refuses, and people try again.
        raise AssertionError("vim refused again and again")

    return edit


def vs_code(path: Path, note: str, value: int) -> None:
    text = path.read_text()
    changed = re.sub(rf'"note-{note}": \d+', f'"note-{note}": {value}', text)
    assert changed != text
    write_in_place(path, changed)


def sed(path: Path, note: str, value: int) -> None:
    substitute = rf's/"note-{note}": [0-9]*/"note-{note}": {value}/'
    subprocess.run(["sed", "-i", substitute, str(path)], check=True)


needs_vim = pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")

EDITORS = [
    pytest.param(vim("auto"), id="vim-renaming", marks=needs_vim),
    pytest.param(vim("yes"), id="vim-in-place", marks=needs_vim),
    pytest.param(vs_code, id="vs-code"),
    pytest.param(sed, id="sed"),
]


async def saves_all_the_time(parent: Parent, root: Path, number: int) -> Document:
    """Save own values until told to stop; give how often, and what was said of people's changes."""
    name = f"agent-{number}"
    async with opened(root, name, young_view_seconds=0.1) as workspace:
        task = workspace.task(TASK)
        await task.load()
        parent.wait_for_go()
        told: dict[str, Any] = {}
        count = conflicts = 0
        is_over = False
        while not is_over:
            is_over = parent.has_spoken()
            count += 1
            saved = await task.save({"agents": {name: count}})
            conflicts += len(saved.conflicts)
            told |= {change.path: change.new for change in saved.changes if change.by == "human"}
            await asyncio.sleep(0.02)
        return {"saves": count, "told": told, "conflicts": conflicts}


@pytest.mark.timeout(60 + EDITS * 2)
@pytest.mark.parametrize("editor", EDITORS)
async def test_every_edit_is_seen_once_and_stands_while_agents_save(
    root: Path, editor: Callable[[Path, str, int], None]
) -> None:
    view = View(root)
    notes = {f"note-{note}": 0 for note in NOTES}
    async with opened(root) as workspace:
        # So large that it is not written in one go.
        padding: Document = {"padding": "x" * 100_000, "agents": {}}
        await workspace.task(TASK).save({**notes, **padding})

    with children(saves_all_the_time, [(root, number) for number in range(AGENTS)]) as agents:
        let_go(agents)
        for number in range(EDITS):
            await asyncio.to_thread(editor, view.path, NOTES[number % 5], number + 1)
            await asyncio.to_thread(view.wait_for_edits, number + 1)
            notes[f"note-{NOTES[number % 5]}"] = number + 1
        for agent in agents:
            agent.tell("stop")
        answers = [agent.ended() for agent in agents]

    edits = view.edits()
    assert [edit["changes"] for edit in edits] == [
        {"set": {f"/note-{NOTES[number % 5]}": number + 1}} for number in range(EDITS)
    ]
    assert {edit["by"] for edit in edits} == {"human"}
    async with opened(root) as workspace:
        state = (await workspace.task(TASK).load(max_tokens=10**6)).state
        assert {name: state[name] for name in notes} == notes
        assert state["agents"] == {
            f"agent-{number}": answer["saves"] for number, answer in enumerate(answers)
        }
        await workspace.render(TASK)
        assert view.document()["state"] == state
        assert await workspace.check() == []
    edited = {f"/state/{name}": value for name, value in notes.items() if value}
    assert [answer["told"] for answer in answers] == [edited] * AGENTS
    assert [answer["conflicts"] for answer in answers] == [0] * AGENTS
    # A rendering may have hidden an edit for a moment, so that the next one of that note took it back.
    for lost in map(json.loads, view.conflict_texts()):
        assert (lost["lost_by"], lost["kept_by"]) == ("human", "human")
        assert lost["lost"] < notes[lost["path"].removeprefix("/state/")]
    assert list(view.folder.glob(".hfview.*")) == []


# --- what people change -----------------------------------------------------------------------


@pytest.fixture
async def workspace(root: Path) -> AsyncIterator[Workspace]:
    """Open a workspace that renders only when told, and waits for nothing."""
    async with opened(
        root, settle_pause_seconds=0.001, young_view_seconds=3600.0, missing_view_seconds=0.0
    ) as workspace:
        yield workspace


@pytest.fixture
def view(root: Path) -> View:
    return View(root)


@pytest.fixture
async def agent(workspace: Workspace) -> Caller:
    """Give an agent that has begun a task with three steps."""
    agent = workspace.caller("agent")
    await agent.save(
        TASK,
        {"ceo": "Ann", "pages": 1, "deep": {"one": 1, "two": [1, 2]}},
        goal="Write it.",
        next="read",
        plan=["s1", "s2", "s3"],
    )
    await workspace.render(TASK)
    return agent


def by_people(answer: Any) -> list[tuple[str, Any, Any]]:
    changes: list[Change] = answer.changes
    return [(change.path, change.old, change.new) for change in changes if change.by == "human"]


def in_state(**values: Any) -> Callable[[Document], object]:
    return lambda document: document["state"].update(values)


def in_plan(**words: str) -> Callable[[Document], object]:
    return lambda document: document["plan"].update(words)


def in_file(**values: Any) -> Callable[[Document], object]:
    return lambda document: document.update(values)


def without_pages(document: Document) -> None:
    del document["state"]["pages"]


SIMPLE: list[Any] = [
    pytest.param(in_state(ceo="Bea"), ("/state/ceo", "Ann", "Bea"), id="a value"),
    pytest.param(in_state(deep={"one": 2}), ("/state/deep/one", 1, 2), id="a value below"),
    pytest.param(in_state(board=["Eve"]), ("/state/board", None, ["Eve"]), id="a new key"),
    pytest.param(without_pages, ("/state/pages", 1, None), id="no key"),
    pytest.param(in_file(next="stop"), ("/next", "read", "stop"), id="next"),
    pytest.param(in_file(goal="Sell."), ("/goal", "Write it.", "Sell."), id="goal"),
    pytest.param(in_plan(s2="skipped"), ("/plan/s2", "pending", "skipped"), id="skip"),
    pytest.param(in_plan(s2="done"), ("/plan/s2", "pending", "done"), id="done by hand"),
    pytest.param(
        in_file(status="paused"),
        ("/status", "active", "paused"),
        id="pause",
    ),
]


@pytest.mark.parametrize(("change", "expected"), SIMPLE)
async def test_the_agent_is_told_of_a_persons_change_at_its_next_save(
    agent: Caller, view: View, change: Callable[[Document], object], expected: Any
) -> None:
    view.edit(change)

    saved = await agent.save(TASK, {"agents own": 1})

    assert expected in by_people(saved)
    assert saved.conflicts == []
    [edit] = view.edits()
    assert edit["by"] == "human"


@pytest.mark.parametrize(("change", "expected"), SIMPLE)
async def test_the_agent_is_told_of_a_persons_change_when_it_loads(
    workspace: Workspace,
    agent: Caller,
    view: View,
    change: Callable[[Document], object],
    expected: Any,
) -> None:
    view.edit(change)

    brief = await agent.load(TASK)

    assert expected in by_people(brief)
    await workspace.render(TASK)
    assert (await agent.load(TASK)).changes == []
    assert len(view.edits()) == 1


async def test_a_value_stays_as_the_person_left_it_when_the_agent_repeats_its_own(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    view.edit(in_state(ceo="Bea"))

    saved = await agent.save(TASK, {"ceo": "Ann", "pages": 2})

    [conflict] = saved.conflicts
    assert (conflict.path, conflict.yours, conflict.current) == ("/state/ceo", "Ann", "Bea")
    await workspace.render(TASK)
    assert view.document()["state"]["ceo"] == "Bea"
    assert view.document()["state"]["pages"] == 2


async def test_an_answer_in_the_file_answers_the_question(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    asked = await agent.ask(TASK, "Skip doc-031?", ["skip", "stop"])
    await workspace.render(TASK)
    assert view.document()["status"] == "waiting"

    view.edit(lambda document: document["questions"][0].update(answer="skip"))
    saved = await agent.save(TASK, {"pages": 2})

    assert [path for path, _, new in by_people(saved) if new == "skip"] == [
        f"/questions/{asked.question_id}/answer"
    ]
    again = await agent.ask(TASK, "Skip doc-031?", ["skip", "stop"])
    assert (again.status, again.answer) == ("answered", "skip")
    assert (await agent.load(TASK)).status == "active"


async def test_a_failed_step_is_put_back_to_pending(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    await agent.mark(TASK, "s1", outcome="failed")
    await workspace.render(TASK)
    assert view.document()["plan"]["s1"] == "failed"

    view.edit(in_plan(s1="pending"))

    assert ("/plan/s1", "failed", "pending") in by_people(await agent.load(TASK))
    assert (await agent.begin(TASK)).step == "s1"


@pytest.mark.parametrize(("word", "go"), [("pending", True), ("done", False), ("skipped", False)])
async def test_a_doubt_is_resolved_in_the_file(
    workspace: Workspace, agent: Caller, view: View, word: str, go: bool
) -> None:
    key = (await agent.begin(TASK, "s1")).idempotency_key
    await workspace.release(TASK, "s1")
    await workspace.render(TASK)
    assert view.document()["plan"]["s1"] == "in_doubt"

    view.edit(in_plan(s1=word))
    saved = await agent.save(TASK, {"pages": 2})

    assert ("/plan/s1", "in_doubt", word) in by_people(saved)
    begun = await agent.begin(TASK, "s1")
    assert begun.go is go
    assert begun.idempotency_key == key


async def test_the_claim_of_a_dead_process_is_in_doubt_in_the_file_and_resolved_there(
    root: Path, workspace: Workspace, agent: Caller, view: View
) -> None:
    async with opened(root, "mortal") as other:
        assert (await other.task(TASK).begin("s1")).go
    await agent.save(TASK, {"pages": 2})
    await workspace.render(TASK)
    assert view.document()["plan"]["s1"] == "in_doubt"

    view.edit(in_plan(s1="pending"))

    saved = await agent.save(TASK, {"pages": 3})
    assert [path for path, _, new in by_people(saved) if new == "pending"] == ["/plan/s1"]
    assert (await agent.begin(TASK, "s1")).go


async def test_names_in_reopen_are_pending_again_with_a_new_key(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    key = (await agent.begin(TASK, "s1")).idempotency_key
    await agent.mark(TASK, "s1", "first")
    await workspace.render(TASK)

    view.edit(lambda document: document["reopen"].append("s1"))

    assert ("/plan/s1", "done", "pending") in by_people(await agent.save(TASK, {"pages": 2}))
    begun = await agent.begin(TASK)
    assert (begun.go, begun.step) == (True, "s1")
    assert begun.idempotency_key != key
    await workspace.render(TASK)
    assert view.document()["reopen"] == []


async def test_the_order_of_lines_is_the_order_of_steps_and_new_lines_are_new_steps(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    view.edit(
        lambda document: document.update(plan={"s3": "pending", "new": "pending", "s1": "pending"})
    )

    brief = await agent.load(TASK)

    # A deleted line means nothing: s2 is still there, somewhere.
    order = [name for name in brief.remaining if name != "s2"]
    assert order == ["s3", "new", "s1"]
    assert sorted(brief.remaining) == ["new", "s1", "s2", "s3"]
    assert brief.changes, "the agent is told that the plan is another"
    await workspace.render(TASK)
    assert list(view.document()["plan"]) == brief.remaining


async def test_a_persons_pause_holds_until_a_person_ends_it(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    view.edit(in_file(status="paused"))
    begun = await agent.begin(TASK)
    assert (begun.go, begun.status) == (False, "paused")
    assert (await agent.mark(TASK, "s1")).outcome == "done"
    assert (await agent.load(TASK)).status == "paused"
    await workspace.render(TASK)

    view.edit(in_file(status="active"))

    assert ("/status", "paused", "active") in by_people(await agent.save(TASK, {"pages": 2}))
    assert (await agent.begin(TASK)).go


async def test_done_with_unfinished_steps_is_put_back_with_a_warning(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    view.edit(in_file(status="done"))

    brief = await agent.load(TASK)

    assert brief.status == "active"
    assert any("status was put back" in warning for warning in brief.warnings)
    await workspace.render(TASK)
    assert view.document()["status"] == "active"


async def test_an_unknown_key_is_kept_and_warned_about(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    view.edit(lambda document: document.update({"my notes": ["ask Eve"]}))

    brief = await agent.load(TASK)

    assert any("my notes" in warning for warning in brief.warnings)
    await agent.save(TASK, {"pages": 2})
    await workspace.render(TASK)
    assert view.document()["my notes"] == ["ask Eve"]


async def test_what_is_not_a_persons_to_change_is_put_back(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    view.edit(lambda document: document["read_only"].update(checkpoint=99, progress={}))
    await agent.load(TASK)

    await workspace.render(TASK)

    assert view.document()["read_only"]["checkpoint"] == 1
    assert view.document()["read_only"]["progress"]["total"] == 3


# --- buffers that stay open -------------------------------------------------------------------


async def value_of(agent: Caller, name: str) -> Any:
    return (await agent.load(TASK)).state[name]


async def test_undo_brings_the_value_before_back(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    genuine = view.text()
    view.edit(in_state(ceo="Bea"))
    assert await value_of(agent, "ceo") == "Bea"

    write_in_place(view.path, genuine)

    assert await value_of(agent, "ceo") == "Ann"
    await workspace.render(TASK)
    assert view.document()["state"]["ceo"] == "Ann"
    assert len(view.edits()) == 2


async def test_undo_takes_back_only_what_that_person_had_saved(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    genuine = view.text()
    view.edit(in_state(ceo="Bea"))
    await agent.save(TASK, {"pages": 2})
    await workspace.render(TASK)

    write_in_place(view.path, genuine)

    assert await value_of(agent, "ceo") == "Ann"
    assert await value_of(agent, "pages") == 2


async def test_each_save_from_one_open_buffer_counts(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    buffer = view.document()
    for number, value in enumerate(["1", "2", "1"], 1):
        buffer["state"]["ceo"] = value
        view.save(buffer)

        # The agent goes on meanwhile, and what the buffer never showed is not undone.
        saved = await agent.save(TASK, {"pages": number + 1})

        assert saved.conflicts == []
        assert await value_of(agent, "ceo") == value
        assert await value_of(agent, "pages") == number + 1
        assert len(view.edits()) == number
        if number == 2:
            await workspace.render(TASK)


async def test_an_editor_that_writes_late_into_a_displaced_file_is_heard(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    text = view.text().replace('"Ann"', '"Bea"')
    with view.path.open("r+") as buffer:
        await agent.save(TASK, {"pages": 2})
        await workspace.render(TASK)
        assert view.document()["state"]["pages"] == 2, "another file is in place now"
        buffer.truncate(0)
        buffer.write(text)

    await agent.save(TASK, {"pages": 3})
    await workspace.render(TASK)

    assert await value_of(agent, "ceo") == "Bea"
    assert await value_of(agent, "pages") == 3
    await workspace.render(TASK)
    assert view.document()["state"]["ceo"] == "Bea"
    assert list(view.folder.glob(".hfview.*")) == []


async def test_a_displaced_file_is_kept_as_long_as_an_editor_has_it_open(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    text = view.text().replace('"Ann"', '"Bea"')
    with view.path.open("r+") as buffer:
        for pages in (2, 3, 4):
            await agent.save(TASK, {"pages": pages})
            await workspace.render(TASK)
        assert os.fstat(buffer.fileno()).st_nlink == 1
        buffer.write(text)
        buffer.truncate()

    for pages in (5, 6):
        await agent.save(TASK, {"pages": pages})
        await workspace.render(TASK)

    assert await value_of(agent, "ceo") == "Bea"
    assert await value_of(agent, "pages") == 6


# --- files nobody can merge -------------------------------------------------------------------


async def assert_kept_aside(agent: Caller, workspace: Workspace, view: View, text: str) -> Brief:
    """The file is in conflicts/ as it was, announced, and the view is rendered anew."""
    brief = await agent.load(TASK)
    [kept] = view.conflicts()
    assert (view.folder / "conflicts" / kept).read_text() == text
    [announced] = brief.conflicts
    assert announced.file.endswith(kept)
    assert any(kept in warning for warning in brief.warnings)
    await workspace.render(TASK)
    document = view.document()
    assert document["task"] == TASK
    assert document["read_only"]["revision"] >= brief.revision
    assert document["state"] == brief.state
    await agent.load(TASK)
    assert view.conflicts() == [kept]
    return brief


async def test_without_read_only_it_is_merged_while_nothing_else_was_recorded(
    agent: Caller, view: View
) -> None:
    view.edit(lambda document: (document.pop("read_only"), in_state(ceo="Bea")(document)))

    assert await value_of(agent, "ceo") == "Bea"
    assert view.conflicts() == []


async def test_without_read_only_it_is_kept_aside_if_agents_went_on(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    document = view.document()
    del document["read_only"]
    await agent.save(TASK, {"pages": 2})

    view.save(in_place := document | {"state": {"ceo": "Bea"}})

    text = json.dumps(in_place, indent=2)
    brief = await assert_kept_aside(agent, workspace, view, text)
    assert brief.state["ceo"] == "Ann"
    assert brief.state["pages"] == 2


async def test_a_future_revision_is_kept_aside(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    view.edit(
        lambda document: (document["read_only"].update(revision=9999), in_state(ceo="B")(document))
    )

    brief = await assert_kept_aside(agent, workspace, view, view.text())
    assert brief.state["ceo"] == "Ann"


async def test_another_tasks_file_is_kept_aside(
    root: Path, workspace: Workspace, agent: Caller, view: View
) -> None:
    await agent.save("other", {"ceo": "Zoe"})
    await workspace.render("other")
    text = View(root, "other").text().replace("Zoe", "Yve")

    write_in_place(view.path, text)

    brief = await assert_kept_aside(agent, workspace, view, text)
    assert brief.state["ceo"] == "Ann"


async def test_another_tasks_genuine_view_does_not_stay(
    root: Path, workspace: Workspace, agent: Caller, view: View
) -> None:
    for number in range(5):
        await agent.save("other", {"number": number})
    await workspace.render("other")

    shutil.copyfile(View(root, "other").path, view.path)
    await agent.save(TASK, {"pages": 2})
    await workspace.render(TASK)

    assert view.document()["task"] == TASK
    assert view.document()["state"]["pages"] == 2


async def test_an_edited_checkpoint_file_is_kept_aside_and_rendered_anew(
    root: Path, workspace: Workspace, agent: Caller, view: View
) -> None:
    [path] = (view.folder / "checkpoints").iterdir()
    genuine = path.read_text()
    path.chmod(0o600)
    path.write_text(genuine.replace("Ann", "Bea"))

    async with opened(root, "another") as later:
        other = later.caller("another")
        await other.load(TASK)
        await other.save(TASK, {"pages": 2})
        await later.render(TASK)
        brief = await other.load(TASK)

    assert path.read_text() == genuine
    assert brief.conflicts
    assert brief.state["ceo"] == "Ann"
    with suppress(FileNotFoundError):
        assert "Bea" in (view.folder / brief.conflicts[0].file).read_text()
