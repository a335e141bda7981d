"""What happened, in words for people: pure, and only ever text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from holdfast_storage.core import strict_json
from holdfast_storage.core.times import moment
from holdfast_storage.results import AskedQuestion, Event, Load

REFUSED = "That was not done"
# What was done, said on the page that one comes back to.
DONE = {
    "answer": "Answered. The agent finds it with its next call.",
    "resolve": "Settled. Agents know now whether the step happened.",
    "release": "Released. The step is in doubt until somebody says whether it happened.",
    "reopen": "Reopened. The step is pending again.",
    "acknowledge": "Acknowledged. It is not announced any more.",
    "accept": "Accepted. The damage is not announced any more.",
    "pause": "Paused. Agents are told to stop until you let them go on.",
    "go_on": "Agents may go on.",
    "rewind": "Rewound. The state is that checkpoint's again; steps that are done stay done.",
    "fork": "This is the new task. It is paused until you let it go on.",
    "prune": "Pruned. What was taken can be restored for 24 hours.",
}
_TEXT_SHOWN = 20_000
_GROUPED_FROM = 4
_DID = "did"


# --- single values ----------------------------------------------------------------------------


def ago(at: str, now: datetime) -> str:
    """Say how long ago something was, in one glance."""
    if not at:
        return ""
    seconds = (now - moment(at).astimezone(UTC)).total_seconds()
    if seconds < 10:
        return "just now"
    for size, word in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {word} ago"
    return f"{int(seconds)} s ago"


def clock(at: str) -> str:
    """Write a moment for people: to the second, in UTC."""
    return f"{at[:10]} {at[11:19]} UTC" if at else ""


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: 1 step, 2 steps."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Write a size in bytes for people."""
    if number < 1024:
        return f"{number} B"
    return f"{number / 1024:.1f} KiB" if number < 2**20 else f"{number / 2**20:.1f} MiB"


def as_json(value: Any) -> str:
    """Write a value as JSON for people, the beginning of it if it is long."""
    text = strict_json.pretty(value).decode().rstrip("\n")
    if len(text) <= _TEXT_SHOWN:
        return text
    return f"{text[:_TEXT_SHOWN]}\n… {len(text) - _TEXT_SHOWN:,} more characters"


def one_line(value: Any) -> str:
    """Write a value in one line, a text without its quotes."""
    text = value if isinstance(value, str) else strict_json.encode(value).decode()
    return text if len(text) <= 300 else f"{text[:300]}…"


FILTERS = {
    "ago": ago,
    "clock": clock,
    "counted": counted,
    "size": size,
    "as_json": as_json,
    "one_line": one_line,
}


# --- what happened ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that happened: what kind, by whom, and in which words."""

    seq: int
    at: str
    by: str
    kind: str  # checkpoint, step, edit, question, rewind, load, person, damage: how it looks
    verb: str
    what: str = ""
    more: list[str] = field(default_factory=list[str])
    checkpoint: int = 0


@dataclass(frozen=True, slots=True)
class Several:
    """Many alike in a row, shown as one that can be unfolded."""

    told: list[Told]

    @property
    def newest(self) -> Told:
        """The last that happened."""
        return self.told[0]

    @property
    def oldest(self) -> Told:
        """The first that happened, by which the group is known while it grows."""
        return self.told[-1]


def timeline(
    events: Sequence[Event], loads: Iterable[Load], questions: Sequence[AskedQuestion]
) -> list[Told | Several]:
    """Put events and loads into words, the newest first, steps in a row together."""
    by_revision: dict[int, list[Load]] = {}
    for load in loads:
        by_revision.setdefault(load.revision, []).append(load)
    told: list[Told] = []
    for event in events:
        # Whoever loaded at a revision saw everything up to it.
        told += [_load(load) for load in reversed(by_revision.get(event.seq, ()))]
        told.append(in_words(event, questions))
    grouped: list[Told | Several] = []
    for doer, alike in groupby(told, key=_who_did_a_step):
        group = list(alike)
        grouped += [Several(group)] if doer and len(group) >= _GROUPED_FROM else group
    return grouped


def _who_did_a_step(told: Told) -> str:
    return told.by if told.kind == "step" and told.verb == _DID else ""


