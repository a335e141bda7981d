"""What an agent needs to go on, within the tokens it is willing to spend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast_storage.core import hints, strict_json
from holdfast_storage.core.cuts import cut
from holdfast_storage.core.decide.context import Belief
from holdfast_storage.core.decide.steps import progress_of
from holdfast_storage.core.delta import MISSING
from holdfast_storage.core.fold import Changed, Conflict, Fold, Question
from holdfast_storage.core.snapshot import plain
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.core.times import stamp

CHARACTERS_PER_TOKEN = 4
LEAST_TOKENS = 150
_VALUE_SHOWN = 300

# How much of each list and text is shown, from generous to bare.
_WINDOWS = ((20, 4000), (20, 1000), (10, 500), (5, 250), (2, 120), (1, 60), (0, 30), (0, 0))


@dataclass(frozen=True, slots=True)
class BriefRequest:
    """What the brief is to contain beside what the fold knows."""

    now: datetime
    gone: AbstractSet[str]
    max_tokens: int
    state: Any  # a part of it, or a snapshot of all, which the brief then has in it if it fits
    state_path: tuple[str, ...] = ()
    changes: Sequence[JsonObject] = ()
    refs: Sequence[JsonObject] = ()
    warnings: Sequence[str] = ()
    resumes: int = 0
    core_only: bool = False
    more: JsonObject = field(default_factory=dict[str, Any])


def compose(fold: Fold, request: BriefRequest) -> JsonObject:
    """Compose the brief: everything that fits comes whole, the state takes what is left."""
    budget = max(request.max_tokens, LEAST_TOKENS) * CHARACTERS_PER_TOKEN
    brief = _without_state(fold, request, *_WINDOWS[0])
    if _fits_whole(fold, request, budget - _characters(brief)):
        return brief | {"state": request.state}
    state = plain(request.state)
    # Leave the state what it makes of a third: it is what the agent came for.
    wanted = _characters(cut(state, budget // 3, request.state_path)) + len('"state":,')
    for items, text in _WINDOWS:
        brief = _without_state(fold, request, items, text)
        if budget - _characters(brief) >= wanted:
            break
    if fold.is_state_unknown and request.state is fold.snapshot:
        # Unknown is not empty.
        return brief | {"state": None}
    spare = budget - _characters(brief) - len('"state":,')
    # Sizes are counted in bytes inside `cut` and never smaller than the characters promised.
    brief["state"] = cut(state, max(spare, 0), request.state_path)
    return brief


def _fits_whole(fold: Fold, request: BriefRequest, spare: int) -> bool:
    """Say whether the state fits without being measured, by what its records take."""
    is_known = request.state is fold.snapshot and not fold.is_state_unknown
    return is_known and fold.state_bytes + len('"state":,') <= spare


def _characters(value: Any) -> int:
    return len(strict_json.encode(value).decode())


def _without_state(fold: Fold, request: BriefRequest, items: int, text: int) -> JsonObject:
    now, gone = request.now, request.gone
    doubtful, remaining = _unfinished(fold, now, gone, items)
    brief: JsonObject = {
        "found": True,
        "task": fold.task,
        "goal": shortened(fold.goal, text),
        "status": fold.status_at(now),
        "run": fold.run,
        "revision": fold.seq,
        "checkpoint": fold.checkpoint,
        **_newest(fold),
        "next": shortened(fold.next, text),
        "progress": {**progress_of(fold), "resumes": request.resumes},
        "remaining": remaining,
        "running": _running(fold, now, gone)[:items],
        "in_doubt": doubtful,
        "questions": [_question(question, now, text) for question in fold.questions.values()][
            -items or None : None if items else 0
        ],
        "changes": list(request.changes)[:items],
        "conflicts": [_conflict(lost) for lost in fold.conflicts.values()][:items],
        "refs": list(request.refs)[:items],
        "warnings": [shortened(warning, max(text, 60)) for warning in request.warnings[:items]],
        **request.more,
    }
    brief["hint"] = _hint(fold, request, brief)
    return brief if items else _bare(fold, brief)


def _bare(fold: Fold, brief: JsonObject) -> JsonObject:
    """Leave out even what is empty, and say that there is more."""
    hint = (hints.STOP if fold.paused_by_person else "") + hints.MORE
    return {key: value for key, value in brief.items() if value not in ([], "")} | {"hint": hint}


def _newest(fold: Fold) -> JsonObject:
    newest = fold.checkpoints.get(fold.checkpoint)
    return {
        "label": newest.label if newest else "",
        "saved_at": newest.at if newest else fold.updated_at,
        "saved_by": newest.by if newest else fold.updated_by,
    }


def _unfinished(
    fold: Fold, now: datetime, gone: AbstractSet[str], items: int
) -> tuple[list[str], list[str]]:
    """Give what is in doubt and what remains, as far as it is shown."""
    doubtful: list[str] = []
    remaining: list[str] = []
    looks_for_doubt = bool(fold.claims or fold.count("in_doubt") or fold.doubts_all)
    for name in fold.unfinished:
        status = fold.status_of(name, now, gone)
        if status == "in_doubt":
            doubtful.append(name)
        elif status != "running":
            remaining.append(name)
        if len(remaining) >= items and (not looks_for_doubt or len(doubtful) >= max(items, 1)):
            break
    return doubtful[: max(items, 1)], remaining[:items]


def _running(fold: Fold, now: datetime, gone: AbstractSet[str]) -> list[JsonObject]:
    return [
        {"step": name, "by": claim.by, "until": stamp(claim.until)}
        for name, claim in fold.claims.items()
        if fold.status_of(name, now, gone) == "running"
    ]


def _question(question: Question, now: datetime, text: int) -> JsonObject:
    status = "answered" if question.answer is not None else "waiting"
    return {
        "id": question.id,
        "question": shortened(question.question, text),
        "status": "expired" if question.is_expired(now) else status,
        "answer": question.answer,
    }


def _conflict(lost: Conflict) -> JsonObject:
    return {"id": lost.id, "path": lost.path, "kept_by": lost.kept_by, "file": lost.file}


def _hint(fold: Fold, request: BriefRequest, brief: JsonObject) -> str:
    said = hints.about(changes=brief["changes"], conflicts=(), is_paused=fold.paused_by_person)
    if fold.is_state_unknown:
        said += hints.STATE_LOST
    if brief["in_doubt"]:
        said += hints.in_doubt(core_only=request.core_only)
    if fold.is_closed:
        return said + f"Run {fold.run} is over; your next write opens run {fold.run + 1}, fresh."
    if any(question["status"] == "expired" for question in brief["questions"]):
        said += "A question expired without an answer: do not act on it. "
    if fold.paused_by_person or fold.is_state_unknown:
        return said
    return said + "Steps that are done stay done; go on with next and remaining."


def shortened(text: str, limit: int) -> str:
    """Give the beginning of a long text and how much of it is left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… [{len(text) - limit:,} more characters]"


