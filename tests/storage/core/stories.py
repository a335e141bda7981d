"""Tell what agents and people do to one task, in memory: decide, write a line, read it, fold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from typing import Any

from holdfast_storage.core import view
from holdfast_storage.core.advance import advance
from holdfast_storage.core.brief import changes_since
from holdfast_storage.core.decide.context import Belief, Context, Decision
from holdfast_storage.core.decide.people import (
    AskRequest,
    decide_acknowledge,
    decide_answer,
    decide_ask,
    decide_finish,
    decide_go_on,
    decide_pin,
)
from holdfast_storage.core.decide.save import SaveRequest, decide_save
from holdfast_storage.core.decide.state import StateChange, StateRequest
from holdfast_storage.core.decide.steps import (
    BeginRequest,
    MarkRequest,
    decide_begin,
    decide_mark,
    decide_release,
    decide_reopen,
    decide_resolve,
)
from holdfast_storage.core.edits import (
    Base,
    SavedFile,
    apply_said,
    decide_edit,
    edits_before,
    is_known,
)
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.limits import Settings
from holdfast_storage.core.records import (
    DamagedLine,
    Draft,
    Entry,
    Place,
    Record,
    decode_line,
    encode_line,
)
from holdfast_storage.core.seal import embedded_revision, is_sealed
from holdfast_storage.core.strict_json import JsonObject, is_object, parse_object, pretty

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
JSON = dict[str, Any]


@dataclass(slots=True)
class Outcome:
    """What a write came to: its record, if it made one, and what was found on the way."""

    record: Record | None
    found: JSON
    changes: list[JsonObject]

    @property
    def seq(self) -> int:
        assert self.record is not None
        return self.record.seq

    @property
    def body(self) -> Mapping[str, Any]:
        assert self.record is not None
        return self.record.body

    @property
    def state_change(self) -> StateChange:
        change = self.found["change"]
        assert isinstance(change, StateChange)
        return change

    @property
    def conflicts(self) -> list[str]:
        """The paths of the values that do not stand, those that were only repeated included."""
        change = self.state_change
        return ["/" + "/".join(clash.path) for clash in (*change.clashes, *change.repeats)]


@dataclass
class Story:
    """One task with its journal, its clock and the processes that have died."""

    task: str = "report"
    settings: Settings = field(default_factory=Settings)
    now: datetime = NOON
    gone: set[str] = field(default_factory=set[str])
    journal: list[bytes] = field(default_factory=list[bytes])

    def __post_init__(self) -> None:
        self.fold = Fold(self.task)
        self._ids = count(1)

    def later(self, **by: float) -> None:
        self.now += timedelta(**by)

    def agent(self, by: str = "ann", process: str = "") -> Agent:
        return Agent(self, by, process or f"process-of-{by}")

    def person(self, by: str = "human") -> Person:
        return Person(self, by)

    def context(self, by: str, process: str = "", *, is_person: bool = False) -> Context:
        return Context(
            now=self.now,
            id=f"{next(self._ids):08x}{sha256(by.encode()).hexdigest()[:8]}",
            by=by,
            process=process,
            workspace_id="workspace",
            settings=self.settings,
            gone=frozenset(self.gone),
            is_person=is_person,
        )

    def write(self, decision: Decision) -> Record | None:
        return self.append(decision.draft) if decision.draft else None

    def append(self, draft: Draft) -> Record:
        line = encode_line(self.fold.seq + 1, draft)
        entry = decode_line(line[:-1], Place(1, sum(map(len, self.journal)), len(line)))
        self.journal.append(line)
        assert isinstance(entry, Record)
        advance(self.fold, [entry])
        return entry

    def record(self, op: str, *, by: str = "retention", opens: bool = False, **body: Any) -> Record:
        """Write a record that no decision made."""
        context = self.context(by)
        return self.append(Draft(context.id, self.at, by, op, body, opens))

    @property
    def at(self) -> str:
        return self.now.isoformat().replace("+00:00", "Z")

    # --- reading it anew ----------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        entries: list[Entry] = []
        offset = 0
        for line in self.journal:
            entries.append(decode_line(line[:-1], Place(1, offset, len(line))))
            offset += len(line)
        return entries

    def read_again(self, *, history: bool = False) -> Fold:
        """Fold everything from the first line."""
        fold = Fold(self.task, keeps_history=history)
        advance(fold, self.entries())
        return fold

    def read_run(self) -> Fold:
        """Fold the open run only, as a reader does who has just started."""
        entries = self.entries()
        [*_, opening] = [
            n for n, entry in enumerate(entries) if isinstance(entry, Record) and entry.opens
        ]
        fold = Fold(self.task, seq=opening)
        advance(fold, entries[opening:])
        return fold

    def folded_to(self, seq: int) -> Fold:
        fold = Fold(self.task)
        advance(
            fold,
            [entry for entry in self.entries() if isinstance(entry, Record) and entry.seq <= seq],
        )
        return fold

    # --- what goes wrong ----------------------------------------------------------------------

    def damage(self, seq: int, old: bytes = b'"at"', new: bytes = b'"a7"') -> DamagedLine:
        """Change a line behind everybody's back and read the journal again."""
        line = self.journal[seq - 1]
        assert old in line
        self.journal[seq - 1] = line.replace(old, new)
        self.fold = self.read_again()
        damaged = self.entries()[seq - 1]
        assert isinstance(damaged, DamagedLine)
        return damaged

    def destroy(self, seq: int) -> None:
        """Make a line unreadable."""
        self.journal[seq - 1] = b"\x00" * 20 + b"\n"
        self.fold = self.read_again()

    def lose(self, *seqs: int) -> None:
        """Take lines out of the journal."""
        self.journal = [line for n, line in enumerate(self.journal, 1) if n not in seqs]
        self.fold = self.read_again()

    def swap(self, one: int, other: int) -> None:
        lines = self.journal
        lines[one - 1], lines[other - 1] = lines[other - 1], lines[one - 1]
        self.fold = self.read_again()

    def status_of(self, step: str) -> str:
        return self.fold.status_of(step, self.now, self.gone)


