"""Decide on what a graph puts: one record for a checkpoint, one for what a node wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from holdfast_storage.core import delta, strict_json
from holdfast_storage.core.brief import is_person
from holdfast_storage.core.decide.context import (
    Belief,
    Context,
    Decision,
    draft,
    opening_fields,
    opens_run,
)
from holdfast_storage.core.decide.save import written
from holdfast_storage.core.delta import MISSING
from holdfast_storage.core.errors import TooLarge
from holdfast_storage.core.fold import Changed, Fold
from holdfast_storage.core.snapshot import Snapshot
from holdfast_storage.core.strict_json import JsonObject, is_object

SUBGRAPHS = "$subgraphs"
_QUESTION_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class PutRequest:
    """A checkpoint: the values people see, and what only the graph needs."""

    ns: str
    values: JsonObject
    graph: JsonObject
    label: str = ""
    # What must not be pruned by age, because later checkpoints are made from it.
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """An interrupt, as a question to a person."""

    interrupt: str
    question: str
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What one node wrote, what it asks, and the answer it went on with."""

    graph: JsonObject
    asks: Sequence[Ask] = ()
    answer: Any = None


def decide_put(fold: Fold, request: PutRequest, seen: int, context: Context) -> Decision:
    """Number the checkpoint and write the state with the new values in it; nothing is merged."""
    opens = opens_run(fold, Belief(told=seen))
    state = with_values({} if opens else fold.state, request.ns, request.values)
    number = fold.checkpoint + 1
    saved, encoded = written(fold, Snapshot(state), opens=opens)
    body: JsonObject = {
        "run": fold.run + 1 if opens else fold.run,
        **(opening_fields(fold) if opens else {}),
        "checkpoint": number,
        **({"label": request.label} if request.label else {}),
        **({"pinned": True} if request.pinned else {}),
        "graph": request.graph,
        **saved,
    }
    if "changes" not in encoded:
        encoded = {"state": strict_json.encode(state)}
    _check_size(fold, state, encoded, context, opens=opens)
    if not opens and (lost := list(_lost_edits(fold, state, seen, context))):
        body["conflicts"] = lost
    record = draft(context, "save", body, opens=opens, encoded=encoded)
    return Decision(record, {"checkpoint": number})


def decide_write(
    fold: Fold,
    request: WriteRequest,
    stopped_by: AbstractSet[str],
    seen: int,
    context: Context,
) -> Decision:
    """Write down what a node wrote; an interrupt becomes a question, once.

    A node that went on with an answer has had its question answered, whoever did it and how.
    """
    opens = opens_run(fold, Belief(told=seen))
    limit = context.settings.limits.state_bytes
    if (size := len(strict_json.encode(request.graph))) > limit:
        raise TooLarge("the writes", size, limit)
    questions = {} if opens else fold.questions
    asked = {question.step for question in questions.values()}
    fresh = [ask for ask in request.asks if ask.interrupt not in asked]
    asks = [
        {
            "question_id": f"q{len(questions) + number}",
            "question": ask.question[:_QUESTION_LENGTH],
            **({"options": list(ask.options)} if ask.options else {}),
            "step": ask.interrupt,
        }
        for number, ask in enumerate(fresh, 1)
    ]
    settled = stopped_by - {ask.interrupt for ask in request.asks}
    answers = {
        question.id: request.answer
        for question in questions.values()
        if question.answer is None and question.step in settled
    }
    body: JsonObject = {
        "run": fold.run + 1 if opens else fold.run,
        **(opening_fields(fold) if opens else {}),
        "graph": request.graph,
        **({"asks": asks} if asks else {}),
        **({"answers": answers} if answers and request.answer is not None else {}),
    }
    return Decision(draft(context, "write", body, opens=opens))


def with_values(state: JsonObject, ns: str, values: JsonObject) -> JsonObject:
    """Give the state with a graph's values in it; those of a subgraph lie under its namespace."""
    subgraphs = state.get(SUBGRAPHS, {})
    if ns:
        return {**state, SUBGRAPHS: {**subgraphs, ns: values}}
    # A namespace with a ":" belongs to one call of a subgraph, which is over when its parent goes on.
    lasting = {name: kept for name, kept in subgraphs.items() if ":" not in name}
    return {**values, **({SUBGRAPHS: lasting} if lasting else {})}


def values_in(state: JsonObject, ns: str) -> JsonObject | None:
    """Give a graph's values; None if the state has none of it, or a person made it something else."""
    if not ns:
        return {name: value for name, value in state.items() if name != SUBGRAPHS}
    subgraphs = state.get(SUBGRAPHS)
    found = subgraphs.get(ns) if is_object(subgraphs) else None
    return found if is_object(found) else None


def _check_size(
    fold: Fold,
    state: JsonObject,
    encoded: Mapping[str, bytes],
    context: Context,
    *,
    opens: bool,
) -> None:
    limit = context.settings.limits.state_bytes
    before = fold.state_bytes if "changes" in encoded and not opens else 0
    if before + sum(map(len, encoded.values())) <= limit:
        return
    size = len(strict_json.encode(state))
    if size > limit:
        raise TooLarge("the graph's state", size, limit)


def _lost_edits(
    fold: Fold, state: JsonObject, seen: int, context: Context
) -> Iterator[Mapping[str, Any]]:
    """Describe what people changed while the graph was running and now replaces unseen."""
    if fold.snapshot is fold.checkpoint_snapshot:
        return
    for number, changed in enumerate(fold.changes):
        if changed.seq > seen and is_person(changed.by) and _is_replaced(changed, state):
            name = f"{context.id[:8]}-{number}"
            yield {
                "id": name,
                "path": changed.path,
                "kept_by": context.by,
                "lost_by": changed.by,
                "file": f"conflicts/{name}.json",
                **({} if changed.new is MISSING else {"lost": changed.new}),
            }


def _is_replaced(changed: Changed, state: JsonObject) -> bool:
    where, _, path = changed.path.partition("/state/")
    if where or not path:
        return False
    now = delta.at(state, delta.path_of("/" + path))
    return not strict_json.same(now, changed.new)
