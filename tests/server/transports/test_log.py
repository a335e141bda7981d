"""What the log says: one line for everything that happens, with ids and sizes and never contents."""

from __future__ import annotations

import importlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from opentelemetry import trace
from tests.server.transports.programs import Pipes, Starter

from holdfast_server.app import build
from holdfast_server.observe import event
from holdfast_storage import Workspace

CANARY = "canary-in-the-mine"

SPOKEN: list[tuple[str, dict[str, Any]]] = [
    (
        "save_checkpoint",
        {
            "state": {CANARY: CANARY, "list": [CANARY]},
            "append": {"list2": [CANARY]},
            "goal": CANARY,
            "next": CANARY,
            "label": CANARY,
            "refs": [CANARY],
        },
    ),
    ("save_checkpoint", {"state": {"n": 2}, "milestone": True}),
    ("load_checkpoint", {"path": f"/{CANARY}"}),
    ("begin_step", {"step": "one"}),
    ("mark_step_done", {"step": "two", "result": CANARY, "state": {"x": CANARY}, "next": CANARY}),
    ("mark_step_done", {"step": "two", "claim": CANARY, "outcome": "failed"}),
    ("ask_human", {"question": CANARY, "options": [CANARY, "no"]}),
    ("list_checkpoints", {"show": "events"}),
    ("list_checkpoints", {"cursor": CANARY}),
    ("prune", {"keep_last": 1, "older_than_hours": 0}),
    ("finish_task", {"outcome": "paused", "summary": CANARY}),
    # And what is refused:
    ("save_checkpoint", {"state": CANARY, "data": CANARY}),
    ("save_checkpoint", {"append": {"n": [CANARY]}}),
    ("save_checkpoint", {"state": {"deep": CANARY * 940_000}}),
    ("mark_step_done", {"step": 5, "outcome": CANARY}),
    ("begin_step", {"step": "one", "claim": CANARY, "retry": True}),
]


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": CANARY, "arguments": {}}),
    ("tools/call", {"name": CANARY, "arguments": CANARY}),
    ("resources/read", {"uri": f"holdfast://{CANARY}"}),
    ("resources/read", {"uri": CANARY}),
    ("prompts/get", {"name": CANARY, "arguments": {CANARY: CANARY}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": CANARY}, "argument": CANARY},
    ),
    (CANARY, {CANARY: CANARY}),
]


def use_everything(server: Pipes) -> None:
    for tool, arguments in SPOKEN:
        server.call(tool, task="t", **arguments)
    for method, params in ASKED:
        server.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        server.answer(1)
    server.send({"jsonrpc": "2.0", "method": f"notifications/{CANARY}", "params": {"x": CANARY}})
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"x": CANARY}})
    server.write(f"{CANARY}\n".encode())
    server.answer(None)


def edit_by_hand(view: Path) -> None:
    document = json.loads(view.read_text())
    document["goal"] = document["state"]["by hand"] = document["unknown"] = CANARY
    view.write_text(json.dumps(document))


@pytest.mark.parametrize("level", ["debug", "info"])
def test_everything_is_noted_and_no_contents(starter: Starter, level: str) -> None:
    server = starter.stdio("--log", level)
    server.hello()
    use_everything(server)
    server.event("changed")
    edit_by_hand(starter.workspace / "tasks" / "t" / "state.json")
    server.told("load_checkpoint", task="t")
    server.close_input()
    assert server.wait() == 0

    events = server.events()

    assert CANARY not in server.log.read_text()
    by_name = {each["event"]: each for each in events if each.get("outcome", "ok") == "ok"}
    assert {*by_name} >= {
        *("serving", "save_checkpoint", "load_checkpoint", "begin_step", "mark_step_done"),
        *("ask_human", "prune", "finish_task", "edit", "stopped"),
    }
    assert by_name["save_checkpoint"]["task"] == "t"
    assert by_name["save_checkpoint"]["checkpoint"] == 2
    assert by_name["save_checkpoint"]["revision"] > 1
    assert by_name["mark_step_done"]["step"] == "two"
    assert by_name["edit"]["task"] == "t"
    assert by_name["edit"]["revision"] > 1
    refused = [each["outcome"] for each in events if each.get("outcome", "ok") != "ok"]
    assert {"wrong_arguments", "too_large"} <= set(refused), refused


def test_saves_and_steps_are_noted_with_their_sizes(starter: Starter) -> None:
    server = starter.stdio()
    server.hello()
    server.told("save_checkpoint", task="t", goal="g", state={"text": "x" * 5000})
    server.told("mark_step_done", task="t", step="s", result="y" * 700)

    assert 5000 <= server.event("save_checkpoint")["bytes"] < 6000
    assert 700 <= server.event("mark_step_done")["bytes"] < 1000


def test_what_others_log_comes_without_what_they_quote(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from holdfast_server.observe import log_to_stderr

    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    try:
        log_to_stderr()
        try:
            raise ValueError(CANARY)
        except ValueError:
            logging.getLogger("mcp.server").exception("handler for %r raised", CANARY)
        logging.getLogger("asyncio").error("Task exception\nfuture: %s" % CANARY)  # noqa: UP031
        logging.getLogger("holdfast").warning(
            "view not rendered task=%s: %s", "t", ValueError(CANARY)
        )
    finally:
        root.handlers[:], root.level = before
        logging.getLogger("holdfast").setLevel(logging.NOTSET)

    said = capfd.readouterr().err
    assert CANARY not in said
    first, second, third = [json.loads(each) for each in said.splitlines()]
    assert (first["event"], first["from"], first["error"]) == (
        "handler for",
        "mcp.server",
        "ValueError",
    )
    assert "test_log.py" in first["traceback"][0]
    assert second["event"] == "Task exception"
    assert (third["event"], third["task"], third["error"]) == (
        "view not rendered",
        "t",
        "ValueError",
    )


async def test_spans_carry_the_task_and_the_revision() -> None:
    try:
        tracing: Any = importlib.import_module("opentelemetry.sdk.trace")
        export: Any = importlib.import_module("opentelemetry.sdk.trace.export")
        memory = "opentelemetry.sdk.trace.export.in_memory_span_exporter"
        exporter: Any = importlib.import_module(memory).InMemorySpanExporter()
    except ModuleNotFoundError:
        pytest.skip("opentelemetry-sdk is not installed; serving needs only its API")
    provider = tracing.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    async with Workspace.open("memory:") as workspace:
        server, _ = build(workspace)
        async with Client(server) as client:
            await client.call_tool("mark_step_done", {"task": "t", "step": "s", "result": CANARY})

    spans = exporter.get_finished_spans()
    [attributes] = [each.attributes for each in spans if "holdfast.task" in each.attributes]
    assert attributes["gen_ai.tool.name"] == "mark_step_done"
    assert attributes["holdfast.task"] == "t"
    assert attributes["holdfast.revision"] == 1
    assert CANARY not in str(attributes)


def test_an_event_marks_the_span_it_happens_in(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: dict[str, Any] = {}

    class Recording:
        def is_recording(self) -> bool:
            return True

        def set_attributes(self, attributes: dict[str, Any]) -> None:
            marked.update(attributes)

    monkeypatch.setattr("holdfast_server.observe.get_current_span", Recording)

    event("save_checkpoint", task="t", revision=3, ms=0.5, nothing=None)

    assert marked == {"holdfast.task": "t", "holdfast.revision": 3, "holdfast.ms": 0.5}
