"""`state.json`: the journal folded into one readable file that people may change by hand."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import islice
from typing import Any

from holdfast_storage.core.decide.steps import progress_of
from holdfast_storage.core.fold import Fold, Question
from holdfast_storage.core.seal import seal
from holdfast_storage.core.strict_json import JsonObject

FORMAT = 1
SCHEMA = "../../schema/state.schema.json"
HELP = "Change anything above this; agents see it at once. Holdfast writes everything in here."
OWN_KEYS = ("$schema", "task", "read_only")
EDITABLE_KEYS = ("status", "goal", "next", "state", "plan", "reopen", "questions")

_PLAN_SHOWN = 50
_ANSWERED_SHOWN = 5


def editable(fold: Fold, now: datetime, gone: AbstractSet[str]) -> JsonObject:
    """Give the part of the view that belongs to people."""
    return {
        "status": fold.status_at(now),
        "goal": fold.goal,
        "next": fold.next,
        "state": fold.state,
        "plan": {
            name: fold.status_of(name, now, gone) for name in islice(fold.unfinished, _PLAN_SHOWN)
        },
        "reopen": [],
        "questions": [_question(question) for question in _questions_shown(fold)],
        **fold.extra,
    }


def _questions_shown(fold: Fold) -> list[Question]:
    answered = [question for question in fold.questions.values() if question.answer is not None]
    too_old = {question.id for question in answered[:-_ANSWERED_SHOWN]}
    return [question for question in fold.questions.values() if question.id not in too_old]


def _question(question: Question) -> JsonObject:
    shown: JsonObject = {"id": question.id, "question": question.question}
    if question.options:
        shown["options"] = list(question.options)
    if question.step:
        shown["step"] = question.step
    if question.expires_at:
        shown["expires_at"] = question.expires_at
    return {**shown, "answer": question.answer}


def render(fold: Fold, now: datetime, gone: AbstractSet[str], resumes: int) -> bytes:
    """Write the whole view, certified by its digest."""
    return seal(
        {
            "$schema": SCHEMA,
            "task": fold.task,
            **editable(fold, now, gone),
            "read_only": _read_only(fold, now, gone, resumes),
        }
    )


def _read_only(fold: Fold, now: datetime, gone: AbstractSet[str], resumes: int) -> JsonObject:
    doubtful = (
        [name for name in fold.unfinished if fold.status_of(name, now, gone) == "in_doubt"]
        if fold.claims or fold.count("in_doubt") or fold.doubts_all
        else []
    )
    read_only: JsonObject = {
        "help": HELP,
        "progress": {**progress_of(fold), "resumes": resumes},
        "running": [
            {"step": name, "by": claim.by, "since": claim.at}
            for name, claim in fold.claims.items()
            if fold.status_of(name, now, gone) == "running"
        ][:_PLAN_SHOWN],
        "in_doubt": doubtful[:_PLAN_SHOWN],
        "recent_steps": [
            {"step": step, "at": at, "by": by} for step, at, by in reversed(fold.recent_steps)
        ],
    }
    if fold.conflicts:
        read_only["conflicts"] = [
            {"id": lost.id, "path": lost.path, "file": lost.file}
            for lost in islice(fold.conflicts.values(), _PLAN_SHOWN)
        ]
    if fold.edit_warnings:
        read_only["warnings"] = list(fold.edit_warnings)
    if fold.is_damaged:
        read_only["damaged"] = list(fold.problems)
    if fold.summary:
        read_only["summary"] = fold.summary
    return read_only | {
        "run": fold.run,
        "checkpoint": fold.checkpoint,
        "saved_by": fold.updated_by,
        "saved_at": fold.updated_at,
        "revision": fold.seq,
        "format": FORMAT,
    }


def summary(fold: Fold, now: datetime) -> JsonObject:
    """Give one task's line in a listing."""
    return {
        "task": fold.task,
        "status": fold.status_at(now),
        "goal": fold.goal[:200],
        "progress": dict(progress_of(fold)),
        "next": fold.next[:200],
        "by": fold.updated_by,
        "updated_at": fold.updated_at,
        "run": fold.run,
        "checkpoint": fold.checkpoint,
        "revision": fold.seq,
        "questions": len(fold.open_questions(now)),
        "begun": len(fold.claims),
        "in_doubt": fold.count("in_doubt"),
        "conflicts": len(fold.conflicts),
        "damaged": fold.is_damaged,
    }


def schema() -> JsonObject:
    """Give the JSON Schema that every view names, so that editors complete and check it."""
    text: JsonObject = {"type": "string"}
    question: JsonObject = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": text,
            "question": text,
            "options": {"type": "array", "items": text},
            "answer": {"description": "Write the answer here, in place of null."},
        },
    }
    described: dict[str, Any] = {
        "status": {
            "description": "Set paused to stop agents, active to let them go on, done or abandoned.",
            "enum": ["active", "waiting", "paused", "failed", "done", "abandoned"],
        },
        "goal": text | {"description": "What the task is for and when it is finished."},
        "next": text | {"description": "What the agent should do next."},
        "state": {"type": "object", "description": "The agent's own notes. Correct anything."},
        "plan": {
            "type": "object",
            "description": "Unfinished steps in order. A new line adds a step; a deleted one means "
            "nothing.",
            "additionalProperties": {
                "enum": ["pending", "running", "in_doubt", "done", "failed", "skipped"]
            },
        },
        "reopen": {
            "type": "array",
            "items": text,
            "description": "Names of finished steps that are to be done again.",
        },
        "questions": {"type": "array", "items": question},
        "read_only": {
            "type": "object",
            "description": "Written by Holdfast; changes are put back.",
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Holdfast task, as people see and change it",
        "type": "object",
        "required": ["task"],
        "properties": {"$schema": text, "task": text, **described},
    }
