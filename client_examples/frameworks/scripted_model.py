"""What a model would decide, written down: so the examples run without one.

Each example lets its framework ask this instead of a model. It sees what a model would see, the
calls so far and their answers, and chooses the next one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TASK = "invoices-november"
CUSTOMERS = [f"customer-{number}" for number in range(1, 7)]
GOAL = "Send every customer one invoice; finished when all six are sent."
FINISHED = "All invoices are sent."

# What a real model would be told. The scripted one knows it already.
INSTRUCTIONS = (
    f"You send invoices. Your task in Holdfast is {TASK}: load it first. Begin each step before you "
    "send its invoice and mark it done afterwards. If a step is in doubt, look into the outbox "
    "before you decide whether it happened."
)


@dataclass(frozen=True)
class Call:
    """A call of a tool, and the answer once there is one."""

    tool: str
    arguments: dict[str, Any]
    answer: Any = None


def next_call(calls: Sequence[Call]) -> Call | None:
    """Choose the next call; None when the work is finished."""
    if not calls:
        return Call("load_checkpoint", {"task": TASK})
    last, told = calls[-1], read(calls[-1].answer)
    if last.tool == "load_checkpoint":
        if not told["found"]:
            return Call("save_checkpoint", {"task": TASK, "goal": GOAL, "plan": CUSTOMERS})
        in_doubt = told.get("in_doubt") or [""]
        return _begin(in_doubt[0])
    if last.tool == "save_checkpoint":
        return _begin("")
    if last.tool == "begin_step":
        tool = "send_invoice" if told["go"] else "look_into_outbox"
        return Call(tool, {"customer": told["step"]})
    if last.tool in ("send_invoice", "look_into_outbox"):
        return _after_the_effect(calls, happened=told["sent"])
    if last.tool == "mark_step_done" and told.get("next_step"):
        return _begin(told["next_step"])
    if last.tool == "mark_step_done":
        return Call("finish_task", {"task": TASK, "summary": FINISHED})
    return None


def _begin(step: str) -> Call:
    return Call("begin_step", {"task": TASK, **({"step": step} if step else {})})


def _after_the_effect(calls: Sequence[Call], *, happened: bool) -> Call:
    begun = read(next(call for call in reversed(calls) if call.tool == "begin_step").answer)
    step = {"task": TASK, "step": begun["step"], "claim": begun["claim"]}
    if happened:
        return Call("mark_step_done", {**step, "result": {"sent": True}})
    return Call("begin_step", {**step, "retry": True})


def read(answer: Any) -> dict[str, Any]:
    """Read an answer, which frameworks hand to the model as an object, as text, or as text in parts."""
    if isinstance(answer, list):
        return read(answer[0]["text"])
    if isinstance(answer, str):
        told = json.loads(answer)
        # Some wrap the text of an MCP answer once more.
        return (
            read(told["text"]) if "text" in told else read(told) if isinstance(told, str) else told
        )
    found: dict[str, Any] = answer
    return found
