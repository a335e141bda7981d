"""What an answer says to an agent: the fields of the contract always, others only if they say something.

Programs that use the workspace directly get every field; a model pays for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from holdfast_storage.core.strict_json import encode, is_array, is_object
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

Told = dict[str, Any]

_PLAIN = frozenset({str, int, bool})
# A result the agent sent a moment ago need not come back whole.
_ECHOED_BYTES = 1000
# All results of one page together; a page of one step has it whole.
_PAGE_BYTES = 40_000


@dataclass(frozen=True, slots=True)
class Telling:
    """Which fields of an answer are told."""

    always: tuple[str, ...]
    # With the value that says nothing.
    sometimes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inside: Mapping[str, Telling] = field(default_factory=dict[str, "Telling"])

    def of(self, answer: Answer) -> Told:
        """Choose from an answer's fields."""
        told = {
            name: value
            if type(value := getattr(answer, name)) in _PLAIN
            else self._said(name, value)
            for name in self.always
        }
        for name, nothing in self.sometimes.items():
            if (value := getattr(answer, name)) != nothing:
                told[name] = self._said(name, value)
        return told

    def _said(self, name: str, value: Any) -> Any:
        """Give a field as JSON; what agents saved is that already."""
        if isinstance(value, Answer):
            return self.inside[name].of(value) if name in self.inside else _dumped(value)
        if is_array(value) and value and isinstance(value[0], Answer):
            return [self._said(name, item) for item in value]
        return value


def _dumped(answer: Answer) -> Told:
    return answer.model_dump(mode="json", by_alias=True)


_PROGRESS = Telling(("done", "failed", "total", "last_done"), {"resumes": 0})
_TASK = Telling(
    ("task", "status", "goal", "progress", "next", "by", "updated_at"),
    {"questions": 0, "damaged": False, "problem": ""},
    {"progress": _PROGRESS},
)
_CHECKPOINT = Telling(
    ("checkpoint", "label", "milestone", "at", "by", "bytes", "pinned"),
    {"restored_from": 0, "available": True},
)
_LINES: dict[str, Telling] = {"tasks": _TASK, "checkpoints": _CHECKPOINT}

TELLINGS: dict[type[Answer], Telling] = {
    Saved: Telling(
        ("task", "run", "checkpoint", "revision", "changes", "conflicts", "warnings", "hint")
    ),
    Brief: Telling(
        (
            *("found", "task", "goal", "status", "run", "revision", "checkpoint", "label"),
            *("saved_at", "saved_by", "next", "progress", "remaining", "running", "in_doubt"),
            *("questions", "changes", "conflicts", "refs", "warnings", "state", "hint"),
        ),
        {"current": True, "chosen_because": "", "similar": [], "tasks": []},
        {"progress": _PROGRESS, "tasks": _TASK},
    ),
    Listing: Telling(
        ("cursor",), {"tasks": [], "checkpoints": [], "steps": [], "events": []}, _LINES
    ),
    Marked: Telling(
        (
            *("task", "step", "outcome", "already_done", "differs", "result", "progress"),
            *("next_step", "revision", "changes", "warnings", "hint"),
        ),
        {"conflicts": []},
        {"progress": _PROGRESS},
    ),
    Pruned: Telling(
        ("removed", "kept", "freed_bytes", "restorable_until"), {"dry_run": False, "trash": []}
    ),
    Finished: Telling(("task", "run", "status", "unfinished", "hint")),
    Begun: Telling(
        (
            *("go", "status", "step", "claim", "idempotency_key", "attempts", "held_by"),
            *("until", "result", "changes", "hint"),
        ),
        {"warnings": []},
    ),
    Asked: Telling(("status", "question_id", "answer", "hint")),
}


def told(answer: Answer, arguments: Mapping[str, Any]) -> Told:
    """Give an answer as an agent gets it."""
    chosen = TELLINGS[type(answer)].of(answer)
    if "hint" in chosen:
        chosen["hint"] = chosen["hint"].rstrip()
    if isinstance(answer, Listing):
        asked_for = arguments.get("show", "checkpoints") if arguments.get("task") else "tasks"
        chosen.setdefault(asked_for, [])
        _fit_results(chosen.get("steps", ()))
    if isinstance(answer, Marked) and not answer.already_done:
        chosen["result"] = _cut(chosen["result"], _ECHOED_BYTES)
    return chosen


def _fit_results(steps: Any) -> None:
    """Cut the largest results of a page until the rest fits."""
    sizes = {number: len(encode(line["result"])) for number, line in enumerate(steps)}
    total = sum(sizes.values())
    for number in sorted(sizes, key=lambda number: -sizes[number]):
        if total <= _PAGE_BYTES or len(steps) == 1:
            return
        steps[number]["result"] = _cut(steps[number]["result"], 0)
        total -= sizes[number]


def _cut(value: Any, limit: int) -> Any:
    size = len(encode(value))
    return value if size <= limit else {"$cut": size}


# --- the schema of that -----------------------------------------------------------------------


@cache
def schema_of(answer: type[Answer]) -> dict[str, Any]:
    """Give an answer's JSON Schema, without what only repeats the names."""
    schema = _plain(answer.model_json_schema(by_alias=True))
    chosen = _chosen(schema, TELLINGS[answer])
    kinds = chosen.pop("$defs", {})
    for name, kind in kinds.items():
        if telling := _BY_NAME.get(name):
            kinds[name] = _chosen(kind, telling)
    whole: dict[str, Any] = _in_place(chosen, kinds)
    if answer is Marked:
        # Clients hold each answer against this, step for step: what load_checkpoint spells out is
        # only named here.
        whole["properties"]["progress"] = {"type": "object"}
    return whole


def _in_place(schema: Any, kinds: Mapping[str, Any]) -> Any:
    """Put each kind where it is named: clients that check answers look references up every time."""
    if is_object(schema):
        if "$ref" in schema:
            return _in_place(kinds[schema["$ref"].removeprefix("#/$defs/")], kinds)
        return {key: _in_place(value, kinds) for key, value in schema.items()}
    return [_in_place(item, kinds) for item in schema] if is_array(schema) else schema


_BY_NAME = {"Progress": _PROGRESS, "TaskLine": _TASK, "CheckpointLine": _CHECKPOINT}


def _chosen(schema: dict[str, Any], telling: Telling) -> dict[str, Any]:
    names = (*telling.always, *telling.sometimes)
    properties = {name: schema["properties"][name] for name in names}
    return schema | {"properties": properties, "required": list(telling.always)}


def _plain(schema: Any) -> Any:
    if is_object(schema):
        return {
            key: _plain(value)
            for key, value in schema.items()
            if key != "default" and not (key in ("title", "description") and isinstance(value, str))
        }
    return [_plain(item) for item in schema] if is_array(schema) else schema
