"""What a client on stdin and stdout can rely on, over real pipes."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.server.transports.programs import (
    DISCOVER,
    ENVELOPE,
    INITIALIZE,
    INITIALIZED,
    Message,
    Pipes,
    Starter,
    call,
    line,
)

from holdfast_server.app import build
from holdfast_server.stdio import Connection, Wire
from holdfast_storage import Workspace

STOPPING = [signal.SIGINT, signal.SIGTERM]
PROMPTLY = 3.0


def steps(count: int) -> list[Message]:
    return [call(n, "mark_step_done", task="batch", step=f"doc-{n}") for n in range(count)]


# --- how a session begins ---------------------------------------------------------------------


def test_a_client_may_discover_and_then_initialize(starter: Starter) -> None:
    server = starter.stdio()
    server.send(DISCOVER)
    versions = server.answer("who")["result"]["supportedVersions"]

    hello = server.hello()

    assert "2026-07-28" in versions
    assert hello["result"]["protocolVersion"] == "2025-11-25"
    assert server.told("load_checkpoint", task="none")["found"] is False


def test_a_client_may_discover_and_go_on_without_a_handshake(starter: Starter) -> None:
    server = starter.stdio()
    server.send(DISCOVER, DISCOVER | {"id": "again"}, call(1, "list_checkpoints", modern=True))

    assert server.answer(1)["result"]["structuredContent"]["tasks"] == []


EVERY_TOOL: list[tuple[str, Message]] = [
    ("load_checkpoint", {"task": "all"}),
    (
        "save_checkpoint",
        {"task": "all", "goal": "everything", "plan": ["a", "b"], "state": {"n": 1}},
    ),
    ("begin_step", {"task": "all", "step": "a"}),
    ("mark_step_done", {"task": "all", "step": "b", "result": {"ok": True}}),
    ("ask_human", {"task": "all", "question": "Go on?"}),
    ("list_checkpoints", {"task": "all", "show": "steps"}),
    ("prune", {"task": "all"}),
    ("finish_task", {"task": "all", "outcome": "paused"}),
]


@pytest.mark.parametrize("modern", [False, True])
def test_every_tool_answers_in_both_generations(starter: Starter, modern: bool) -> None:
    server = starter.stdio()
    if not modern:
        server.hello()

    for number, (tool, arguments) in enumerate(EVERY_TOOL):
        server.send(call(number, tool, modern, **arguments))
        result = server.answer(number)["result"]
        assert not result.get("isError"), (tool, result)
        assert result["structuredContent"]


# --- how it ends ------------------------------------------------------------------------------


def test_every_answer_arrives_though_the_input_has_ended(starter: Starter) -> None:
    server = starter.stdio()
    server.send(INITIALIZE, INITIALIZED, *steps(200))
    server.close_input()

    # A notice that a task changed may come in between.
    answers = {message["id"]: message for message in server.rest() if "id" in message}

    assert set(answers) == {"hello", *range(200)}
    assert not [m for m in answers.values() if m.get("error") or m["result"].get("isError")]
    assert server.wait() == 0


def test_a_file_is_taken_for_input_and_for_output(starter: Starter, tmp_path: Path) -> None:
    asked, told = tmp_path / "asked.jsonl", tmp_path / "told.jsonl"
    asked.write_bytes(b"".join(map(line, [INITIALIZE, INITIALIZED, *steps(20)])))
    source, sink = os.open(asked, os.O_RDONLY), os.open(told, os.O_CREAT | os.O_WRONLY)

    server = starter.start("serve", files={0: source, 1: sink})

    os.close(source)
    os.close(sink)
    assert server.wait() == 0
    assert len(told.read_bytes().splitlines()) == 21


def test_no_input_at_all_ends_at_once(starter: Starter) -> None:
    server = starter.start("serve")

    assert server.wait() == 0
    assert server.event("stopped")


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_ends_an_idle_server(starter: Starter, number: signal.Signals) -> None:
    server = starter.stdio()
    server.hello()

    server.signal(number)

    assert server.wait(PROMPTLY) == 0
    assert server.rest() == []
    assert server.event("stopped")


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_ends_a_busy_server_and_what_it_said_is_true(
    starter: Starter, number: signal.Signals
) -> None:
    server = starter.stdio()
    server.hello()
    server.send(*steps(2000))
    server.answer(0)

    server.signal(number)

    acknowledged = 1 + sum("result" in message for message in server.rest())
    assert server.wait(PROMPTLY) == 0
    after = starter.stdio()
    after.hello()
    assert after.told("load_checkpoint", task="batch")["progress"]["done"] >= acknowledged


NO_IDS: list[Any] = [[], {}, None, True, 1.5, "x"]


def test_a_cancelled_request_does_not_hold_up_the_end(starter: Starter) -> None:
    server = starter.stdio()
    server.hello()
    asking: Message = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    server.send(
        *steps(50),
        *[asking | {"params": {"requestId": n}} for n in range(50)],
        *[asking | {"params": {"requestId": wrong}} for wrong in NO_IDS],
        asking,
    )
    server.close_input()

    assert server.wait(PROMPTLY) == 0


def test_a_question_the_client_never_answers_does_not_hold_up_the_end(starter: Starter) -> None:
    server = starter.stdio()
    params = INITIALIZE["params"] | {"capabilities": {"elicitation": {}}}
    server.send(INITIALIZE | {"params": params}, INITIALIZED)
    server.send(call(1, "ask_human", task="trip", question="Which way?"))
    while server.receive().get("method") != "elicitation/create":
        pass

    server.close_input()

    [answer] = [message for message in server.rest() if message.get("id") == 1]
    assert answer["result"]["structuredContent"]["status"] == "waiting"
    assert server.wait(PROMPTLY) == 0


def test_listening_does_not_hold_up_the_end(starter: Starter) -> None:
    server = starter.stdio()
    notices = {"resourcesListChanged": True}
    listen: Message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}
    server.send(listen | {"params": {"_meta": ENVELOPE, "notifications": notices}})
    server.send(call(2, "list_checkpoints", modern=True))
    server.answer(2)

    server.close_input()

    assert server.wait(PROMPTLY) == 0


SESSION = b"".join(map(line, [INITIALIZE, call(1, "list_checkpoints")]))
# A line that only lacks its newline is a message all the same.
WHOLE = [len(line(INITIALIZE)) - 1, len(SESSION) - 1]
BETWEEN = {0, *WHOLE, WHOLE[0] + 1, WHOLE[1] + 1}


def check_cut_session(end: int, answers: list[Message]) -> None:
    assert len([m for m in answers if "result" in m]) == sum(end >= n for n in WHOLE), end
    codes = [m["error"]["code"] for m in answers if "error" in m]
    assert codes == ([] if end in BETWEEN else [-32700]), end


def test_input_may_end_anywhere(starter: Starter) -> None:
    for end in sorted({*BETWEEN, *range(1, len(SESSION), 29)}):
        server = starter.stdio("--log", "warning")
        os.write(server.to, SESSION[:end])
        server.close_input()

        check_cut_session(end, server.rest())
        assert server.wait() == 0
        assert server.log.read_text() == ""
        server.end()


async def test_input_may_end_at_every_byte() -> None:
    async with Workspace.open("memory:") as workspace:
        built, _ = build(workspace)
        server = built._lowlevel_server  # pyright: ignore[reportPrivateUsage]
        for end in range(len(SESSION) + 1):
            (source, to), (back, sink) = os.pipe(), os.pipe()
            os.write(to, SESSION[:end])
            os.close(to)
            wire = Wire(source, sink)
            with anyio.fail_after(5):
                await Connection(wire).serve(server, 2**20)
            wire.close()
            check_cut_session(end, [json.loads(each) for each in os.read(back, 2**16).splitlines()])
            os.close(back)


def test_a_client_that_is_gone_ends_the_server(starter: Starter) -> None:
    server = starter.stdio()
    server.hello()
    server.close_output()

    os.write(server.to, b"".join(map(line, steps(5))))

    assert server.wait(PROMPTLY) == 0
    assert server.event("client_gone")


def test_a_client_that_does_not_read_costs_no_more_than_it_may(starter: Starter) -> None:
    server = starter.stdio()
    server.hello()
    server.told("save_checkpoint", task="big", goal="x", state={"text": "x" * 300_000})
    before = server.memory()
    os.set_blocking(server.to, False)
    written = 0
    large = line(call(1, "load_checkpoint", task="big", max_tokens=100_000))
    until = time.monotonic() + 3
    while written < 5_000 * len(large) and time.monotonic() < until:
        try:
            written += os.write(server.to, large)
        except BlockingIOError:
            time.sleep(0.01)

    assert server.memory() - before < 200 * 2**20
    # A hundred at a time are worked on; the rest waits as it came, which is small.
    loads = [each for each in server.events() if each["event"] == "load_checkpoint"]
    assert 1 < len(loads) < 110
    server.signal(signal.SIGTERM)
    assert server.wait(PROMPTLY) == 0


# --- what else is printed ---------------------------------------------------------------------

_PRINTS = """
import holdfast_server.serving as serving, os, subprocess, sys
build = serving.build
def noisy(*given, **named):
    print("printed")
    sys.__stdout__.write("written"); sys.__stdout__.flush()
    os.write(1, b"raw")
    subprocess.run(["echo", "from a child"], check=True)
    assert subprocess.run(["cat"], capture_output=True, check=True).stdout == b""
    return build(*given, **named)
