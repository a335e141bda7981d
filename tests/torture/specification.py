"""What one task must answer if everything happened one after the other: the sequential specification.

It shares no code with the engine. Values are plain and small; a state is never changed, only copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

Answer = dict[str, Any]
State = Mapping[str, Any]

FINISHED = ("done", "skipped")
CLOSED = ("done", "abandoned")
_NOTHING = object()


class Refused(Exception):
    """The specification says no, with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Call:
    """Something that a caller did, when it began and ended, and what it was told (None: unknown)."""

    caller: str
    process: str
    name: str
    arguments: Mapping[str, Any]
    began: int
    ended: int
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class Step:
    """Where one step stands."""

    status: str = "pending"
    attempts: int = 0
    reopened: int = 0
    cleared: bool = False
    result: Any = None
    claim: str = ""
    holder: str = ""  # the process whose death leaves a doubt


@dataclass(frozen=True, slots=True)
class Belief:
    """What a caller may be taken to know."""

    run: int = 0
    told: int = 0
    state: State | None = None
    claims: Mapping[str, str] = field(default_factory=dict[str, str])
    last_save: tuple[str, Answer] | None = None

    def in_run(self, run: int) -> Belief:
        """Take it into a run: nothing that is known of another one counts there."""
        return self if self.run == run else replace(self, run=run, state=None)


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task at one moment."""

    workspace: str = ""
    task: str = ""
    seq: int = 0
    run: int = 0
    opened: int = 0
    closed: int = 0
    status: str = "active"
    paused_by_person: bool = False
    checkpoint: int = 0
    newest_save: int = 0  # the seq of this run's newest save, 0 if it has none
    saved: State = field(default_factory=dict[str, Any])
    state: State = field(default_factory=dict[str, Any])
    steps: Mapping[str, Step] = field(default_factory=dict[str, Step])
    last_done: str = ""
    questions: Mapping[str, tuple[str, Any]] = field(default_factory=dict[str, tuple[str, Any]])
    states: Mapping[int, State] = field(default_factory=dict[int, State])
    checkpoints: Mapping[int, State] = field(default_factory=dict[int, State])
    pruned: bool = False
    dead: frozenset[str] = frozenset()
    beliefs: Mapping[str, Belief] = field(default_factory=dict[str, Belief])

    def status_of(self, name: str) -> str:
        """Give a step's status: a claim whose process is gone leaves a doubt."""
        step = self.steps.get(name, Step())
        if step.status == "running" and step.holder in self.dead:
            return "in_doubt"
        return step.status

    def unfinished(self) -> list[str]:
        return [name for name, step in self.steps.items() if step.status not in FINISHED]

    def open_questions(self) -> list[str]:
        return [text for text, (_, answer) in self.questions.items() if answer is None]


def apply(before: TaskState, call: Call) -> tuple[Answer, TaskState]:
    """Do one call; gives the answer that is due and the task after it."""
    now = _Task(before, call)
    if before.run == 0 and call.name in _NEEDS_TASK:
        return {"error": "unknown"}, before
    try:
        answer = _OPERATIONS[call.name](now, **call.arguments)
    except Refused as refusal:
        return {"error": refusal.code}, now.refused()
    return answer, now.state


def agree(due: Answer, told: Answer | None) -> bool:
    """Say whether what was told is what was due; what the answer leaves open is not compared."""
    if told is None:
        return True
    return all(told.get(name) == value for name, value in due.items())


# --- doing it ---------------------------------------------------------------------------------


