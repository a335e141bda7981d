"""The checker rejects what cannot have happened, and finds bugs that were planted in the engine."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from tests.torture import linearizability
from tests.torture.search import Search
from tests.torture.specification import Answer, Call, TaskState

from holdfast_storage.core.decide.context import Belief
from holdfast_storage.engines.folder.batch import Batch
from holdfast_storage.engines.folder.lock import TaskLock

_FOREVER = 1 << 62


class Story:
    """Builds a history: calls in the order in which they begin, overlapping where it is said so."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._now = 0

    def call(self, caller: str, name: str, told: Answer | None, /, **arguments: Any) -> Story:
        """Something that ends before the next begins; without answer, nobody knows whether."""
        self._now += 2
        ended = _FOREVER if told is None else self._now + 1
        call = Call(caller, caller[:2], name, arguments, self._now, ended, told)
        self.calls.append(call)
        return self

    def during(self, caller: str, name: str, told: Answer, /, **arguments: Any) -> Story:
        """Something that overlaps with everything so far."""
        self.calls.append(Call(caller, caller[:2], name, arguments, 0, self._now + 1, told))
        return self

    def can_have_happened(self) -> bool:
        return Search(self.calls, TaskState("w", "t")).order() is not None


def saved(checkpoint: int, revision: int, run: int = 1, conflicts: tuple[str, ...] = ()) -> Answer:
    return {
        "run": run,
        "checkpoint": checkpoint,
        "revision": revision,
        "conflicts": list(conflicts),
    }


def marked(revision: int, done: int, **more: Any) -> Answer:
    names = {"outcome": "done", "already_done": False, "result": None, "revision": revision}
    progress = {"done": done, "failed": 0, "total": done, "last_done": f"s{done}"}
    return {**names, "next_step": "", "conflicts": [], "progress": progress, **more}


def loaded(revision: int, state: Answer, **more: Any) -> Answer:
    nothing = {"done": 0, "failed": 0, "total": 0, "last_done": ""}
    names = {"found": True, "run": 1, "revision": revision, "checkpoint": revision}
    lists: Answer = {"in_doubt": [], "running": [], "questions": []}
    return {**names, "status": "active", "state": state, "progress": nothing, **lists, **more}


def begun(revision: int, claim: str, **more: Any) -> Answer:
    return {"step": "s1", "go": True, "status": "running", "claim": claim, "attempts": 1} | {
        "revision": revision,
        **more,
        "key": more.get("key", _key(1, 0)),
    }


def _key(run: int, reopened: int) -> str:
    parts = ("w", "t", run, "s1", reopened)
    return sha256("\x00".join(map(str, parts)).encode()).hexdigest()[:32]


OVER: Answer = {"run": 1, "status": "abandoned", "unfinished": [], "revision": 2}
DIED = {"process": "p1"}

GOOD = {
    "one after the other": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p2a", "load", loaded(1, {"a": 1}))
    .call("p2a", "save", saved(2, 2), state={"a": 2}),
    "a read that overlaps with a save may miss it": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p1a", "save", saved(2, 2), state={"a": 2})
    .during("p2a", "load", loaded(1, {"a": 1})),
    "a killed save may have happened": Story()
    .call("p1a", "save", None, state={"a": 1})
    .call("p2a", "load", loaded(1, {"a": 1})),
    "a killed save may never have happened": Story()
    .call("p1a", "save", None, state={"a": 1})
    .call("p2a", "load", {"found": False}),
    "a killed save may happen late": Story()
    .call("p1a", "save", None, state={"a": 1})
    .call("p2a", "load", {"found": False})
    .call("p2a", "load", loaded(1, {"a": 1})),
    "both changed a value": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p2a", "load", loaded(1, {"a": 1}))
    .call("p1a", "save", saved(2, 2), state={"a": 2})
    .call("p2a", "save", saved(3, 3, conflicts=("/state/a",)), state={"a": 3}),
    "a death leaves a doubt": Story()
    .call("p1a", "begin", begun(1, "c1"), step="s1")
    .call("", "die", {}, **DIED)
    .call("p2a", "begin", begun(2, "c2", go=False, status="in_doubt"), step="s1"),
}

