"""Move a fold forward over what happened: one handler for each operation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast_storage.core import delta, ids, ordering, strict_json
from holdfast_storage.core.brief import is_person
from holdfast_storage.core.fold import (
    CHANGES_KEPT,
    CLOSED,
    FINISHED,
    STATE,
    VALUES_NOTED,
    Changed,
    Checkpoint,
    Claim,
    Conflict,
    Fold,
    IngestedEdit,
    Question,
    Step,
)
from holdfast_storage.core.records import DamagedLine, Entry, Record
from holdfast_storage.core.snapshot import Snapshot
from holdfast_storage.core.strict_json import JsonObject, pointer
from holdfast_storage.core.times import moment

# Housekeeping is no sign of life of the task itself.
_UPKEEP = frozenset({"pin", "prune", "restore", "acknowledge"})
# What a damaged line of these operations says is no news of any step.
_STEPLESS = frozenset({"save", "ask", "answer", "finish", "fork", "write"}) | _UPKEEP
# A gap wider than this is damage of another kind: its seqs are not waited for one by one.
_MISSING_KEPT = 10_000
_PLAN_NOTED = 50


def advance(fold: Fold, entries: Iterable[Entry]) -> None:
    """Take in what happened since; entries seen before are passed over."""
    for entry in entries:
        if isinstance(entry, DamagedLine):
            _take_damage(fold, entry)
        elif entry.seq > fold.seq - fold.unsure:
            _take_next(fold, entry)
        elif entry.seq in fold.missing:
            # Two lines changed places: late is better than lost.
            fold.missing.discard(entry.seq)
            _take(fold, entry, late=True)


def _take_next(fold: Fold, record: Record) -> None:
    believed = fold.seq - fold.unsure
    # A damaged line may have shown any seq: what follows it tells better where the journal is.
    expected = believed + 2 if fold.unsure and record.seq <= fold.seq else fold.seq + 1
    if record.seq > expected:
        _take_gap(fold, expected, record)
    _take(fold, record)
    fold.seq, fold.last_id, fold.unsure = record.seq, record.id, 0


def _take(fold: Fold, record: Record, *, late: bool = False) -> None:
    if record.opens and late:
        fold.run, fold.opened_seq = record.body.get("run", 1), record.seq
        fold.run_guessed = False
    elif record.opens:
        _open_run(fold, record)
    if record.boot:
        fold.boots[record.boot] = record.at
    handler = _HANDLERS.get(record.op)
    if handler is None:
        _problem(fold, f"record {record.seq} has the unknown operation {record.op!r}")
        return
    try:
        handler(fold, record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # The crc is right, so a program wrote it, yet it does not fit what was before it.
        _problem(fold, f"record {record.seq} ({record.op}) does not fit: {error}")
        fold.needs_full = True
    if record.op not in _UPKEEP:
        fold.updated_at, fold.updated_by = record.at, record.by


def _take_damage(fold: Fold, damage: DamagedLine) -> None:
    if damage.place.offset == 0 and (fold.run == 0 or fold.is_closed):
        # A run's first record is the first of a segment: this was one, or nothing is known at all.
        _start_fresh(fold, fold.run + 1, fold.checkpoint, fold.seq + 1)
    if damage.op in ("", "save") and not _has_readable_save(fold):
        fold.state_lost = True
    _problem(
        fold,
        f"journal/{damage.place.segment:06d}.jsonl, byte {damage.place.offset}: {damage.problem}",
    )
    fold.needs_full = True
    is_new = damage.seq is None or damage.seq > fold.seq
    if is_new:
        seq = fold.seq + 1 if damage.seq is None else damage.seq
        is_gap = seq > fold.seq + 1
        fold.unsure, fold.seq = fold.unsure + seq - fold.seq, seq
        if damage.op == "save" or damage.checkpoint == fold.checkpoint + 1:
            _lose_checkpoint(fold, damage)
        if is_gap or not (damage.step or damage.op in _STEPLESS):
            fold.doubts_all = True
    if damage.step:
        _doubt(fold, damage.step, is_new=is_new)


def _has_readable_save(fold: Fold) -> bool:
    return any(kept.readable and kept.run == fold.run for kept in fold.checkpoints.values())


def _doubt(fold: Fold, name: str, *, is_new: bool) -> None:
    """Doubt a step; by a line whose seq came before, only if nobody has settled it since."""
    step = _step_named(fold, name)
    if is_new or (step.status == "pending" and not step.cleared):
        _set_status(fold, name, step, "in_doubt")


def _take_gap(fold: Fold, first: int, record: Record) -> None:
    found = record.seq
    if fold.is_closed and not record.opens and record.op not in _UPKEEP:
        # Nothing else follows the end of a run: the record that opened the next one is missing.
        _start_fresh(fold, fold.run + 1, fold.checkpoint, first)
        fold.state_lost = fold.run_guessed = True
    _problem(fold, f"records {first} to {found - 1} are missing")
    fold.doubts_all = True
    fold.needs_full = True
    if fold.run == 0:
        # The beginning is missing, so there was one: a task that is damaged, not a new one.
        fold.run, fold.state_lost, fold.run_guessed = 1, True, True
    if found - first <= _MISSING_KEPT:
        fold.missing.update(range(first, found))


def _problem(fold: Fold, text: str) -> None:
    fold.is_damaged = True
    if len(fold.problems) < 20:
        fold.problems.append(text)


def _lose_checkpoint(fold: Fold, damage: DamagedLine) -> None:
    # The number is not believed either: it can only have been the next one.
    fold.checkpoint += 1
    lost = Checkpoint(fold.checkpoint, fold.seq, "", "", damage.place, fold.run, readable=False)
    fold.checkpoints[fold.checkpoint] = lost


# --- runs -------------------------------------------------------------------------------------


def _open_run(fold: Fold, record: Record) -> None:
    before = record.body.get("checkpoint_before", 0)
    _start_fresh(fold, record.body.get("run", 1), before, record.seq)


def _start_fresh(fold: Fold, run: int, checkpoint: int, seq: int) -> None:
    """Begin a run as a reader would whose first record this is."""
    fresh = Fold(fold.task)
    stays = {"task", "seq", "keeps_history"}
    if fold.keeps_history:
        stays |= {"checkpoints", "changes"}
    for name in Fold.__slots__:
        if name not in stays:
            setattr(fold, name, getattr(fresh, name))
    fold.run, fold.checkpoint, fold.opened_seq = run, checkpoint, seq


# --- steps ------------------------------------------------------------------------------------


def _step_named(fold: Fold, name: str) -> Step:
    step = fold.steps.get(name)
    if step is None:
        step = fold.steps[name] = Step()
        fold.counts["pending"] = fold.counts.get("pending", 0) + 1
        fold.order.append(name)
        fold.unfinished[name] = fold.pending[name] = None
        fold.alike.setdefault(ids.resembles(name), name)
    return step


def _set_status(fold: Fold, name: str, step: Step, status: str) -> None:
    if step.status != status:
        fold.counts[step.status] -= 1
        fold.counts[status] = fold.counts.get(status, 0) + 1
        was_finished, step.status = step.status in FINISHED, status
        fold.pending.pop(name, None)
        if status in FINISHED:
            fold.unfinished.pop(name, None)
        elif was_finished or status == "pending":
            _list_unfinished(fold)
    if status != "running":
        fold.claims.pop(name, None)


def _list_unfinished(fold: Fold) -> None:
    fold.unfinished = OrderedDict(
        (name, None) for name in fold.order if fold.steps[name].status not in FINISHED
    )
    fold.pending = OrderedDict(
        (name, None) for name in fold.unfinished if fold.steps[name].status == "pending"
    )


def _take_plan(fold: Fold, names: Iterable[str]) -> None:
    wanted = list(names)
    before = len(fold.order)
    for name in wanted:
        _step_named(fold, name)
    fold.order = ordering.reorder(fold.order[:before], wanted)
    _list_unfinished(fold)


def _reopen_step(fold: Fold, name: str, record: Record) -> None:
    step = _step_named(fold, name)
    _note_step(fold, record, name, step.status, "pending")
    step.reopened += 1
    step.attempts = 0
    step.cleared = True
    step.at, step.by, step.place = record.at, record.by, None
    _set_status(fold, name, step, "pending")


# --- the state --------------------------------------------------------------------------------


def _change_state(
    fold: Fold,
    record: Record,
    new: Snapshot,
    grown_by: int,
    changes: delta.Changes | None = None,
) -> None:
    """Put another state in the place of this one; `changes` are what made it of this one, if known."""
    _note_state(fold, record, new, changes)
    if fold.edited_paths and record.op != "edit":
        _forget_overwritten(fold, new.value)
    fold.snapshot, fold.state_seq = new, record.seq
    fold.state_bytes += grown_by


def _note_state(fold: Fold, record: Record, new: Snapshot, changes: delta.Changes | None) -> None:
    old = fold.snapshot
    noted: list[delta.Difference] | None = None
    if record.op == "edit":
        # Every value counts: which is newer decides between two of them.
        noted = delta.differences(old.value, new.value)
    elif changes is not None or is_person(record.by):
        noted = delta.few_differences(old.value, new.value, VALUES_NOTED, changes)
        if noted is None and is_person(record.by):
            noted = delta.key_differences(old.value, new.value)[-CHANGES_KEPT:]
    if noted is None:
        _note_whole_states(fold, record, old, new)
        return
    for each in noted:
        _note(fold, record, STATE + each.path, each.old, each.new)


def _note_whole_states(fold: Fold, record: Record, old: Snapshot, new: Snapshot) -> None:
    """Note all that differs as one change: nobody may ever ask what it was."""
    if not (old.is_empty and new.is_empty):
        size = record.place.length
        states = old.raw or old.value, new.raw or new.value
        fold.changes.add(Changed(record.seq, record.id, record.by, STATE, *states, size))


def _forget_overwritten(fold: Fold, new: JsonObject) -> None:
    """Of a value that somebody wrote over it is no longer asked when a person wrote it."""
    for edited in [path for path in fold.edited_paths if path.startswith(f"{STATE}/")]:
        steps = delta.path_of(edited.removeprefix(STATE))
        if not strict_json.same(delta.at(fold.state, steps), delta.at(new, steps)):
            del fold.edited_paths[edited]


def _note(fold: Fold, record: Record, path: str, old: Any, new: Any) -> None:
    fold.changes.add(Changed(record.seq, record.id, record.by, path, old, new))
    if is_person(record.by):
        fold.person_seq = max(fold.person_seq, record.seq)
    if record.op == "edit":
        fold.edited_paths[path] = record.body["mtime_ns"]
    else:
        fold.edited_paths.pop(path, None)


def _apply_changes(fold: Fold, record: Record) -> None:
    changes = record.body.get("changes")
    if changes and not fold.state_pruned:
        new = Snapshot(delta.apply(fold.state, changes))
        _change_state(fold, record, new, record.place.length, changes)
        fold.changes_bytes += record.place.length


def _set_text(fold: Fold, record: Record, name: str) -> None:
    old, new = getattr(fold, name), record.body[name]
    if old != new:
        _note(fold, record, f"/{name}", old, new)
        setattr(fold, name, new)


# --- what several operations share ------------------------------------------------------------


def _take_common(fold: Fold, record: Record) -> None:
    """Take in the fields that several operations share."""
    body = record.body
    if "goal" in body:
        _set_text(fold, record, "goal")
    if "next" in body:
        _set_text(fold, record, "next")
    for ref in body.get("refs", ()):
        fold.refs[ref["ref"]] = ref
    for lost in body.get("conflicts", ()):
        fold.conflicts[lost["id"]] = Conflict(
            id=lost["id"],
            path=lost["path"],
            kept_by=lost["kept_by"],
            lost_by=lost["lost_by"],
            file=lost["file"],
            at=record.at,
        )
    if fold.status != "active" or fold.questions:
        _set_task_status(fold, record)


def _set_task_status(fold: Fold, record: Record) -> None:
    if fold.status == "waiting" or _agents_pause_ends(fold, record):
        fold.status = "active"
    _wait_if_asked(fold)


def _agents_pause_ends(fold: Fold, record: Record) -> bool:
    going_on = record.op in ("save", "done", "begin", "write")
    return going_on and fold.status in ("paused", "failed") and not fold.paused_by_person


def _wait_if_asked(fold: Fold) -> None:
    if fold.status == "active" and any(q.answer is None for q in fold.questions.values()):
        fold.status = "waiting"


# --- one handler for each operation -----------------------------------------------------------


def _save(fold: Fold, record: Record) -> None:
    body = record.body
    if fold.run_guessed:
        fold.run, fold.run_guessed = body["run"], False
    if body["run"] != fold.run:
        _open_run(fold, record)
        _problem(fold, f"the record that opened run {fold.run} is missing")
        fold.doubts_all = True
    number = body["checkpoint"]
    kept = Checkpoint(
        number=number,
        seq=record.seq,
        at=record.at,
        by=record.by,
        place=record.place,
        run=fold.run,
        label=body.get("label", ""),
        milestone=body.get("milestone", False),
        pinned=body.get("pinned", False)
        or (number in fold.checkpoints and fold.checkpoints[number].pinned),
        leans_on=body.get("from", 0),
        pruned="pruned" in body,
        digest=body.get("digest", ""),
        restored_from=body.get("restored_from", 0),
    )
    fold.checkpoints[number] = kept
    _plan_and_total(fold, record)
    _take_common(fold, record)
    if number < fold.checkpoint and _is_outlived(fold, number):
        return
    fold.checkpoint = max(fold.checkpoint, number)
    fold.state_pruned = kept.pruned
    if kept.pruned:
        fold.needs_full = True
    else:
        _take_saved_state(fold, record, kept)


def _is_outlived(fold: Fold, number: int) -> bool:
    """Say whether a save that was found late is older than one whose state is there."""
    return any(kept.readable for kept in fold.checkpoints.values() if kept.number > number)


def _plan_and_total(fold: Fold, record: Record) -> None:
    if "plan" in record.body:
        _take_plan(fold, record.body["plan"])
    fold.total = record.body.get("total", fold.total)


def _take_saved_state(fold: Fold, record: Record, kept: Checkpoint) -> None:
    size = record.place.length
    if not kept.leans_on:
        state = record.body["state"]
        if not (isinstance(state, Snapshot) or strict_json.is_object(state)):
            kept.readable = False
            raise TypeError("its state is no object")
        new = Snapshot.of(state)
        kept.state_bytes = len(new.raw)
        _change_state(fold, record, new, 0)
        fold.state_bytes, fold.full_bytes, fold.changes_bytes = size, size, 0
        fold.needs_full = fold.state_lost = False
    else:
        leaned_on = fold.checkpoints.get(kept.leans_on)
        is_there = leaned_on is not None and leaned_on.readable and not leaned_on.pruned
        if not is_there or kept.leans_on != kept.number - 1:
            kept.readable = False
            fold.state_lost = fold.state_lost or fold.state_pruned
            raise ValueError(f"checkpoint {kept.leans_on}, which it leans on, is not there")
        changes = record.body.get("changes", {})
        is_direct = fold.snapshot is fold.checkpoint_snapshot
        new = Snapshot(delta.apply(fold.checkpoint_state, changes))
        _change_state(fold, record, new, size, changes if is_direct else None)
        fold.changes_bytes += size
    fold.checkpoint_snapshot = fold.snapshot


def _done(fold: Fold, record: Record) -> None:
    name = record.body["step"]
    outcome = record.body.get("outcome", "done")
    step = _step_named(fold, name)
    if name not in fold.claims:
        step.attempts += 1
    step.at, step.by, step.place = record.at, record.by, record.place
    _set_status(fold, name, step, outcome)
    if outcome == "done":
        fold.last_done = name
    fold.recent_steps.append((name, record.at, record.by))
    _apply_changes(fold, record)
    _take_common(fold, record)


def _begin(fold: Fold, record: Record) -> None:
    name = record.body["step"]
    step = _step_named(fold, name)
    step.at, step.by = record.at, record.by
    if record.body.get("looking"):
        # Somebody who looks whether it happened has not begun it again.
        _set_status(fold, name, step, "in_doubt")
    else:
        _set_status(fold, name, step, "running")
        step.attempts += not record.body.get("renewed", False)
    fold.claims[name] = Claim(
        id=record.body["claim"],
        by=record.by,
        process=record.body["process"],
        at=record.at,
        until=moment(record.body["until"]),
    )
    _take_common(fold, record)


def _release(fold: Fold, record: Record) -> None:
    name = record.body["step"]
    _set_status(fold, name, _step_named(fold, name), "in_doubt")
    _take_common(fold, record)


def _resolve(fold: Fold, record: Record) -> None:
    name = record.body["step"]
    step = _step_named(fold, name)
    was = step.status
    step.at, step.by, step.cleared = record.at, record.by, True
    if record.body["happened"]:
        step.place = record.place
        fold.last_done = name
        _set_status(fold, name, step, "done")
        fold.recent_steps.append((name, record.at, record.by))
    else:
        _set_status(fold, name, step, "pending")
    _note_step(fold, record, name, was, step.status)
    _take_common(fold, record)


def _note_step(fold: Fold, record: Record, name: str, was: str, status: str) -> None:
    _note(fold, record, "/plan" + pointer([name]), was, status)


def _reopen(fold: Fold, record: Record) -> None:
    for name in record.body["steps"]:
        _reopen_step(fold, name, record)
    _take_common(fold, record)


def _edit(fold: Fold, record: Record) -> None:
    body = record.body
    fold.edits.setdefault(body["base"], []).append(
        IngestedEdit(record.seq, body["base"], body["digest"], body["mtime_ns"], record.place)
    )
    _apply_changes(fold, record)
    if "plan" in body:
        _note(fold, record, "/plan", list(fold.unfinished)[:_PLAN_NOTED], body["plan"])
        _take_plan(fold, body["plan"])
    for name in body.get("reopen", ()):
        _reopen_step(fold, name, record)
    for name, status in body.get("steps", {}).items():
        _edit_step(fold, record, name, status)
    _answer_all(fold, record, body.get("answers", {}))
    fold.extra = body.get("extra", fold.extra)
    fold.edit_warnings = list(body.get("warnings", ()))
    _take_common(fold, record)
    if "status" in body:
        _edit_status(fold, record, body["status"])


def _edit_step(fold: Fold, record: Record, name: str, status: str) -> None:
    step = _step_named(fold, name)
    was = step.status
    step.at, step.by, step.cleared = record.at, record.by, True
    if status in FINISHED or status == "failed":
        step.place = record.place
    if status == "done":
        fold.last_done = name
        fold.recent_steps.append((name, record.at, record.by))
    _set_status(fold, name, step, status)
    if was != status:
        _note_step(fold, record, name, was, status)


def _edit_status(fold: Fold, record: Record, status: str) -> None:
    _set_run_status(fold, record, status)
    fold.paused_by_person = status == "paused"
    _wait_if_asked(fold)


def _set_run_status(fold: Fold, record: Record, status: str) -> None:
    _note(fold, record, "/status", fold.status, status)
    fold.status = status
    fold.finished_by = record.by
    fold.closed_seq = record.seq if status in CLOSED else 0


def _ask(fold: Fold, record: Record) -> None:
    _put_question(fold, record, record.body)
    _take_common(fold, record)


def _put_question(fold: Fold, record: Record, asked: Mapping[str, Any]) -> None:
    fold.questions[asked["question_id"]] = Question(
        id=asked["question_id"],
        question=asked["question"],
        options=tuple(asked.get("options", ())),
        step=asked.get("step", ""),
        asked_at=record.at,
        asked_by=record.by,
        expires_at=asked.get("expires_at", ""),
    )


def _write(fold: Fold, record: Record) -> None:
    """Take in what a node of a graph wrote; only what it asks and answers concerns the task."""
    _answer_all(fold, record, record.body.get("answers", {}))
    for asked in record.body.get("asks", ()):
        _put_question(fold, record, asked)
    _take_common(fold, record)


def _answer(fold: Fold, record: Record) -> None:
    _answer_all(fold, record, {record.body["question_id"]: record.body["answer"]})
    _take_common(fold, record)


def _answer_all(fold: Fold, record: Record, answers: Mapping[str, Any]) -> None:
    for question_id, answer in answers.items():
        question = fold.questions[question_id]
        path = "/questions" + pointer([question_id]) + "/answer"
        _note(fold, record, path, question.answer, answer)
        question.answer, question.answered_by = answer, record.by


def _finish(fold: Fold, record: Record) -> None:
    _take_common(fold, record)
    _set_run_status(fold, record, record.body["outcome"])
    fold.summary = record.body.get("summary", "")
    # An agent that gives up does not end a person's pause.
    is_laid_down = fold.status in ("paused", "failed")
    by_person = fold.status == "paused" and record.body.get("by_person", False)
    fold.paused_by_person = by_person or (fold.paused_by_person and is_laid_down)
    _wait_if_asked(fold)


def _fork(fold: Fold, record: Record) -> None:
    """Stand still where another task stood: nobody is at work on a copy, so what ran is in doubt."""
    for name in list(fold.claims):
        _set_status(fold, name, _step_named(fold, name), "in_doubt")
    _take_common(fold, record)
    _edit_status(fold, record, "paused")


def _pin(fold: Fold, record: Record) -> None:
    number = record.body["checkpoint"]
    if number in fold.checkpoints:
        fold.checkpoints[number].pinned = record.body["pinned"]


def _prune(fold: Fold, record: Record) -> None:
    # Which saves are pruned their lines say, as they are now: a later prune or restore may have been
    # interrupted before it could record itself. Whoever read the lines before reads them again.
    fold.rewritten = True
    fold.needs_full = fold.needs_full or fold.checkpoint in record.body["checkpoints"]


def _restore(fold: Fold, record: Record) -> None:
    fold.rewritten = True


def _acknowledge(fold: Fold, record: Record) -> None:
    for conflict_id in record.body.get("acknowledged", ()):
        fold.conflicts.pop(conflict_id, None)
    if record.body.get("damage"):
        fold.is_damaged = fold.doubts_all = False
        fold.problems.clear()
        fold.missing.clear()


_HANDLERS: dict[str, Callable[[Fold, Record], None]] = {
    "save": _save,
    "done": _done,
    "begin": _begin,
    "release": _release,
    "resolve": _resolve,
    "reopen": _reopen,
    "edit": _edit,
    "ask": _ask,
    "answer": _answer,
    "finish": _finish,
    "fork": _fork,
    "pin": _pin,
    "prune": _prune,
    "restore": _restore,
    "acknowledge": _acknowledge,
    "write": _write,
}