class _Task:
    """A task while one call is done to it."""

    def __init__(self, state: TaskState, call: Call) -> None:
        self.before, self.state, self.call = state, state, call

    def refused(self) -> TaskState:
        """Give the task after a refusal: only the caller is another."""
        return replace(self.before, beliefs=self.state.beliefs)

    @property
    def belief(self) -> Belief:
        return self.state.beliefs.get(self.call.caller, Belief())

    def believe(self, **changed: Any) -> None:
        belief = replace(self.belief, **changed)
        self.state = replace(self.state, beliefs={**self.state.beliefs, self.call.caller: belief})

    def change(self, **changed: Any) -> None:
        self.state = replace(self.state, **changed)

    def told(self, name: str) -> Any:
        """Give what the engine chose at random, if anybody was told."""
        return (self.call.answer or {}).get(name, f"?{self.call.caller}{self.call.began}")

    # --- runs ---------------------------------------------------------------------------------

    def opens(self) -> bool:
        now = self.state
        if now.run == 0:
            return True
        if now.status not in CLOSED:
            return False
        if self.belief.told < now.closed:
            raise Refused("run_closed")
        return True

    def open_run(self) -> None:
        now = self.state
        self.state = TaskState(
            workspace=now.workspace,
            task=now.task,
            seq=now.seq,
            run=now.run + 1,
            opened=now.seq + 1,
            checkpoint=now.checkpoint,
            states=now.states,
            checkpoints=now.checkpoints,
            pruned=now.pruned,
            dead=now.dead,
            beliefs=now.beliefs,
        )
        self.believe(run=self.state.run, told=0, state={})

    def enter(self) -> None:
        """Let the caller be in the run that goes on."""
        self.state = replace(
            self.state,
            beliefs={**self.state.beliefs, self.call.caller: self.belief.in_run(self.state.run)},
        )

    def require_open_run(self) -> None:
        if self.state.status in CLOSED:
            raise Refused("run_closed")

    def record(self, *, goes_on: bool = False, is_finish: bool = False) -> None:
        """Count one record, with what every record does to the status."""
        now = self.state
        status = now.status
        laid_down = status in ("paused", "failed") and not now.paused_by_person
        if not is_finish and (status == "waiting" or (goes_on and laid_down)):
            status = "active"
        if status == "active" and now.open_questions():
            status = "waiting"
        seq = now.seq + 1
        self.change(seq=seq, status=status, states={**now.states, seq: now.state})

    def progress(self) -> Answer:
        steps = self.state.steps.values()
        return {
            "done": sum(step.status in FINISHED for step in steps),
            "failed": sum(step.status == "failed" for step in steps),
            "total": len(self.state.steps),
            "last_done": self.state.last_done,
        }

    def set_step(self, name: str, **changed: Any) -> None:
        step = replace(self.state.steps.get(name, Step()), **changed)
        self.change(steps={**self.state.steps, name: step})

    def key(self, name: str) -> str:
        now = self.state
        reopened = now.steps.get(name, Step()).reopened
        parts = (now.workspace, now.task, now.run, name, reopened)
        return sha256("\x00".join(map(str, parts)).encode()).hexdigest()[:32]

    # --- the state ----------------------------------------------------------------------------

    def merge(
        self,
        patch: Mapping[str, Any] | None,
        append: Mapping[str, Any] | None,
        revision: int,
        opens: bool,
    ) -> tuple[State, list[str]]:
        """Merge a caller's values into the state; gives the new state and what did not make it."""
        now, belief = self.state, self.belief.in_run(self.state.run)
        current = dict(now.state)
        knows = opens or patch is not None or belief.state is not None
        if opens:
            base: State = {}
        elif revision:
            base = now.states[revision]
        elif belief.state is not None:
            base = belief.state
        elif patch is not None and now.newest_save:
            raise Refused("load_first")
        else:
            base = {} if patch is not None else current
        believed, conflicts = dict(base), list[str]()
        for key, value in (patch or {}).items():
            wanted = _NOTHING if value is None else value
            old, there = base.get(key, _NOTHING), current.get(key, _NOTHING)
            if wanted is _NOTHING:
                believed.pop(key, None)
            else:
                believed[key] = wanted
            if there == wanted:
                continue
            if there == old:
                current.pop(key, None)
                if wanted is not _NOTHING:
                    current[key] = wanted
            else:
                conflicts.append(f"/state/{key}")
        for key, items in (append or {}).items():
            current[key] = [*current.get(key, ()), *items]
            believed[key] = [*believed.get(key, ()), *items]
        if knows:
            self.believe(state=believed, run=now.run)
        return current, sorted(conflicts)

    def has_clash(self, patch: Mapping[str, Any] | None, base: State, current: State) -> bool:
        """Say whether both sides changed a value: a save that lost one is kept as a save."""
        for key, value in (patch or {}).items():
            wanted = _NOTHING if value is None else value
            old, there = base.get(key, _NOTHING), current.get(key, _NOTHING)
            if there not in (wanted, old) and wanted != old:
                return True
        return False


