"""What every decision is given from outside: the time, who asks, what they remember."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from holdfast_storage.core.errors import InvalidValue, RunClosed, TooLarge, Unavailable, Unknown
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.limits import Settings
from holdfast_storage.core.records import Draft
from holdfast_storage.core.snapshot import Snapshot
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.core.times import stamp


# Not frozen, as nothing is that each step makes anew: that takes three times as long.
@dataclass(slots=True)
class Context:
    """The moment and the surroundings of one decision."""

    now: datetime
    id: str  # a fresh random word; becomes the record's id
    by: str
    process: str
    workspace_id: str
    settings: Settings = field(default_factory=Settings)
    gone: AbstractSet[str] = frozenset()  # processes known to be dead
    is_person: bool = False


@dataclass(slots=True)
class Belief:
    """What one caller holds to be true of one task: never a merge result, only what it saw or said."""

    run: int = 0
    told: int = 0  # the revision of the last load, or one given by the caller
    # What it loaded, with what it submitted since laid over it.
    state: Snapshot | JsonObject | None = None
    shown: set[str] = field(default_factory=set[str])  # keys of the state it has seen or said
    is_all_shown: bool = False  # every key of `state` is known to be in there
    own: set[str] = field(default_factory=set[str])  # ids of its records, the last of them at least
    seen: int = 0  # the revision at which it took the state alone, and heard of nothing beside it
    met: int = 0  # the revision of its first answer: before that it remembered nothing
    heard: int = 0  # up to here other agents' changes were in some answer
    claims: dict[str, str] = field(default_factory=dict[str, str])

    def enter(self, run: int) -> None:
        """Be in this run: what is known of the state of another one is no memory of this one's."""
        if self.run != run:
            self.run, self.state, self.shown, self.is_all_shown = run, None, set(), False

    def show_all(self, state: Snapshot) -> None:
        """Remember that every key of a state was seen or said."""
        before = self.state if self.is_all_shown and isinstance(self.state, Snapshot) else None
        if before is not None and (before is state or state.is_known_to_have_the_keys_of(before)):
            return
        if not state.keys <= self.shown:
            # To ask first costs a fifth of putting thousands of keys together again.
            self.shown.update(state.keys)

    def take(self, state: Snapshot, run: int, seq: int, *, is_closed: bool) -> None:
        """Take the whole state of a run as it is at a revision, and nothing of what is beside it."""
        if seq < max(self.told, self.met, self.heard, self.seen):
            # Another journal was put in its place.
            self.run = self.told = self.met = self.heard = 0
        if self.run != run or is_closed:
            # Of a run that one takes up, or that is over, there is no memory that others could belie.
            self.enter(run)
            self.told = seq
        self.show_all(state)
        self.state, self.is_all_shown = state, True
        self.seen, self.met = seq, self.met or seq


@dataclass(slots=True)
class Decision:
    """The record to write, if any, and what was found on the way to it."""

    draft: Draft | None
    found: dict[str, Any] = field(default_factory=dict[str, Any])


def draft(
    context: Context,
    op: str,
    body: JsonObject,
    *,
    opens: bool = False,
    encoded: Mapping[str, bytes] | None = None,
) -> Draft:
    """Make a record of this moment; `encoded` is what of the body need not be encoded again."""
    return Draft(context.id, stamp(context.now), context.by, op, body, opens, encoded or {})


def opens_run(fold: Fold, belief: Belief) -> bool:
    """Say whether this write is the first of a run; refuse it if it comes too late for the last."""
    if fold.run == 0:
        return True
    if not fold.is_closed:
        return False
    if belief.told < fold.closed_seq:
        raise RunClosed(fold.task, fold.run, fold.finished_by)
    return True


def opening_fields(fold: Fold) -> JsonObject:
    """Give what the first record of the next run carries over from the last."""
    return {"run": fold.run + 1, "checkpoint_before": fold.checkpoint}


def require_task(fold: Fold) -> None:
    """Refuse what makes sense only for a task that exists."""
    if fold.run == 0:
        raise Unknown("task", fold.task)


def require_state(fold: Fold) -> None:
    """Refuse what rests on a state that cannot be read: unknown is not empty."""
    if fold.state_lost or fold.state_pruned:
        why = "its record is damaged" if fold.state_lost else "it was pruned"
        raise Unavailable(fold.checkpoint, why)


def require_open_run(fold: Fold) -> None:
    """Refuse what makes sense only in a run that goes on."""
    require_task(fold)
    if fold.is_closed:
        raise RunClosed(fold.task, fold.run, fold.finished_by)


def check_text(text: str, where: str, context: Context) -> str:
    """Refuse a text that is too long or no text at all."""
    size = len(_utf8(text, where))
    if size > context.settings.limits.text_bytes:
        raise TooLarge(where, size, context.settings.limits.text_bytes)
    return text


def _utf8(text: str, where: str) -> bytes:
    if type(text) is not str:
        raise InvalidValue(where, "it must be text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(where, "it contains half of a surrogate pair") from error


def idempotency_key(context: Context, fold: Fold, run: int, step: str) -> str:
    """Give the key that stays the same for a step until somebody reopens it."""
    known = fold.steps.get(step) if run == fold.run else None
    parts = (context.workspace_id, fold.task, run, step, known.reopened if known else 0)
    return sha256("\x00".join(map(str, parts)).encode()).hexdigest()[:32]
