"""What the hooks do for an agent in Claude Code, told with events as version 2.1.325 sends them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast_server.cli.main import main
from holdfast_server.clients import conversations
from holdfast_storage import Workspace
from holdfast_storage.results import Brief

RECORDED = Path(__file__).parent / "recorded"
T = TypeVar("T")


class Client:
    """Claude Code in a project: calls its hooks as it does."""

    def __init__(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.project = home / "project"
        self.root = self.project / ".holdfast"
        (self.project / ".git").mkdir(parents=True)
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
        monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(self.project))
        monkeypatch.delenv("HOLDFAST_WORKSPACE", raising=False)

    def event(self, name: str, **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
        return {**told, "cwd": str(self.project), **more}

    def tells(self, name: str, *flags: str, **more: Any) -> str:
        """Call the hook with a recorded event and give what the agent reads."""
        said, complained = self.sends(json.dumps(self.event(name, **more)).encode(), *flags)
        assert complained == ""
        return said

    def sends(self, raw: bytes, *flags: str) -> tuple[str, str]:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        assert main(["hook", "claude-code", *flags]) == 0
        said = self._capsys.readouterr()
        return said.out, said.err


@pytest.fixture
def client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Client:
    return Client(tmp_path, monkeypatch, capsys)


def run(doing: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(doing)


async def started(root: Path, *tasks: str) -> None:
    async with Workspace.open(root, by="agent") as workspace:
        for task in tasks:
            await workspace.task(task).save(
                {"birds": 3}, goal=f"finish {task}", plan=["north", "south"]
            )


async def looked_at(root: Path, task: str) -> Brief:
    async with Workspace.open(root) as workspace:
        return await workspace.brief(task)


def test_after_a_compaction_the_agent_reads_where_its_task_stands(client: Client) -> None:
    run(started(client.root, "survey", "another"))
    client.tells("post-tool-use-save")

    client.tells("pre-compact")
    said = client.tells("session-start-compact")

    heading, brief = said.split("\n", 1)
    assert "load_checkpoint" in heading
    told = json.loads(brief)
    assert (told["task"], told["state"]) == ("survey", {"birds": 3})
    assert told["remaining"] == ["north", "south"]


def test_before_a_compaction_a_checkpoint_names_the_transcript(client: Client) -> None:
    run(started(client.root, "survey"))
    client.tells("post-tool-use-save")

    client.tells("pre-compact")

    brief = run(looked_at(client.root, "survey"))
    assert (brief.checkpoint, brief.label, brief.state) == (2, "before compaction", {"birds": 3})
    assert [ref.ref for ref in brief.refs] == [client.event("pre-compact")["transcript_path"]]
    assert brief.saved_by.startswith("claude-code-hook@")
    assert brief.progress.resumes == 0


@pytest.mark.parametrize("outcome", ["done", "paused", "failed", "abandoned"])
def test_a_task_that_was_laid_down_is_not_taken_up_by_a_hook(client: Client, outcome: str) -> None:
    async def lay_down() -> None:
        async with Workspace.open(client.root, by="agent") as workspace:
            task = workspace.task("survey")
            await task.save({"birds": 3})
            await task.finish(outcome)

    run(lay_down())
    client.tells("post-tool-use-save")

    client.tells("pre-compact")

    brief = run(looked_at(client.root, "survey"))
    assert (brief.status, brief.checkpoint) == (outcome, 1)
    is_over = outcome in ("done", "abandoned")
    assert (client.tells("session-start-resume") == "") == is_over


def test_a_conversation_remembers_the_task_it_worked_on_last(client: Client) -> None:
    run(started(client.root, "survey", "another"))
    client.tells("post-tool-use-save")
    client.tells("post-tool-use-save", tool_input={"task": "another"})

    looking = {"tool_name": "mcp__holdfast__list_checkpoints", "tool_input": {"task": "survey"}}
    client.tells("post-tool-use-save", **looking)
    client.tells("post-tool-use-save", tool_input={"task": "survey"}, session_id="else")

    assert '"task": "another"' in client.tells("session-start-resume")


@pytest.mark.parametrize(
    "answer",
    ['{"found": true, "task": "survey"}', [{"type": "text", "text": '{"task": "survey"}'}]],
)
def test_a_task_that_the_server_chose_is_found_in_its_answer(client: Client, answer: Any) -> None:
    run(started(client.root, "survey", "another"))

    client.tells("post-tool-use-load", tool_response=answer)

    assert '"task": "survey"' in client.tells("session-start-resume")


def test_a_new_conversation_reads_of_the_one_task_under_way(client: Client) -> None:
    run(started(client.root, "survey"))

    assert '"task": "survey"' in client.tells("session-start-startup")


def test_a_new_conversation_may_choose_between_several_tasks(client: Client) -> None:
    run(started(client.root, "survey", "another"))

    said = client.tells("session-start-startup")

    assert "finish survey" in said
    assert "finish another" in said
    assert "birds" not in said


@pytest.mark.parametrize("event", sorted(path.stem for path in RECORDED.iterdir()))
def test_where_there_is_no_workspace_nothing_is_said_and_none_made(
    client: Client, event: str
) -> None:
    client.tells("post-tool-use-save")

    assert client.tells(event) == ""

    assert not client.root.exists()


def test_a_workspace_elsewhere_is_the_one_that_was_named(client: Client, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    run(started(elsewhere, "survey"))
    named = ("--workspace", str(elsewhere))

    client.tells("post-tool-use-save", *named)

    assert '"task": "survey"' in client.tells("session-start-compact", *named)
    assert not client.root.exists()


def test_an_agent_that_went_into_another_folder_keeps_its_task(
    client: Client, tmp_path: Path
) -> None:
    run(started(client.root, "survey"))
    client.tells("post-tool-use-save", cwd=str(tmp_path))

    assert '"task": "survey"' in client.tells("session-start-compact", cwd=str(tmp_path))


SENSELESS = [
    *(b"", b"{", b"[]", b"null", b"\xff", b"{}"),
    b'{"hook_event_name": "PreCompact", "cwd": "/"}',
    b'{"hook_event_name": "PostToolUse", "cwd": "/", "tool_input": 7, "session_id": "a"}',
]


@pytest.mark.parametrize("raw", SENSELESS)
def test_an_event_that_makes_no_sense_is_a_line_on_stderr_and_no_failure(
    client: Client, raw: bytes
) -> None:
    said, complained = client.sends(raw)

    assert said == ""
    assert complained.startswith("holdfast hook: ")
    assert len(complained.splitlines()) == 1


def test_an_event_nobody_asked_for_is_ignored(client: Client) -> None:
    assert client.tells("pre-compact", hook_event_name="Stop") == ""


def test_a_broken_workspace_does_not_stop_the_client(client: Client) -> None:
    run(started(client.root, "survey"))
    client.tells("post-tool-use-save")
    (client.root / "holdfast.json").write_text("{")

    said, complained = client.sends(json.dumps(client.event("session-start-compact")).encode())

    assert said == ""
    assert "holdfast.json" in complained or "line 1" in complained


def test_a_broken_note_is_no_note(client: Client, tmp_path: Path) -> None:
    run(started(client.root, "survey"))
    client.tells("post-tool-use-save")
    [note] = (tmp_path / "state/holdfast/conversations").iterdir()
    assert stat.S_IMODE(note.parent.stat().st_mode) == 0o700
    note.write_text("{")

    assert '"task": "survey"' in client.tells("session-start-compact")


def test_notes_are_kept_for_a_month(client: Client, tmp_path: Path) -> None:
    for conversation in ("old", "new"):
        client.tells("post-tool-use-save", session_id=conversation)
    folder = tmp_path / "state/holdfast/conversations"
    then = time.time() - 31 * 24 * 3600
    os.utime(folder / conversations.file_of("old").name, (then, then))

    client.tells("session-start-startup")

    assert list(folder.iterdir()) == [conversations.file_of("new")]


def test_a_note_is_taken_without_paying_for_the_storage(client: Client, tmp_path: Path) -> None:
    program = (
        "import sys; from holdfast_server.cli.main import main; main(['hook', 'claude-code']);"
        "sys.exit(bool({'mcp', 'pydantic', 'holdfast_storage'} & set(sys.modules)))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(client.event("post-tool-use-save")).encode(),
        check=False,
    )

    assert ended.returncode == 0
    assert len(list((tmp_path / "state/holdfast/conversations").iterdir())) == 1
