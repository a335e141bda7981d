"""Decide on a step: done once, begun by one, in doubt rather than done twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from holdfast_storage.core import delta, ids, strict_json
from holdfast_storage.core.decide.context import (
    Belief,
    Context,
    Decision,
    draft,
    idempotency_key,
    opening_fields,
    opens_run,
    require_open_run,
)
from holdfast_storage.core.decide.save import changed_texts
from holdfast_storage.core.decide.state import StateRequest, change_state, lost_values
from holdfast_storage.core.errors import (
    ClaimReplaced,
    InDoubt,
    InvalidValue,
    RunClosed,
    StepDone,
    TooLarge,
    Unknown,
)
from holdfast_storage.core.fold import FINISHED, Fold
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.core.times import stamp

OUTCOMES = ("done", "failed", "skipped")


@dataclass(slots=True)
class MarkRequest:
    """A step's end as it was reported."""

    step: str
    result: Any = None
    outcome: str = "done"
    state: StateRequest = field(default_factory=StateRequest)
    next: str = ""
    refs: Sequence[JsonObject] = ()
    claim: str = ""


def decide_mark(fold: Fold, request: MarkRequest, belief: Belief, context: Context) -> Decision:
    """Record a step's outcome once; the same again is the same."""
    ids.check_id("step", request.step)
    if request.outcome not in OUTCOMES:
        raise InvalidValue("outcome", f"it must be one of {', '.join(OUTCOMES)}")
    opens = _opens_unless_known(fold, request, belief)
    if not opens:
        known = _already(fold, request)
        if known is not None:
            return known
        _refuse_foreign_claim(fold, request, belief, context)
    _check_room(fold, request.step, context, opens=opens)
    body = opening_fields(fold) if opens else {}
    body["step"] = request.step
    if request.outcome != "done":
        body["outcome"] = request.outcome
    if request.result is not None:
        body["result"] = _checked(request.result, context)
    if request.next != "":
        body |= changed_texts(fold, {"next": request.next}, context, opens=opens)
    if request.refs:
        body["refs"] = list(request.refs)
    found: dict[str, Any] = {"opens": opens}
    if request.state.says_something:
        change = change_state(fold, request.state, belief, context, opens=opens)
        found["change"] = change
        body |= _state_fields(fold, change.value, opens=opens)
        if change.clashes:
            body["conflicts"] = lost_values(change.clashes, fold, context)
    return Decision(draft(context, "done", body, opens=opens), found)


def _opens_unless_known(fold: Fold, request: MarkRequest, belief: Belief) -> bool:
    """A late repetition of what a closed run did is answered; anything else comes too late."""
    try:
        return opens_run(fold, belief)
    except RunClosed:
        known = fold.steps.get(request.step)
        if known is not None and known.status in FINISHED & {"done", request.outcome}:
            return False
        raise


def _already(fold: Fold, request: MarkRequest) -> Decision | None:
    step = fold.steps.get(request.step)
    if step is None or step.status not in FINISHED:
        return None
    if step.status == request.outcome:
        return Decision(None, {"already": step.place})
    if step.status == "done":
        raise StepDone(fold.task, request.step, request.outcome)
    return None


def _refuse_foreign_claim(
    fold: Fold, request: MarkRequest, belief: Belief, context: Context
) -> None:
    """Time never decides a confirm, only the newest claim."""
    newest = fold.claims.get(request.step)
    given = request.claim or belief.claims.get(request.step, "")
    if newest is not None:
        if given != newest.id:
            raise ClaimReplaced(fold.task, request.step, newest.by)
        return
    step = fold.steps.get(request.step)
    # Where somebody made it pending again, an old claim is not one on what is to be done now.
    if step is None or (step.status == "pending" and not (request.claim and step.cleared)):
        return
    if request.claim and step.status != "failed":
        raise ClaimReplaced(fold.task, request.step, step.by)
    if step.status == "in_doubt":
        key = idempotency_key(context, fold, fold.run, request.step)
        raise InDoubt(fold.task, request.step, key)


def _check_room(fold: Fold, step: str, context: Context, *, opens: bool) -> None:
    limit = context.settings.limits.steps
    if not opens and step not in fold.steps and len(fold.steps) >= limit:
        raise TooLarge("the run", len(fold.steps) + 1, limit, "steps")


def _checked(result: Any, context: Context) -> Any:
    limits = context.settings.limits
    strict_json.check(result, "result", max_bytes=limits.result_bytes, max_depth=limits.depth)
    return result


def _state_fields(fold: Fold, value: JsonObject, *, opens: bool) -> JsonObject:
    changes = delta.diff({} if opens else fold.state, value)
    return {"changes": changes} if changes else {}


# --- claims -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """A wish to work on a step, or on the next free one."""

    step: str = ""
    claim: str = ""
    retry: bool = False


def decide_begin(fold: Fold, request: BeginRequest, belief: Belief, context: Context) -> Decision:
    """Hand out the claim on a step if nobody has it and nothing is in doubt."""
    opens = opens_run(fold, belief)
    name = ids.check_id("step", request.step) if request.step else _next_free(fold, context, opens)
    run = fold.run + 1 if opens else fold.run
    found: dict[str, Any] = {"opens": opens, "step": name, "run": run}
    if not name:
        return Decision(None, found | {"go": False, "status": "nothing_left"})
    found["key"] = idempotency_key(context, fold, run, name)
    if not opens and fold.paused_by_person:
        return Decision(None, found | {"go": False, "status": "paused"})
    _check_room(fold, name, context, opens=opens)
    status = "pending" if opens else fold.status_of(name, context.now, context.gone)
    return _BY_STATUS[status](fold, request, belief, context, found)


