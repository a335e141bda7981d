"""A half-saved or broken state.json costs nothing: it is left alone, and the last good state counts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from tests.storage.processes import opened

from holdfast_storage.caller import Caller
from holdfast_storage.results import Brief
from holdfast_storage.workspace import Workspace

TASK = "report"
STATE = {"ceo": "Ann", "name": "Zoë \U0001f600", "pages": 1}

WHERE = re.compile(r"state\.json.*line (\d+), column (\d+)")


@pytest.fixture
async def workspace(root: Path) -> AsyncIterator[Workspace]:
    """Open a workspace that renders only when told, and waits for nothing."""
    async with opened(
        root,
        settle_pause_seconds=0.0,
        settled_after_seconds=0.0,
        young_view_seconds=3600.0,
        missing_view_seconds=0.0,
    ) as workspace:
        yield workspace


@pytest.fixture
async def agent(workspace: Workspace) -> Caller:
    agent = workspace.caller("agent")
    await agent.save(TASK, STATE, goal="Write it.", plan=["s1", "s2"])
    await workspace.render(TASK)
    return agent


class View:
    """The file, as a person or a broken program leaves it."""

    def __init__(self, root: Path, task: str = TASK) -> None:
        self._path = root / "tasks" / task / "state.json"

    def read(self) -> bytes:
        return self._path.read_bytes()

    def write(self, raw: bytes) -> None:
        self._path.write_bytes(raw)

    def delete(self) -> None:
        self._path.unlink()

    def is_there(self) -> bool:
        return self._path.exists()

    def state(self) -> Any:
        return json.loads(self.read())["state"]


@pytest.fixture
def view(root: Path, agent: Caller) -> View:
    return View(root)


def place_of(brief: Brief) -> tuple[int, int]:
    """Give the line and column that the warning names."""
    [warning] = brief.warnings
    found = WHERE.search(warning)
    assert found, warning
    return int(found[1]), int(found[2])


def lines_and_columns(raw: bytes) -> tuple[int, int]:
    """Give where the text ends."""
    lines = raw.decode(errors="ignore").split("\n")
    return len(lines), len(lines[-1]) + 1


async def test_truncated_at_every_byte_the_last_good_state_is_loaded(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    whole = view.read()
    for length in range(len(whole.rstrip())):
        view.write(whole[:length])

        brief = await agent.load(TASK)

        assert brief.state == STATE
        line, column = place_of(brief)
        last_line, last_column = lines_and_columns(whole[:length])
        # A string that does not end is reported where it begins, on the last line.
        assert line == last_line
        assert 1 <= column <= last_column
        if length % 50 == 0:
            marked = await agent.mark(TASK, f"at-{length}", length)
            assert WHERE.search(marked.warnings[0])
            await workspace.render(TASK)
        assert view.read() == whole[:length]

    steps = await agent.list_checkpoints(TASK, show="steps", status="done", limit=200)
    assert [line.step for line in steps.steps] == [
        f"at-{length}" for length in range(0, len(whole.rstrip()), 50)
    ]


MARKERS = b"""{
<<<<<<< HEAD
  "task": "report",
=======
  "task": "other",
>>>>>>> theirs
}
"""

BROKEN = {
    "empty": (b"", (1, 1)),
    "white": (b" \n\n", (1, 1)),
    "garbage": (b"\x00\x01\x02\xff\xfe", (1, 1)),
    "conflict markers": (MARKERS, (2, 1)),
    "utf-16": (json.dumps({"task": TASK}).encode("utf-16"), (1, 1)),
    "not a number": (b'{\n  "state": {"x": NaN}\n}', (2, 18)),
    "infinity": (b'{\n  "state": {"x": -Infinity}\n}', (2, 18)),
    "duplicate keys": (b'{\n  "goal": "a",\n  "goal": "b"\n}', (3, 3)),
    "no object": (b"[1, 2]", (1, 1)),
    "two documents": (b"{}\n{}", (2, 1)),
    "a comma too many": (b'{\n  "goal": "a",\n}', (3, 1)),
    "half a character": (b'{\n  "goal": "\xc3"\n}', (2, 12)),
    "half a surrogate pair": (b'{\n  "goal": "\\ud800"\n}', (2, 11)),
    "too deep": (b"[" * 100_000, (1, ANY)),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_file_is_left_as_it_is_and_the_warning_says_where(
    workspace: Workspace, agent: Caller, view: View, name: str
) -> None:
    raw, place = BROKEN[name]
    view.write(raw)

    brief = await agent.load(TASK)

    assert brief.state == STATE
    assert place_of(brief) == place
    saved = await agent.save(TASK, {"pages": 2})
    assert any(WHERE.search(warning) for warning in saved.warnings)
    await workspace.render(TASK)
    assert view.read() == raw


@pytest.mark.parametrize("name", BROKEN)
async def test_when_it_is_mended_the_edit_is_taken_and_the_warning_ends(
    workspace: Workspace, agent: Caller, view: View, name: str
) -> None:
    whole = view.read()
    view.write(BROKEN[name][0])
    await agent.save(TASK, {"pages": 2})
    await agent.mark(TASK, "s1", "done meanwhile")

    view.write(whole.replace(b'"Ann"', b'"Bea"'))
    brief = await agent.load(TASK)

    assert brief.state == {**STATE, "ceo": "Bea", "pages": 2}
    assert brief.warnings == []
    assert brief.progress.done == 1
    await workspace.render(TASK)
    assert view.state() == brief.state


async def test_a_byte_order_mark_is_no_mistake(agent: Caller, view: View) -> None:
    view.write(b"\xef\xbb\xbf" + view.read().replace(b'"Ann"', b'"Bea"'))

    brief = await agent.load(TASK)

    assert brief.state["ceo"] == "Bea"
    assert brief.warnings == []


async def test_a_deleted_file_means_nothing_and_comes_back(
    workspace: Workspace, agent: Caller, view: View
) -> None:
    view.delete()

    brief = await agent.load(TASK)

    assert brief.state == STATE
    assert brief.remaining == ["s1", "s2"]
    await agent.mark(TASK, "s1")
    await workspace.render(TASK)
    assert view.state() == STATE


async def test_a_deleted_file_stays_away_while_somebody_may_just_be_saving_it(root: Path) -> None:
    async with opened(root, young_view_seconds=0.0, missing_view_seconds=3600.0) as workspace:
        agent = workspace.caller("agent")
        await agent.save(TASK, STATE)
        await workspace.render(TASK)
        view = View(root)
        raw = view.read()
        view.delete()

        await agent.save(TASK, {"pages": 2})
        await workspace.render(TASK)

        assert not view.is_there()
        view.write(raw.replace(b'"Ann"', b'"Bea"'))
        assert (await agent.load(TASK)).state == {**STATE, "ceo": "Bea", "pages": 2}


async def test_a_task_begun_anew_after_it_was_deleted_shows_its_own_checkpoints(
    root: Path, workspace: Workspace
) -> None:
    agent = workspace.caller("agent")
    for number in range(3):
        await agent.save(TASK, {"old": number}, milestone=True)
    await workspace.render(TASK)
    shutil.rmtree(root / "tasks" / TASK)

    await agent.load(TASK)
    await agent.save(TASK, {"new": 1}, milestone=True)
    await workspace.render(TASK)

    [shown] = (root / "tasks" / TASK / "checkpoints").iterdir()
    assert shown.name == "0001.json"
    assert json.loads(shown.read_bytes())["state"] == {"new": 1}


async def test_others_are_warned_of_a_broken_file_too(
    root: Path, agent: Caller, view: View
) -> None:
    view.write(b'{"half')

    async with opened(root, "another", settle_pause_seconds=0.001) as workspace:
        brief = await workspace.task(TASK).load()
        marked = await workspace.task(TASK).done("s1")

    assert brief.state == STATE
    assert place_of(brief) == (1, 2)
    assert any(WHERE.search(warning) for warning in marked.warnings)
    # Not even at its exit does anybody write over it.
    assert view.read() == b'{"half'


async def test_a_broken_file_beside_a_good_one_is_not_taken_for_it(
    root: Path, workspace: Workspace, agent: Caller, view: View
) -> None:
    other = View(root, "other")
    await agent.save("other", {"x": 1})
    await workspace.render("other")
    view.write(b"{")

    assert (await agent.load("other")).warnings == []
    assert (await agent.load(TASK)).warnings != []
    other.write(other.read().replace(b'"x": 1', b'"x": 2'))
    assert (await agent.load("other")).state == {"x": 2}
