"""A run as its records tell it: what is done, what is planned, what the agent knows.

It is moved forward by `advance`. It never keeps results, only where they lie, so that a million
finished steps cost a little memory each and the next step costs what the first did.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any, NamedTuple

from holdfast_storage.core import strict_json
from holdfast_storage.core.delta import MISSING, few_differences, key_differences
from holdfast_storage.core.records import Place
from holdfast_storage.core.snapshot import Snapshot
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.core.times import moment

FINISHED = frozenset({"done", "skipped"})
CLOSED = frozenset({"done", "abandoned"})

# How many changes by others a fold remembers for callers that have not been told yet.
CHANGES_KEPT = 512
# Some hold whole states: of those not more than this, and the last one in any case.
CHANGES_BYTES_KEPT = 64 * 2**20
# Of a save that changes more values than this it is only told which of the state's keys changed.
VALUES_NOTED = 32
# The path of the state as a whole.
STATE = "/state"
_RECENT_STEPS = 20


@dataclass(slots=True)
class Step:
    """Where one step stands. `place` is the record that holds its result."""

    status: str = "pending"
    attempts: int = 0
    reopened: int = 0
    at: str = ""
    by: str = ""
    place: Place | None = None
    # Somebody looked at this step after the journal was damaged: it is pending and not in doubt.
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """Who is at work on a step, and until when without a word."""

    id: str
    by: str
    process: str
    at: str
    until: datetime


@dataclass(slots=True)
class Checkpoint:
    """A numbered save: where it lies and which earlier one it leans on (0: none)."""

    number: int
    seq: int
    at: str
    by: str
    place: Place
    run: int
    label: str = ""
    milestone: bool = False
    pinned: bool = False
    leans_on: int = 0
    pruned: bool = False
    readable: bool = True
    digest: str = ""
    restored_from: int = 0
    state_bytes: int = 0  # of its state, if that was noted in full and as bytes; 0: nobody knows


@dataclass(slots=True)
class Question:
    """Something a person must answer before the agent goes on."""

    id: str
    question: str
    options: tuple[str, ...]
    step: str
    asked_at: str
    asked_by: str
    expires_at: str = ""
    answer: Any = None
    answered_by: str = ""

    def is_expired(self, now: datetime) -> bool:
        """Say whether its time ran out without an answer."""
        return self.answer is None and bool(self.expires_at) and moment(self.expires_at) <= now


class Changed(NamedTuple):
    """One value that somebody changed, for those who remember the old one.

    Of a save that changed very much, or of which it is not known how much, it is one for all, with the
    whole states in `old` and `new`: most are never asked for, and `each` tells them apart. They are kept
    as bytes where there are any, because objects take ten to thirty times as much memory.
    """

    seq: int
    id: str  # of the record, by which a caller knows its own
    by: str
    path: str
    old: Any
    new: Any
    size: int = 0  # about how many bytes one of them takes, where those are whole states

    @property
    def is_of_state(self) -> bool:
        """Say whether it is of the agent's own state, and of nothing beside it."""
        return self.path == STATE or self.path.startswith(f"{STATE}/")

    def values(self) -> tuple[Any, Any]:
        """Give what was there before and after, as objects."""
        return _objects(self.old), _objects(self.new)

    def each(self) -> list[Changed]:
        """Give one for each value, or for each key of the state where there are very many.

        What is there comes before what was dropped: of many only the first are told.
        """
        if self.path != STATE:
            return [self]
        old, new = self.values()
        found = few_differences(old, new, VALUES_NOTED)
        if found is None:
            keys = key_differences(old, new)[-CHANGES_KEPT:]
            found = sorted(keys, key=lambda one: one.new is MISSING)
        return [self._replace(path=STATE + one.path, old=one.old, new=one.new) for one in found]


def _objects(value: Any) -> Any:
    return strict_json.decode(value) if type(value) is bytes else value


class Changes:
    """The last changes to a task, in the order they were taken in."""

    def __init__(self) -> None:
        self._kept: deque[Changed] = deque()
        self._size = 0
        # Where lines were swapped, a record is taken in after one with a higher seq.
        self._is_in_order = True

    def add(self, changed: Changed) -> None:
        """Remember one more, and forget the first ones if there are too many."""
        if self._kept and self._kept[-1].seq > changed.seq:
            self._is_in_order = False
        self._kept.append(changed)
        self._size += changed.size
        if len(self._kept) > CHANGES_KEPT:
            self._size -= self._kept.popleft().size
        while self._size > CHANGES_BYTES_KEPT and self._forgets_a_state(but=changed):
            pass

    def _forgets_a_state(self, but: Changed) -> bool:
        """Forget the first of the whole states, but for this one; never a value by itself."""
        for place, each in enumerate(self._kept):
            if each.size and each is not but:
                del self._kept[place]
                self._size -= each.size
                return True
        return False

    def after(self, seq: int) -> list[Changed]:
        """Give those of records after this one: of hundreds usually none, or the last few."""
        if not self._is_in_order:
            return [changed for changed in self._kept if changed.seq > seq]
        found = list(takewhile(lambda changed: changed.seq > seq, reversed(self._kept)))
        found.reverse()
        return found

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Changed]:
        return iter(self._kept)

    def __reversed__(self) -> Iterator[Changed]:
        yield from reversed(self._kept)