BAD = {
    "an acknowledged save is not there": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p2a", "load", {"found": False}),
    "a save is seen and then not seen": Story()
    .call("p1a", "save", None, state={"a": 1})
    .call("p2a", "load", loaded(1, {"a": 1}))
    .call("p2b", "load", {"found": False}),
    "two saves have the same number": Story()
    .call("p1a", "save", saved(1, 1), append={"log": [1]})
    .during("p2a", "save", saved(1, 1), append={"log": [2]}),
    "a save is lost under another one": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p1a", "save", saved(2, 2), state={"b": 1})
    .call("p2a", "load", loaded(2, {"b": 1})),
    "a value of the future": Story()
    .call("p2a", "load", loaded(1, {"a": 1}))
    .call("p1a", "save", saved(1, 1), state={"a": 1}),
    "a read from before what it overlaps with": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p1a", "save", saved(2, 2), state={"a": 2})
    .call("p2a", "load", loaded(1, {"a": 1})),
    "half of a save": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1, "b": 1})
    .call("p2a", "load", loaded(1, {"a": 1})),
    "a step done twice": Story()
    .call("p1a", "mark", marked(1, 1), step="s1")
    .call("p2a", "mark", marked(2, 1), step="s1"),
    "the second result instead of the first": Story()
    .call("p1a", "mark", marked(1, 1, result=1), step="s1", result=1)
    .call(
        "p2a",
        "mark",
        marked(1, 1, already_done=True, result=2, differs=False),
        step="s1",
        result=2,
    ),
    "a step that is counted before it was marked": Story()
    .call("p1a", "mark", marked(1, 2), step="s1")
    .call("p2a", "mark", marked(2, 2), step="s2"),
    "both got the claim": Story()
    .call("p1a", "begin", begun(1, "c1"), step="s1")
    .during("p2a", "begin", begun(2, "c2"), step="s1"),
    "begun again after a death without a doubt": Story()
    .call("p1a", "begin", begun(1, "c1"), step="s1")
    .call("", "die", {}, **DIED)
    .call("p2a", "begin", begun(2, "c2", attempts=2), step="s1"),
    "a doubt while the holder lives": Story()
    .call("p1a", "begin", begun(1, "c1"), step="s1")
    .call("p2a", "begin", begun(2, "c2", go=False, status="in_doubt"), step="s1"),
    "another key for the same step": Story()
    .call("p1a", "begin", begun(1, "c1"), step="s1")
    .call("", "die", {}, **DIED)
    .call("p2a", "begin", begun(2, "c2", go=False, status="in_doubt", key="0" * 32), step="s1"),
    "the same key after it was reopened": Story()
    .call("p1a", "begin", begun(1, "c1"), step="s1")
    .call("p1a", "mark", marked(2, 1), step="s1")
    .call("p2a", "reopen", {"revision": 3}, step="s1")
    .call("p1a", "begin", begun(4, "c2"), step="s1"),
    "a foreign claim confirms": Story()
    .call("p1a", "begin", begun(1, "c1"), step="s1")
    .call("p2a", "mark", marked(2, 1), step="s1", claim="c0"),
    "a conflict that was not told": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p2a", "load", loaded(1, {"a": 1}))
    .call("p1a", "save", saved(2, 2), state={"a": 2})
    .call("p2a", "save", saved(3, 3), state={"a": 3}),
    "an old value that won unseen": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p2a", "load", loaded(1, {"a": 1}))
    .call("p1a", "save", saved(2, 2), state={"a": 2})
    .call("p2a", "save", saved(3, 3), state={"b": 1})
    .call("p1a", "load", loaded(3, {"a": 1, "b": 1})),
    "an append that is lost": Story()
    .call("p1a", "save", saved(1, 1), append={"log": [1]})
    .call("p2a", "save", saved(2, 2), append={"log": [2]})
    .call("p1a", "load", loaded(2, {"log": [2]})),
    "a late write opens a run": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p2a", "finish", OVER, outcome="abandoned")
    .call("p1a", "save", saved(2, 3, run=2), state={"a": 2}),
    "a run that is done with a step open": Story()
    .call("p1a", "save", saved(1, 1), plan=["s1"])
    .call(
        "p1a",
        "finish",
        {"run": 1, "status": "done", "unfinished": [], "revision": 2},
        outcome="done",
    ),
    "a revision of the last run is built on": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p1a", "finish", OVER, outcome="abandoned")
    .call("p2a", "load", loaded(2, {"a": 1}, checkpoint=1, status="abandoned"))
    .call("p2a", "save", saved(2, 3, run=2), state={"b": 1})
    .call("p1a", "save", saved(3, 4, run=2), state={"a": 2}, revision=1),
    "what was known of the last run is built on": Story()
    .call("p1a", "save", saved(1, 1), state={"a": 1})
    .call("p1a", "finish", OVER, outcome="abandoned")
    .call("p2a", "load", loaded(2, {"a": 1}, checkpoint=1, status="abandoned"))
    .call("p2a", "save", saved(2, 3, run=2), state={"b": 1})
    .call("p1a", "mark", marked(4, 1), step="s1")
    .call("p1a", "save", saved(3, 5, run=2), state={"a": 2}),
    "a list of steps of two moments": Story()
    .call("p1a", "mark", marked(1, 1, result=1), step="s1", result=1)
    .call("p2a", "list_steps", {"steps": [["s1", "done", 2, 1]]}),
    "a question answered twice": Story()
    .call("p1a", "ask", {"question_id": "q1", "answer": None, "revision": 1}, question="why?")
    .call(
        "p2a", "answer", {"question_id": "q1", "answer": 1, "revision": 2}, question="q1", answer=1
    )
    .call("p1a", "ask", {"question_id": "q1", "answer": 2, "revision": 2}, question="why?"),
    "a pause by a person that ends by itself": Story()
    .call("p1a", "mark", marked(1, 1), step="s1")
    .call("p2a", "pause", {"revision": 2})
    .call("p1a", "begin", begun(3, "c1", step="s2"), step="s2"),
}