# --- what agents do ---------------------------------------------------------------------------


def _save(
    now: _Task,
    state: Mapping[str, Any] | None = None,
    append: Mapping[str, Any] | None = None,
    plan: tuple[str, ...] | list[str] = (),
    revision: int = 0,
) -> Answer:
    asked = repr((state, append, list(plan), revision))
    if now.belief.last_save and now.belief.last_save[0] == asked:
        return now.belief.last_save[1]
    is_pruned = now.state.pruned and now.call.answer == {"error": "invalid_value"}
    if revision and (revision < now.state.opened or is_pruned):
        now.believe(last_save=None)
        raise Refused("invalid_value")
    now.believe(last_save=None)
    if revision > now.belief.told:
        now.believe(told=revision, run=now.state.run, state=now.belief.in_run(now.state.run).state)
    opens = now.opens()
    if opens:
        now.open_run()
    belief = now.belief.in_run(now.state.run)
    base = now.state.states[revision] if revision and not opens else belief.state or {}
    clash = not opens and now.has_clash(state, base, now.state.state)
    value, conflicts = now.merge(state, append, revision, opens)
    now.enter()
    new_steps = [name for name in plan if name not in now.state.steps]
    is_ordered = list(now.state.steps) == list(plan)
    answer: Answer = {"run": now.state.run, "conflicts": conflicts}
    is_newest = now.state.newest_save == now.state.seq and value == now.state.saved
    if not opens and is_newest and not clash and not (plan and not is_ordered):
        answer |= {"checkpoint": now.state.checkpoint, "revision": now.state.seq}
    else:
        number = now.state.checkpoint + 1
        if new_steps or plan:
            steps = {name: now.state.steps.get(name, Step()) for name in plan}
            now.change(steps=steps)
        now.change(
            state=value,
            saved=value,
            checkpoint=number,
            checkpoints={**now.state.checkpoints, number: value},
        )
        now.record(goes_on=True)
        now.change(newest_save=now.state.seq)
        answer |= {"checkpoint": number, "revision": now.state.seq}
    now.believe(last_save=(asked, answer))
    return answer


def _mark(
    now: _Task,
    step: str,
    result: Any = None,
    outcome: str = "done",
    claim: str = "",
    state: Mapping[str, Any] | None = None,
    append: Mapping[str, Any] | None = None,
) -> Answer:
    now.believe(last_save=None)
    known = now.state.steps.get(step, Step())
    try:
        opens = now.opens()
    except Refused:
        if known.status not in FINISHED or known.status not in ("done", outcome):
            raise
        opens = False
    if not opens and known.status in FINISHED:
        if known.status == outcome:
            return _already_marked(now, step, result)
        if known.status == "done":
            raise Refused("step_done")
    if opens:
        now.open_run()
        known = Step()
    elif step in now.state.steps:
        _refuse_foreign_claim(now, step, known, claim)
    conflicts: list[str] = []
    if state is not None or append:
        value, conflicts = now.merge(state, append, 0, opens)
        now.change(state=value)
    now.enter()
    attempts = known.attempts + (not known.claim)
    now.set_step(step, status=outcome, result=result, attempts=attempts, claim="", holder="")
    if outcome == "done":
        now.change(last_done=step)
    now.record(goes_on=True)
    _forget_claim(now, step)
    return _marked(now, step) | {
        "already_done": False,
        "result": result,
        "conflicts": conflicts,
    }


def _already_marked(now: _Task, step: str, result: Any) -> Answer:
    now.enter()
    _forget_claim(now, step)
    first = now.state.steps[step].result
    more: Answer = {"already_done": True, "result": first, "differs": first != result}
    return _marked(now, step) | more | {"conflicts": list[str]()}


def _marked(now: _Task, step: str) -> Answer:
    pending = (name for name, each in now.state.steps.items() if each.status == "pending")
    return {
        "outcome": now.state.steps[step].status,
        "progress": now.progress(),
        "next_step": next(pending, ""),
        "revision": now.state.seq,
    }


def _forget_claim(now: _Task, step: str) -> None:
    claims = {name: claim for name, claim in now.belief.claims.items() if name != step}
    now.believe(claims=claims)