@dataclass(slots=True)
class Conflict:
    """A value that did not make it; it lies in `file` until somebody acknowledges it."""

    id: str
    path: str
    kept_by: str
    lost_by: str
    file: str
    at: str


@dataclass(frozen=True, slots=True)
class IngestedEdit:
    """A person's saved file that is in the journal already."""

    seq: int
    base: int
    digest: str
    mtime_ns: int
    place: Place


@dataclass(slots=True)
class Fold:
    """One task and its open run; with `keeps_history` the checkpoints of closed runs as well."""

    task: str
    keeps_history: bool = False
    seq: int = 0
    last_id: str = ""  # of the record with that seq, or the last before it that could be read
    unsure: int = 0  # how many of the last seqs only damaged lines speak for
    opened_seq: int = 0  # the first record of the run
    run: int = 0
    run_guessed: bool = False  # the record that says which is missing
    status: str = "active"
    paused_by_person: bool = False
    finished_by: str = ""
    closed_seq: int = 0
    summary: str = ""
    updated_at: str = ""
    updated_by: str = ""
    goal: str = ""
    next: str = ""
    total: int = 0
    refs: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    extra: JsonObject = field(default_factory=dict[str, Any])

    snapshot: Snapshot = field(default_factory=lambda: Snapshot({}))  # the state
    state_bytes: int = 2  # never less than what the state would take
    checkpoint: int = 0
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict[int, Checkpoint])
    checkpoint_snapshot: Snapshot = field(default_factory=lambda: Snapshot({}))
    full_bytes: int = 0  # of the last save that held the state in full
    changes_bytes: int = 0  # of everything since
    needs_full: bool = True
    state_seq: int = 0  # of the record that last changed the state
    # What was saved in this run cannot be read: the state is unknown, which is not empty.
    state_lost: bool = False
    # Prune took the last save's state: what changes it has nothing to change until the next save.
    state_pruned: bool = False

    steps: dict[str, Step] = field(default_factory=dict[str, Step])
    order: list[str] = field(default_factory=list[str])
    # Both in the order of the plan, and with the first at hand whatever was done before.
    pending: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])
    unfinished: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])
    alike: dict[str, str] = field(default_factory=dict[str, str])
    claims: dict[str, Claim] = field(default_factory=dict[str, Claim])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    last_done: str = ""
    recent_steps: deque[tuple[str, str, str]] = field(
        default_factory=lambda: deque[tuple[str, str, str]](maxlen=_RECENT_STEPS)
    )

    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    conflicts: dict[str, Conflict] = field(default_factory=dict[str, Conflict])
    changes: Changes = field(default_factory=Changes)
    person_seq: int = 0  # of the newest change that a person made
    edits: dict[int, list[IngestedEdit]] = field(default_factory=dict[int, list[IngestedEdit]])
    edited_paths: dict[str, int] = field(default_factory=dict[str, int])  # path → mtime_ns
    edit_warnings: list[str] = field(default_factory=list[str])
    boots: dict[str, str] = field(default_factory=dict[str, str])  # boot id → last seen at

    problems: list[str] = field(default_factory=list[str])
    missing: set[int] = field(default_factory=set[int])
    is_damaged: bool = False
    rewritten: bool = False  # places remembered from before may be wrong
    # A record is missing, and it may have been any step's: whatever is pending is in doubt.
    doubts_all: bool = False

    # --- reading it off -----------------------------------------------------------------------

    @property
    def state(self) -> JsonObject:
        """The state, as objects that are made if nobody has asked for them yet."""
        return self.snapshot.value

    @property
    def checkpoint_state(self) -> JsonObject:
        """The state of the newest checkpoint, in the same way."""
        return self.checkpoint_snapshot.value

    @property
    def is_closed(self) -> bool:
        """Whether the run is over, so that the next one starts fresh."""
        return self.status in CLOSED

    def status_at(self, now: datetime) -> str:
        """Give the task's status at this moment: nobody waits for a question whose time ran out."""
        if self.status == "waiting" and not self.open_questions(now):
            return "active"
        return self.status

    def open_questions(self, now: datetime) -> list[Question]:
        """List what a person still has to answer."""
        return [
            question
            for question in self.questions.values()
            if question.answer is None and not question.is_expired(now)
        ]

    @property
    def is_state_unknown(self) -> bool:
        """Say whether there was a state and it cannot be had: unknown is not empty."""
        return self.state_lost or self.state_pruned

    def status_of(self, name: str, now: datetime, gone: AbstractSet[str]) -> str:
        """Give a step's status at this moment: a claim that nobody keeps leaves a doubt."""
        step = self.steps.get(name)
        if step is None:
            return "in_doubt" if self.doubts_all else "pending"
        if step.status == "running":
            claim = self.claims[name]
            return "in_doubt" if claim.until <= now or claim.process in gone else "running"
        if step.status == "pending" and self.doubts_all and not step.cleared:
            return "in_doubt"
        return step.status

    def processes_at_work(self) -> set[str]:
        """Name the processes whose claims count only while they live."""
        return {claim.process for claim in self.claims.values()}

    def count(self, status: str) -> int:
        """Give how many steps have this recorded status."""
        return self.counts.get(status, 0)