def _load(load: Load) -> Told:
    return Told(load.revision, load.at, load.by, "load", "took up", f"run {load.run}")


def in_words(event: Event, questions: Sequence[AskedQuestion] = ()) -> Told:
    """Say what an operation was; `questions` are those of the open run."""
    about = event.about
    say = _OPS.get(event.op, _plainly("person", event.op))
    # Each run counts its questions anew: one asked later is not the one that is meant.
    known = {each.id: each.question for each in questions if each.asked_at <= event.at}
    kind, verb, what, more = say(about, known)
    warnings = [str(each) for each in about.get("warnings", ())]
    return Told(
        event.seq,
        event.at,
        event.by,
        kind,
        verb,
        what,
        [*more, *warnings],
        checkpoint=about.get("checkpoint", 0) if event.op == "save" else 0,
    )


_Said = tuple[str, str, str, list[str]]
_About = Mapping[str, Any]
_Questions = Mapping[str, str]
_Say = Callable[[_About, _Questions], _Said]


def _plainly(kind: str, verb: str) -> _Say:
    """Say nothing but the verb, and the step if there is one."""

    def say(about: _About, _: _Questions) -> _Said:
        return kind, verb, about.get("step", ""), []

    return say


def _save(about: _About, _: _Questions) -> _Said:
    number, label = about.get("checkpoint", 0), about.get("label", "")
    changed = about.get("changed", [])
    if about.get("restored_from"):
        what = f"to checkpoint {about['restored_from']}, saved as {number}"
        return "rewind", "rewound", what, changed
    named = f"checkpoint {number}" + (f" · {label}" if label else "")
    kind = "milestone" if about.get("milestone") else "checkpoint"
    return kind, "saved", named, changed


def _done(about: _About, _: _Questions) -> _Said:
    verb = {"failed": "could not do", "skipped": "skipped"}.get(about.get("outcome", ""), _DID)
    return "step", verb, about.get("step", ""), []


def _resolve(about: _About, _: _Questions) -> _Said:
    verb = "happened" if about.get("happened") else "did not happen"
    return "person", f"settled ({verb})", about.get("step", ""), []


def _edit(about: _About, _: _Questions) -> _Said:
    return "edit", "edited", "", list(about.get("changed", []))


def _ask(about: _About, questions: _Questions) -> _Said:
    name = about.get("question_id", "")
    return "question", "asked", questions.get(name, name), []


def _answer(about: _About, questions: _Questions) -> _Said:
    name = about.get("question_id", "")
    return "person", "answered", one_line(about.get("answer")), [questions.get(name, name)]


def _finish(about: _About, _: _Questions) -> _Said:
    outcome: str = about.get("outcome", "")
    words = {
        "active": "let it go on",
        "paused": "paused it",
        "failed": "gave up",
        "done": "finished",
    }
    return "end", words.get(outcome, outcome), "", []


def _pin(about: _About, _: _Questions) -> _Said:
    verb = "pinned" if about.get("pinned", True) else "unpinned"
    return "person", verb, f"checkpoint {about.get('checkpoint', '')}", []


def _prune(about: _About, _: _Questions) -> _Said:
    return "person", "pruned", counted(len(about.get("checkpoints", ())), "checkpoint"), []


def _restore(about: _About, _: _Questions) -> _Said:
    return "person", "restored", counted(len(about.get("checkpoints", ())), "checkpoint"), []


def _reopen(about: _About, _: _Questions) -> _Said:
    return "person", "reopened", ", ".join(about.get("steps", ()))[:300], []


def _damaged(about: _About, _: _Questions) -> _Said:
    return "damage", "a line of the journal cannot be believed", str(about.get("problem", "")), []


_OPS: Mapping[str, _Say] = {
    "save": _save,
    "done": _done,
    "begin": _plainly("begin", "began"),
    "release": _plainly("person", "released"),
    "resolve": _resolve,
    "reopen": _reopen,
    "edit": _edit,
    "ask": _ask,
    "answer": _answer,
    "finish": _finish,
    "pin": _pin,
    "prune": _prune,
    "restore": _restore,
    "fork": _plainly("person", "forked"),
    "acknowledge": _plainly("person", "acknowledged conflicts or damage"),
    "damaged": _damaged,
}