def _refuse_foreign_claim(now: _Task, step: str, known: Step, claim: str) -> None:
    if known.claim:
        if (claim or now.belief.claims.get(step, "")) != known.claim:
            raise Refused("claim_replaced")
        return
    if known.status == "pending" and not (claim and known.cleared):
        return
    if claim and known.status != "failed":
        raise Refused("claim_replaced")
    if known.status == "in_doubt":
        raise Refused("in_doubt")


def _begin(now: _Task, step: str, claim: str = "", retry: bool = False) -> Answer:
    now.believe(last_save=None)
    opens = now.opens()
    if not step:
        step = "" if opens else _next_free(now)
    if not step:
        return {"go": False, "status": "nothing_left", "step": "", "revision": now.state.seq}
    if not opens and now.state.paused_by_person:
        return {"go": False, "status": "paused", "step": step, "revision": now.state.seq}
    known = Step() if opens else now.state.steps.get(step, Step())
    status = "pending" if opens else now.state.status_of(step)
    answer: Answer = {"step": step, "go": False, "status": status, "attempts": known.attempts}
    if status in FINISHED:
        return answer | {"result": known.result, "revision": now.state.seq, "key": now.key(step)}
    if status == "running" and claim != known.claim:
        return answer | {"revision": now.state.seq, "key": now.key(step)}
    if opens:
        now.open_run()
    looks = status == "in_doubt" and not retry
    if status == "in_doubt" and retry:
        given = claim or now.belief.claims.get(step, "")
        if not known.claim or given != known.claim:
            raise Refused("claim_replaced")
    new = known.claim if status == "running" or (status == "in_doubt" and retry) else ""
    new = new or now.told("claim")
    attempts = known.attempts + (status != "running" and not looks)
    now.set_step(
        step,
        status="in_doubt" if looks else "running",
        attempts=attempts,
        claim=new,
        holder=now.call.process,
    )
    now.record(goes_on=True)
    now.enter()
    now.believe(claims={**now.belief.claims, step: new})
    return {
        "step": step,
        "go": not looks,
        "status": "in_doubt" if looks else "running",
        "attempts": attempts,
        "claim": new,
        "key": now.key(step),
        "revision": now.state.seq,
    }


def _next_free(now: _Task) -> str:
    for wanted in ("pending", "failed"):
        for name, step in now.state.steps.items():
            if step.status == wanted:
                return name
    return ""


def _load(now: _Task) -> Answer:
    if now.state.run == 0:
        return {"found": False}
    state = now.state
    now.believe(run=state.run, told=state.seq, state=state.state, last_save=None)
    names = list(state.steps)
    return {
        "found": True,
        "run": state.run,
        "revision": state.seq,
        "checkpoint": state.checkpoint,
        "status": state.status,
        "state": dict(state.state),
        "progress": now.progress(),
        "in_doubt": sorted(name for name in names if state.status_of(name) == "in_doubt"),
        "running": sorted(name for name in names if state.status_of(name) == "running"),
        "questions": sorted([name, answer] for name, answer in state.questions.values()),
    }


def _look_at(now: _Task, checkpoint: int) -> Answer:
    if now.state.pruned and now.call.answer == {"error": "pruned"}:
        return {"error": "pruned"}
    if checkpoint not in now.state.checkpoints:
        raise Refused("unknown")
    return {"state": dict(now.state.checkpoints[checkpoint])}


def _list_steps(now: _Task) -> Answer:
    state = now.state
    return {
        "steps": [
            [name, state.status_of(name), step.attempts, step.result]
            for name, step in state.steps.items()
        ]
    }


def _list_tasks(now: _Task) -> Answer:
    if now.state.run == 0:
        return {"tasks": []}
    return {"tasks": [[now.state.status, now.progress()]]}


def _finish(now: _Task, outcome: str, by_person: bool = False) -> Answer:
    if not by_person:
        now.believe(last_save=None)
    state = now.state
    is_so = state.status in CLOSED or state.paused_by_person >= by_person
    if not (state.status == outcome and is_so):
        now.require_open_run()
        if outcome == "done" and (state.unfinished() or state.open_questions()):
            raise Refused("unfinished")
        now.record(is_finish=True)
        is_laid_down = outcome in ("paused", "failed")
        paused = outcome == "paused" and by_person
        now.change(
            status=outcome,
            closed=now.state.seq if outcome in CLOSED else 0,
            paused_by_person=paused or (state.paused_by_person and is_laid_down),
        )
    return {
        "run": now.state.run,
        "status": now.state.status,
        "unfinished": sorted(now.state.unfinished()),
        "revision": now.state.seq,
    }


