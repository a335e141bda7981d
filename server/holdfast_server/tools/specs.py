"""The eight tools as agents see them. Every word in here is paid for in every conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast_storage.results import (
    Answer,
    Asked,
    Begun,
    Brief,
    Finished,
    Listing,
    Marked,
    Pruned,
    Saved,
)

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Spec:
    """One tool: what it is called, what it takes and what it may do."""

    name: str
    title: str
    description: str
    properties: dict[str, Schema]
    answer: type[Answer]
    required: tuple[str, ...] = ()
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = True

    @property
    def input_schema(self) -> Schema:
        """The JSON Schema of the arguments, in the words that every model provider accepts.

        It does not forbid further arguments: a client that checked that itself would keep a model
        from reading our refusal, which names the right one.
        """
        schema: Schema = {"type": "object", "properties": self.properties}
        return schema | ({"required": list(self.required)} if self.required else {})


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _count(default: int, description: str, most: int, least: int = 0) -> Schema:
    bounds: Schema = {"minimum": least, "maximum": most}
    return {"type": "integer", "description": description, "default": default, **bounds}


def _hours(default: int, description: str) -> Schema:
    bounds: Schema = {"minimum": 0, "maximum": 8784}
    return {"type": "number", "description": description, "default": default, **bounds}


def _names(description: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _one_of(description: str, *words: str) -> Schema:
    return _text(description, enum=list(words), default=words[0])


_TASK = _text("Id, stable across restarts", minLength=1)
_STEP = _text("Step name, the same every time", minLength=1)
_STATE: Schema = {"type": "object", "description": "Merged into saved state; null removes a key"}
_APPEND: Schema = {"type": "object", "description": "List key -> items to add"}
_REFS = _names("Files or URLs it rests on")
_NEXT = _text("What to do next")
_MOST = 1_000_000

SAVE = Spec(
    name="save_checkpoint",
    title="Save a checkpoint",
    description=(
        "Save where you are, durably: after each natural unit of work, after success, before asking "
        "a person, whenever losing the work since would cost over 5 minutes or $2. "
        "What you leave out stays as it was. Load first if the task may exist."
    ),
    properties={
        "task": _TASK,
        "state": _STATE,
        "replace": _flag("state replaces all of it"),
        "append": _APPEND,
        "goal": _text("Goal and when it is reached"),
        "next": _NEXT,
        "plan": _names("Step names in order; adds, never removes"),
        "total": _count(0, "Steps expected", _MOST),
        "label": _text("Name of this checkpoint"),
        "milestone": _flag("Never pruned"),
        "refs": _REFS,
        "revision": _count(0, "Revision you build on", 10**9),
    },
    required=("task",),
    answer=Saved,
)

LOAD = Spec(
    name="load_checkpoint",
    title="Load where a task stands",
    description=(
        "Call this first, before any work, and after a restart or context compaction: it says what is "
        "done, what is next, what people changed. Never redo a done step. "
        "A value too large comes as $cut: fetch it by its path."
    ),
    properties={
        "task": _text("Empty: your last or only one"),
        "checkpoint": _count(0, "0: newest; others to look at", _MOST),
        "path": _text("JSON pointer into state"),
        "max_tokens": _count(3000, "Answer's size", 100_000),
    },
    read_only=True,
    answer=Brief,
)

LIST = Spec(
    name="list_checkpoints",
    title="List tasks, checkpoints, steps or events",
    description="Without task: all tasks. With task: its checkpoints, steps (with results) or events.",
    properties={
        "task": _text("Task id"),
        "show": _one_of("With task", "checkpoints", "steps", "events"),
        "status": _text("Only those of this status"),
        "limit": _count(20, "Page size", 200, 1),
        "cursor": _text("From the page before"),
    },
    read_only=True,
    answer=Listing,
)

MARK = Spec(
    name="mark_step_done",
    title="Mark a step done, failed or skipped",
    description=(
        "Record that a step ended, right after it did. Marking it again changes nothing and returns "
        "the first result. The answer names the next step."
    ),
    properties={
        "task": _TASK,
        "step": _STEP,
        "result": {"description": "Any JSON, kept exactly"},
        "outcome": _one_of("How it ended", "done", "failed", "skipped"),
        "state": _STATE,
        "append": _APPEND,
        "next": _NEXT,
        "refs": _REFS,
        "claim": _text("Claim you hold on it"),
    },
    required=("task", "step"),
    answer=Marked,
)

PRUNE = Spec(
    name="prune",
    title="Remove old checkpoints",
    description=(
        "Remove old checkpoints, never the newest, milestones, pinned ones or steps. "
        "Restorable for 24 h."
    ),
    properties={
        "task": _text("Task id, * for all", minLength=1),
        "keep_last": _count(20, "Newest that stay", _MOST),
        "older_than_hours": _hours(24, "Younger stay"),
        "dry_run": _flag("Only tell"),
    },
    required=("task",),
    destructive=True,
    answer=Pruned,
)

FINISH = Spec(
    name="finish_task",
    title="Finish or pause a task",
    description="End this run. done/abandoned start fresh next time; paused/failed resume here.",
    properties={
        "task": _TASK,
        "outcome": _one_of("How it ended", "done", "paused", "failed", "abandoned"),
        "summary": _text("What came of it"),
    },
    required=("task",),
    answer=Finished,
)

BEGIN = Spec(
    name="begin_step",
    title="Claim a step before its effect",
    description=(
        "Call before a step with an effect outside (mail, payment, deploy). Act only if go is true, and "
        "give idempotency_key to what you call; then mark_step_done with the claim. in_doubt: begun "
        "once and never confirmed. Look whether it happened; if it did, mark_step_done with the new "
        "claim; if not, begin_step with claim and retry."
    ),
    properties={
        "task": _TASK,
        "step": _text("Empty: the next free planned one"),
        "claim": _text("A claim you hold on it"),
        "retry": _flag("It did not happen: begin again"),
    },
    required=("task",),
    idempotent=False,
    answer=Begun,
)

ASK = Spec(
    name="ask_human",
    title="Ask a person",
    description=(
        "Ask a person and go on elsewhere; the same question again returns its answer once there is "
        "one. Save before asking."
    ),
    properties={
        "task": _TASK,
        "question": _text("With all they need to answer", minLength=1),
        "options": _names("Answers to choose from"),
        "step": _text("Step it is about"),
        "expires_in_hours": _hours(0, "0: never"),
    },
    required=("task", "question"),
    answer=Asked,
)

CORE = (LOAD, SAVE, MARK, LIST, PRUNE, FINISH)
ALL = (*CORE, BEGIN, ASK)