class Agent:
    """One connection, with what it saw and said."""

    def __init__(self, story: Story, by: str, process: str) -> None:
        self.story, self.by, self.process = story, by, process
        self.belief = Belief()

    def context(self) -> Context:
        return self.story.context(self.by, self.process)

    def load(self) -> Agent:
        fold = self.story.fold
        self.belief = Belief(
            run=fold.run,
            told=fold.seq,
            state=fold.state,
            shown=set(fold.state),
            met=fold.seq,
            heard=fold.seq,
            claims=self.belief.claims,
        )
        return self

    def save(
        self,
        state: JsonObject | None = None,
        *,
        replace: bool = False,
        append: Mapping[str, list[Any]] | None = None,
        base: JsonObject | None = None,
        **more: Any,
    ) -> Outcome:
        request = SaveRequest(state=StateRequest(state, replace, append, base), **more)
        return self._wrote(decide_save(self.story.fold, request, self.belief, self.context()))

    def mark(
        self,
        step: str,
        result: Any = None,
        *,
        state: JsonObject | None = None,
        append: Mapping[str, list[Any]] | None = None,
        **more: Any,
    ) -> Outcome:
        request = MarkRequest(step, result, state=StateRequest(state, append=append), **more)
        outcome = self._wrote(decide_mark(self.story.fold, request, self.belief, self.context()))
        self.belief.claims.pop(step, None)
        return outcome

    def begin(self, step: str = "", **more: Any) -> JSON:
        request = BeginRequest(step, **more)
        outcome = self._wrote(decide_begin(self.story.fold, request, self.belief, self.context()))
        if outcome.record is not None:
            self.belief.claims[outcome.found["step"]] = outcome.found["claim"]
        return outcome.found

    def ask(self, question: str, **more: Any) -> str:
        request = AskRequest(question, **more)
        outcome = self._wrote(decide_ask(self.story.fold, request, self.belief, self.context()))
        name = outcome.found["question"]
        assert isinstance(name, str)
        return name

    def finish(self, outcome: str = "done", summary: str = "") -> Outcome:
        return self._wrote(decide_finish(self.story.fold, outcome, summary, self.context()))

    def _wrote(self, decision: Decision) -> Outcome:
        """Remember what a connection remembers: what it said, never what it was merged into."""
        record, fold = self.story.write(decision), self.story.fold
        if record is not None:
            self.belief.own.add(record.id)
            if record.opens:
                self.belief = Belief(own={record.id}, claims=self.belief.claims, state={})
        self.belief.met = self.belief.met or fold.seq
        changes = changes_since(fold.changes, self.belief)
        self.belief.heard = fold.seq
        self.belief.run = fold.run
        change = decision.found.get("change")
        if change is not None and change.believed is not None:
            self.belief.state = change.believed
            self.belief.shown |= change.believed.keys
        return Outcome(record, decision.found, changes)