def _ask(now: _Task, question: str) -> Answer:
    now.believe(last_save=None)
    if now.opens():
        now.open_run()
    if question not in now.state.questions:
        name = f"q{len(now.state.questions) + 1}"
        now.change(questions={**now.state.questions, question: (name, None)})
        now.record()
    name, answer = now.state.questions[question]
    return {"question_id": name, "answer": answer, "revision": now.state.seq}


# --- what people decide -----------------------------------------------------------------------


def _answer(now: _Task, question: str, answer: Any) -> Answer:
    now.require_open_run()
    found = [text for text, (name, _) in now.state.questions.items() if name == question]
    if not found:
        raise Refused("unknown")
    if now.state.questions[found[0]][1] != answer:
        now.change(questions={**now.state.questions, found[0]: (question, answer)})
        now.record()
    return {"question_id": question, "answer": answer, "revision": now.state.seq}


def _resolve(now: _Task, step: str, happened: bool, result: Any = None) -> Answer:
    now.require_open_run()
    status = now.state.status_of(step)
    if status != "in_doubt":
        if status == ("done" if happened else "pending") and step in now.state.steps:
            return {"revision": now.state.seq}
        raise Refused("unknown")
    now.set_step(step, status="done" if happened else "pending", cleared=True, claim="", holder="")
    if happened:
        now.set_step(step, result=result)
        now.change(last_done=step)
    now.record()
    return {"revision": now.state.seq}


def _reopen(now: _Task, step: str) -> Answer:
    now.require_open_run()
    if step not in now.state.steps:
        raise Refused("unknown")
    known = now.state.steps[step]
    if known.status in ("running", "in_doubt"):
        raise Refused("in_doubt")
    if known.status != "pending":
        now.set_step(
            step,
            status="pending",
            attempts=0,
            reopened=known.reopened + 1,
            cleared=True,
            result=None,
        )
        now.record()
    return {"revision": now.state.seq}


def _release(now: _Task, step: str) -> Answer:
    now.require_open_run()
    if not now.state.steps.get(step, Step()).claim:
        raise Refused("unknown")
    now.set_step(step, status="in_doubt", claim="", holder="")
    now.record()
    return {"revision": now.state.seq}


def _pause(now: _Task) -> Answer:
    return {"revision": _finish(now, "paused", by_person=True)["revision"]}


def _go_on(now: _Task) -> Answer:
    now.require_open_run()
    if now.state.status in ("paused", "failed"):
        now.record(is_finish=True)
        waits = bool(now.state.open_questions())
        now.change(status="waiting" if waits else "active", paused_by_person=False)
    return {"revision": now.state.seq}


def _prune(now: _Task) -> Answer:
    """Let old checkpoints go. It takes a while: from its first moment on they may be gone."""
    now.change(pruned=True)
    if now.call.answer is None or now.call.answer.get("removed"):
        now.change(seq=now.state.seq + 1)
        now.change(states={**now.state.states, now.state.seq: now.state.state})
    return {}


def _die(now: _Task, process: str) -> Answer:
    now.change(dead=now.state.dead | {process})
    return {}


_OPERATIONS: dict[str, Callable[..., Answer]] = {
    "save": _save,
    "mark": _mark,
    "begin": _begin,
    "load": _load,
    "look_at": _look_at,
    "list_steps": _list_steps,
    "list_tasks": _list_tasks,
    "finish": _finish,
    "ask": _ask,
    "answer": _answer,
    "resolve": _resolve,
    "reopen": _reopen,
    "release": _release,
    "pause": _pause,
    "go_on": _go_on,
    "prune": _prune,
    "die": _die,
}
_NEEDS_TASK = frozenset(
    {
        *("look_at", "list_steps", "finish", "answer", "resolve", "reopen", "release"),
        *("pause", "go_on", "prune"),
    }
)