# --- what others changed ----------------------------------------------------------------------


def is_person(by: str) -> bool:
    """Say whether this author is a person."""
    return by == "human" or by.startswith("human:")


def changes_since(changes: Iterable[Changed], belief: Belief, limit: int = 20) -> list[JsonObject]:
    """List what others changed: people's changes until the next load, other agents' once."""
    met = max(belief.told, belief.met)
    if not met:
        return []
    heard = max(met, belief.heard)
    by_path: dict[str, Changed] = {}
    first: dict[str, Any] = {}
    own = belief.own
    for noted in [each for each in changes if each.seq > met and each.id not in own]:
        if noted.seq <= belief.seen and noted.is_of_state:
            continue
        if noted.seq > heard or is_person(noted.by):
            for changed in noted.each():
                first.setdefault(changed.path, changed.old)
                by_path[changed.path] = changed
    return [
        {
            "by": changed.by,
            "path": path,
            "from": _shown(first[path], path),
            "to": _shown(changed.new, path),
        }
        for path, changed in list(by_path.items())[:limit]
    ]


def _shown(value: Any, path: str) -> Any:
    if value is MISSING:
        return None
    size = len(strict_json.encode(value))
    return value if size <= _VALUE_SHOWN else {"$cut": size, "path": path.removeprefix("/state")}