class Person:
    """Somebody who decides by command, or opens `state.json` in an editor."""

    def __init__(self, story: Story, by: str) -> None:
        self.story, self.by = story, by

    def context(self) -> Context:
        return self.story.context(self.by, is_person=True)

    def _decide(self, decide: Callable[..., Decision], *arguments: Any) -> Record | None:
        return self.story.write(decide(self.story.fold, *arguments, self.context()))

    def resolve(self, step: str, *, happened: bool, result: Any = None) -> Record | None:
        return self._decide(decide_resolve, step, happened, result)

    def reopen(self, *steps: str) -> Record | None:
        return self._decide(decide_reopen, steps)

    def release(self, step: str) -> Record | None:
        return self._decide(decide_release, step)

    def answer(self, question: str, answer: Any) -> Record | None:
        return self._decide(decide_answer, question, answer)

    def pin(self, checkpoint: int, pinned: bool = True) -> Record | None:
        return self._decide(decide_pin, checkpoint, pinned)

    def acknowledge(self, *conflicts: str, damage: bool = False) -> Record | None:
        return self._decide(decide_acknowledge, conflicts, damage)

    def finish(self, outcome: str) -> Record | None:
        return self._decide(decide_finish, outcome, "")

    def go_on(self) -> Record | None:
        return self._decide(decide_go_on)

    def opens(self) -> Buffer:
        """Open `state.json` as it stands now."""
        fold = self.story.fold
        return Buffer(self, view.render(fold, self.story.now, self.story.gone, resumes=0))

    def edits(self, **values: Any) -> Record | None:
        """Open the file, change something and save it at once."""
        return self.opens().saves(**values)


class Buffer:
    """The file as it stands in somebody's editor."""

    def __init__(self, person: Person, raw: bytes) -> None:
        self.person, self.raw = person, raw
        self.document = parse_object(raw)

    def file(self, raw: bytes, mtime_ns: int | None = None) -> SavedFile:
        document = parse_object(raw)
        if mtime_ns is None:
            mtime_ns = round(self.person.story.now.timestamp()) * 10**9
        revision = embedded_revision(document)
        assert revision is not None
        digest = sha256(raw).hexdigest()
        return SavedFile(document, digest, mtime_ns, revision, is_sealed(raw))

    def types(self, **values: Any) -> None:
        """Change the buffer, objects key by key."""
        for name, value in values.items():
            old = self.document.get(name)
            if is_object(old) and is_object(value):
                self.document[name] = old | value
            else:
                self.document[name] = value

    def saves(self, *, at: int | None = None, raw: bytes = b"", **values: Any) -> Record | None:
        """Save the buffer (or `raw`) with the modification time `at`, and have it taken in."""
        self.types(**values)
        file = self.file(raw or pretty(self.document), at)
        return self.person.story.write(self.decides(file))

    def undoes(self, *, at: int | None = None) -> Record | None:
        """Press undo until the file is as it was opened, and save."""
        return self.saves(at=at, raw=self.raw)

    def decides(self, file: SavedFile) -> Decision:
        story = self.person.story
        if is_known(story.fold, file):
            return Decision(None)
        shown = view.editable(story.folded_to(file.revision), story.now, frozenset())
        base = shown
        for edit in edits_before(story.fold, file):
            [record] = [entry for entry in story.entries() if entry.place == edit.place]
            assert isinstance(record, Record)
            base = apply_said(base, record)
        return decide_edit(story.fold, file, Base(base, shown), self.person.context())


def started(
    state: JsonObject | None = None, plan: Sequence[str] = (), **more: Any
) -> tuple[Story, Agent]:
    """A task whose first save has been made, and the agent that made it."""
    story = Story()
    agent = story.agent()
    agent.save(state or {}, plan=plan, **more)
    return story, agent