serving.build = noisy
"""


def test_stray_prints_are_not_on_the_wire(starter: Starter) -> None:
    server = starter.stdio(before=_PRINTS)
    server.hello()
    server.close_input()

    assert server.rest() == []
    assert server.wait() == 0
    log = server.log.read_text()
    assert all(word in log for word in ("printed", "written", "raw", "from a child"))


def test_nobody_reading_stderr_stops_nothing(starter: Starter) -> None:
    (inside_in, to), (back, inside_out), (unread, stderr) = os.pipe(), os.pipe(), os.pipe()
    started = starter.start(
        *("serve", "--workspace", str(starter.workspace)),
        files={0: inside_in, 1: inside_out, 2: stderr},
        make=lambda asker, log: Pipes(asker, log, to, back),
    )
    for descriptor in (inside_in, inside_out, stderr):
        os.close(descriptor)
    assert isinstance(started, Pipes)
    started.hello()
    started.send(*steps(1000))

    started.answer(999)

    started.close_input()
    assert started.wait() == 0
    os.close(unread)


def test_a_socket_is_taken_like_a_pipe_and_may_break(starter: Starter) -> None:
    # What Node gives to the programs it starts.
    ours, theirs = socket.socketpair()
    server = starter.start("serve", files={0: theirs.fileno(), 1: theirs.fileno()})
    theirs.close()
    ours.sendall(b"".join(map(line, [INITIALIZE, INITIALIZED, *steps(3)])))
    assert b'"hello"' in ours.recv(10) + ours.recv(2**16)

    # Closed with answers unread, reading fails on the other side.
    ours.close()

    assert server.wait(PROMPTLY) == 0
    assert not [each for each in server.events() if "traceback" in each]