def _next_free(fold: Fold, context: Context, opens: bool) -> str:
    """Take the first pending one; failed ones only when nothing else is left."""
    if opens:
        return ""
    for name in fold.pending:
        if fold.status_of(name, context.now, context.gone) == "pending":
            return name
    return next((name for name in fold.unfinished if fold.steps[name].status == "failed"), "")


Found = dict[str, Any]


def _begin_free(
    fold: Fold, request: BeginRequest, belief: Belief, context: Context, found: Found
) -> Decision:
    return _claimed(fold, context, found, claim=context.id[:16], go=True)


def _begin_finished(
    fold: Fold, request: BeginRequest, belief: Belief, context: Context, found: Found
) -> Decision:
    step = fold.steps[found["step"]]
    return Decision(None, found | {"go": False, "status": step.status, "already": step.place})


def _begin_running(
    fold: Fold, request: BeginRequest, belief: Belief, context: Context, found: Found
) -> Decision:
    newest = fold.claims[found["step"]]
    if request.claim == newest.id:
        # Its holder asks again: the answer got lost, or the work takes longer than the lease.
        return _claimed(fold, context, found, claim=newest.id, go=True, renewed=True)
    return Decision(None, found | {"go": False, "status": "running", "held": newest})


def _begin_in_doubt(
    fold: Fold, request: BeginRequest, belief: Belief, context: Context, found: Found
) -> Decision:
    newest = fold.claims.get(found["step"])
    if request.retry:
        given = request.claim or belief.claims.get(found["step"], "")
        if newest is None or given != newest.id:
            held_by = newest.by if newest else "nobody; begin it without retry first"
            raise ClaimReplaced(fold.task, found["step"], held_by)
        return _claimed(fold, context, found, claim=newest.id, go=True)
    return _claimed(fold, context, found, claim=context.id[:16], go=False, looking=True)


_BY_STATUS = {
    "pending": _begin_free,
    "failed": _begin_free,
    "done": _begin_finished,
    "skipped": _begin_finished,
    "running": _begin_running,
    "in_doubt": _begin_in_doubt,
}


def _claimed(
    fold: Fold, context: Context, found: Found, *, claim: str, go: bool, **how: bool
) -> Decision:
    until = context.now + timedelta(seconds=context.settings.lease_seconds)
    body: JsonObject = {
        **(opening_fields(fold) if found["opens"] else {}),
        "step": found["step"],
        "claim": claim,
        "process": context.process,
        "until": stamp(until),
        **how,
    }
    status = "running" if go else "in_doubt"
    found = found | {"go": go, "status": status, "claim": claim, "until": stamp(until)}
    return Decision(draft(context, "begin", body, opens=found["opens"]), found)


# --- what people decide about steps -----------------------------------------------------------


def decide_release(fold: Fold, step: str, context: Context) -> Decision:
    """End a claim; whether the effect happened is then in doubt."""
    require_open_run(fold)
    if fold.claims.get(step) is None:
        raise Unknown("claim on step", step, ids.similar(step, fold.claims))
    return Decision(draft(context, "release", {"step": step}))


def decide_resolve(
    fold: Fold, step: str, happened: bool, result: Any, context: Context
) -> Decision:
    """Settle a doubt: it happened, or it did not."""
    require_open_run(fold)
    status = fold.status_of(step, context.now, context.gone)
    if status != "in_doubt":
        if status == ("done" if happened else "pending") and step in fold.steps:
            return Decision(None)
        doubtful = [
            name
            for name in fold.unfinished
            if fold.status_of(name, context.now, context.gone) == "in_doubt"
        ]
        raise Unknown("step in doubt", step, doubtful[:5])
    body: JsonObject = {"step": step, "happened": happened}
    if result is not None:
        body["result"] = _checked(result, context)
    return Decision(draft(context, "resolve", body))


def decide_reopen(fold: Fold, steps: Sequence[str], context: Context) -> Decision:
    """Make finished or failed steps pending again, with new idempotency keys."""
    require_open_run(fold)
    unknown = [name for name in steps if name not in fold.steps]
    if unknown:
        raise Unknown("step", unknown[0], ids.similar(unknown[0], fold.steps))
    for name in steps:
        if fold.steps[name].status in ("running", "in_doubt"):
            key = idempotency_key(context, fold, fold.run, name)
            raise InDoubt(fold.task, name, key)
    names = [name for name in steps if fold.steps[name].status != "pending"]
    return Decision(draft(context, "reopen", {"steps": names}) if names else None)


def progress_of(fold: Fold) -> Mapping[str, Any]:
    """Count what is done, at no cost that grows with it."""
    count = fold.counts.get
    return {
        "done": count("done", 0) + count("skipped", 0),
        "failed": count("failed", 0),
        "total": max(fold.total, len(fold.steps)),
        "last_done": fold.last_done,
    }
