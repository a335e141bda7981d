"""`wait` returns when a person did something that an agent should know; `watch` shows it all live."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from tests.server.cli.conftest import Desk, Terminal

from holdfast_server.cli import exits
from holdfast_storage import Workspace

At = Callable[..., Terminal]


@pytest.mark.parametrize(
    ("deeds", "status", "said"),
    [
        ([["answer", "ingest", "skip"]], exits.ANSWERED, "answered"),
        ([["reopen", "ingest", "doc-001"]], exits.CHANGED, "changed"),
        ([["pause", "ingest"], ["unpause", "ingest"]], exits.UNPAUSED, "unpaused"),
        ([["finish", "ingest", "abandoned"]], exits.FINISHED, "finished"),
        ([["reopen", "ingest", "doc-001"], ["answer", "ingest", "x"]], exits.ANSWERED, "answered"),
        ([["answer", "ingest", "x"], ["pin", "ingest", "1"]], exits.ANSWERED, "answered"),
    ],
    ids=repr,
)
def test_what_a_person_did_before_is_told_at_once(
    busy: Desk, deeds: list[list[str]], status: int, said: str
) -> None:
    for words in deeds:
        busy.ok(*words)

    typed = busy("wait", "ingest")

    assert (typed.status, typed.out) == (status, f"{said}\n")
    assert busy("wait", "ingest", "--json").json["happened"] == said


@pytest.mark.parametrize(
    "deeds",
    [
        [],
        [["pin", "ingest", "1"]],
        [["pause", "ingest"]],
        [["answer", "ingest", "x"], ["pause", "ingest"]],
    ],
    ids=lambda deeds: "+".join(each[0] for each in deeds),
)
def test_nothing_to_wake_up_for_sleeps_on(busy: Desk, deeds: list[list[str]]) -> None:
    for words in deeds:
        busy.ok(*words)

    typed = busy("wait", "ingest", "--timeout", "0.2")

    assert (typed.status, typed.out) == (exits.TIMED_OUT, "timed_out\n")


def test_what_an_agent_has_seen_since_is_old_news(busy: Desk) -> None:
    busy.ok("answer", "ingest", "skip")

    async def go_on(workspace: Workspace) -> None:
        await workspace.caller("claude@laptop").mark("ingest", "doc-004")

    busy.work(go_on)

    assert busy("wait", "ingest", "--timeout", "0.2").status == exits.TIMED_OUT


def test_an_edit_by_hand_is_noticed_and_tells_what_it_was(busy: Desk) -> None:
    view = busy.root / "tasks" / "ingest" / "state.json"
    view.write_text(view.read_text().replace('"answer": null', '"answer": "skip"'))

    assert busy("wait", "ingest").status == exits.ANSWERED


def test_a_script_that_sleeps_is_woken(busy: Desk) -> None:
    command = [sys.executable, "-m", "holdfast_server", "wait", "ingest"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=1)

        busy.ok("answer", "ingest", "skip")

        assert waiting.wait(timeout=50) == exits.ANSWERED


def test_a_board_in_a_pipe_tells_of_each_change(busy: Desk) -> None:
    command = [sys.executable, "-m", "holdfast_server", "watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())

        busy.ok("answer", "ingest", "skip")
        second = json.loads(watching.stdout.readline())

        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=50) == exits.INTERRUPTED
    assert (first["status"], second["status"]) == ("waiting", "active")


def test_a_board_on_a_terminal_is_live_and_leaves_it_as_it_was(
    busy: Desk, terminal: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = terminal()
    done = threading.Event()

    def person() -> None:
        screen.wait_for("waiting")
        busy.work(lambda workspace: workspace.answer("ingest", "skip"))
        screen.wait_for("active")
        done.set()
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=person, daemon=True).start()

    status = busy("watch").status

    said = screen.shown()
    assert done.is_set()
    assert status == exits.INTERRUPTED
    assert "1 task" in said
    assert said.startswith("\x1b[?1049h\x1b[?25l")
    assert said.rstrip().endswith("\x1b[?25h\x1b[?1049l")