def test_at_least_twenty_bad_histories_are_planted() -> None:
    assert len(BAD) >= 20


@pytest.mark.parametrize("name", GOOD)
def test_what_can_have_happened_is_explained(name: str) -> None:
    assert GOOD[name].can_have_happened()


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_have_happened_is_rejected(name: str) -> None:
    story = BAD[name]

    assert not story.can_have_happened()


# --- bugs planted in the engine ---------------------------------------------------------------


def found_in(count: int, seed: int = 1) -> list[str]:
    """Give what so many histories show, as soon as one shows something."""
    for number in range(count):
        if told := linearizability.tried(seed + number):
            return told
    return []


def _no_lock(self: TaskLock, path: str, meanwhile: object = None) -> bool:
    return False


def _nothing(self: object, *arguments: object) -> None:
    return None


def _same_run(self: Belief, run: int) -> None:
    self.run = run


def _answer_last(self: Batch, operation: Any) -> None:
    """Decide as before, but let answers be made up when everything is written."""
    operation.foresee = _nothing.__get__(operation)
    _DECIDE(self, operation)


_DECIDE = Batch.decide


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("place", "name", "bug"),
    [
        (TaskLock, "take", _no_lock),
        (Belief, "enter", _same_run),
        (Batch, "decide", _answer_last),
    ],
    ids=["no lock", "memory of another run", "answers from the whole batch"],
)
def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, place: type, name: str, bug: Any
) -> None:
    monkeypatch.setattr(place, name, bug)

    # Most often one of the first; when things happen is up to the machine.
    assert found_in(1000)


@pytest.mark.timeout(120)
def test_without_a_planted_bug_nothing_is_found() -> None:
    assert linearizability.many(seed=1, count=20).violations == ()
