"""Decide on a save: a numbered checkpoint, in full or as changes, or the one that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast_storage.core import delta, ids, ordering, strict_json
from holdfast_storage.core.decide.context import (
    Belief,
    Context,
    Decision,
    check_text,
    draft,
    opening_fields,
    opens_run,
)
from holdfast_storage.core.decide.state import (
    StateChange,
    StateRequest,
    change_state,
    lost_values,
)
from holdfast_storage.core.errors import InvalidValue, TooLarge
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.snapshot import Snapshot, have_nothing_in_common
from holdfast_storage.core.strict_json import JsonObject

# A full save is due when the changes since the last one exceed this many times its size: so storage
# grows with what changed, and no checkpoint is rebuilt from more than a few times its own size.
_CHANGES_PER_FULL = 4
# A save with more changes than one for so many bytes of the last full one is full as well: to find
# one, write it and take it in takes about as long as that many bytes in full.
_FEW_CHANGES, _BYTES_PER_CHANGE = 50, 1024
# So is one whose changes take more than this part of the last full one.
_CHANGED_PART = 0.5
# Of a state above this size it is asked first whether there is anything old in it to be found.
_LARGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """A save as it was asked for; empty means unchanged, a single space clears."""

    state: StateRequest = field(default_factory=StateRequest)
    goal: str = ""
    next: str = ""
    plan: Sequence[str] = ()
    total: int = 0
    label: str = ""
    milestone: bool = False
    refs: Sequence[JsonObject] = ()
    restored_from: int = 0


def decide_save(fold: Fold, request: SaveRequest, belief: Belief, context: Context) -> Decision:
    """Number the checkpoint and choose how to write it."""
    opens = opens_run(fold, belief)
    change = change_state(fold, request.state, belief, context, opens=opens)
    body = _where_it_stands(fold, request, context, opens=opens)
    found = {"change": change, "opens": opens}
    if not opens and _is_the_newest(fold, request, change, body):
        return Decision(None, found | {"checkpoint": fold.checkpoint})
    number = fold.checkpoint + 1
    state, encoded = written(fold, change.state, opens=opens, touched=change.touched)
    saved: JsonObject = {
        "run": fold.run + 1 if opens else fold.run,
        **(opening_fields(fold) if opens else {}),
        "checkpoint": number,
        **_named(request),
        **body,
        **state,
    }
    if change.clashes:
        saved["conflicts"] = lost_values(change.clashes, fold, context)
    record = draft(context, "save", saved, opens=opens, encoded=encoded)
    return Decision(record, found | {"checkpoint": number})


def _where_it_stands(
    fold: Fold, request: SaveRequest, context: Context, *, opens: bool
) -> JsonObject:
    """Give the fields beside the state that this save changes."""
    limits = context.settings.limits
    body = changed_texts(fold, {"goal": request.goal, "next": request.next}, context, opens=opens)
    if request.plan:
        plan = check_plan(fold, request.plan, context, opens=opens)
        if opens or ordering.reorder(fold.order, plan) != fold.order:
            body["plan"] = plan
    if request.total:
        if type(request.total) is not int or not 0 < request.total <= limits.steps:
            raise InvalidValue("total", f"it must be a whole number from 1 to {limits.steps:,}")
        if opens or request.total != fold.total:
            body["total"] = request.total
    if refs := [ref for ref in request.refs if opens or fold.refs.get(ref["ref"]) != ref]:
        body["refs"] = refs
    return body


def changed_texts(
    fold: Fold, texts: dict[str, str], context: Context, *, opens: bool
) -> JsonObject:
    """Give the texts that are new; empty means unchanged, a single space clears."""
    body: JsonObject = {}
    for name, text in texts.items():
        if text == "":
            continue
        new = "" if text == " " else check_text(text, name, context)
        if new != ("" if opens else getattr(fold, name)):
            body[name] = new
    return body


def check_plan(fold: Fold, plan: Sequence[str], context: Context, *, opens: bool) -> list[str]:
    """Refuse names that no step may have, and more of them than a run may have."""
    limits = context.settings.limits
    if isinstance(plan, str):
        raise InvalidValue("plan", "it must be a list of step names")
    if len(plan) > limits.plan_at_once:
        raise TooLarge("plan", len(plan), limits.plan_at_once, "names")
    for name in plan:
        ids.check_id("step", name)
    known = {} if opens else fold.steps
    if len(known) + len(plan) > limits.steps:
        count = len(known.keys() | set(plan))
        if count > limits.steps:
            raise TooLarge("the run", count, limits.steps, "steps")
    return list(plan)


def _named(request: SaveRequest) -> JsonObject:
    named: JsonObject = {}
    if request.label:
        named["label"] = ids.check_id("label", request.label)
    if request.milestone:
        named["milestone"] = True
    if request.restored_from:
        named["restored_from"] = request.restored_from
    return named


def _is_the_newest(fold: Fold, request: SaveRequest, change: StateChange, body: JsonObject) -> bool:
    """Say whether the newest checkpoint is this very save: nothing lies between and nothing differs."""
    newest = fold.checkpoints.get(fold.checkpoint)
    if newest is None or newest.seq != fold.seq or not newest.readable or request.restored_from:
        return False
    if change.clashes or body:
        return False
    same_name = request.label in ("", newest.label) and request.milestone in (
        False,
        newest.milestone,
    )
    if not same_name:
        return False
    if _differ_in_length(fold.checkpoint_snapshot, change.state):
        return False
    before, now = _to_compare(fold, change.state, change.touched)
    # What is not equal, which C can tell, is not the same.
    return now == before and strict_json.same(now, before)


def _differ_in_length(one: Snapshot, other: Snapshot) -> bool:
    """Say whether that can be told from their bytes: the same values, in any order, take as many."""
    return bool(one.raw and other.raw) and len(one.raw) != len(other.raw)


def written(
    fold: Fold, state: Snapshot, *, opens: bool, touched: Sequence[str] | None = None
) -> tuple[JsonObject, dict[str, bytes]]:
    """Write the state in full, or as changes from the checkpoint before; and what of it was encoded.

    `touched` are the keys that can have another value than in the fold's state, if that is known.
    """
    if opens or fold.needs_full or fold.checkpoint not in fold.checkpoints:
        return _in_full(state)
    if _is_all_new(fold.checkpoint_snapshot, state):
        return _in_full(state)
    # Many small changes are not worth finding: each takes a path and the time to compare.
    most = _FEW_CHANGES + fold.full_bytes // _BYTES_PER_CHANGE
    changes = delta.diff_unless_more(*_to_compare(fold, state, touched), most)
    if changes is None:
        return _in_full(state)
    raw_changes = strict_json.encode(changes)
    size = len(raw_changes)
    if size > _CHANGED_PART * fold.full_bytes:
        return _in_full(state)
    if fold.changes_bytes + size > _CHANGES_PER_FULL * fold.full_bytes:
        return _in_full(state)
    return {"from": fold.checkpoint, "changes": changes}, {"changes": raw_changes}


def _in_full(state: Snapshot) -> tuple[JsonObject, dict[str, bytes]]:
    if not state.raw:
        return {"state": state.value}, {}
    # Objects that nobody has asked for yet are not made for this either.
    return {"state": state}, {"state": state.raw}


def _is_all_new(before: Snapshot, now: Snapshot) -> bool:
    """Guess, at little cost, whether a large state has so little of the one before that nobody need look."""
    if len(now.raw) <= _LARGE_BYTES:
        return False
    if before.raw:
        return have_nothing_in_common(before.raw, now.raw)
    return delta.is_all_new(before.value, now.value)


def _to_compare(
    fold: Fold, state: Snapshot, touched: Sequence[str] | None
) -> tuple[JsonObject, JsonObject]:
    """Give what of the newest checkpoint and of the state can differ."""
    before = fold.checkpoint_snapshot
    if touched is None or before is not fold.snapshot:
        return before.value, state.value
    # A little merged into a lot costs what was merged.
    return _only(before.value, touched), _only(state.value, touched)


def _only(state: JsonObject, keys: Sequence[str]) -> JsonObject:
    return {key: state[key] for key in keys if key in state}
