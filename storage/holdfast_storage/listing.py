"""Pages of tasks, checkpoints, steps and events: nothing is read that is not shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from pydantic import ValidationError

from holdfast_storage.core import view
from holdfast_storage.core.decide.context import require_task
from holdfast_storage.core.errors import (
    MISFITS,
    HoldfastError,
    InvalidValue,
    JournalReplaced,
    Unknown,
)
from holdfast_storage.core.fold import Checkpoint, Fold, Step
from holdfast_storage.core.records import DamagedLine, Place, Record
from holdfast_storage.desk import Desk
from holdfast_storage.engines.base import Head
from holdfast_storage.results import CheckpointLine, Event, Listing, StepLine, TaskLine

_MOST = 200
_HEADS_AT_ONCE = 250
_CURSOR_DIGITS = 18
_SHOWN_IN_EVENT = (
    *("step", "outcome", "checkpoint", "label", "milestone", "run", "happened", "steps", "answers"),
    *("question_id", "answer", "status", "restored_from", "pinned", "checkpoints", "warnings"),
)


async def page(
    desk: Desk, task: str, *, show: str, status: str, limit: int, cursor: str
) -> Listing:
    """Give one page; `cursor` of the last one leads to the next."""
    if type(limit) is not int or not 1 <= limit <= _MOST:
        raise InvalidValue("limit", f"it must be from 1 to {_MOST}")
    if not task:
        return await _tasks(desk, status, limit, cursor)
    if show not in _SHOWS:
        raise InvalidValue("show", f"it must be one of {', '.join(_SHOWS)}")
    await desk.ask(task, require_task)
    return await _SHOWS[show](desk, task, status, limit, _number(cursor))


def _number(cursor: str) -> int:
    if not cursor:
        return 0
    if not cursor.isdecimal() or len(cursor) > _CURSOR_DIGITS:
        raise InvalidValue("cursor", "give the cursor of the page before")
    return int(cursor)


# --- tasks ------------------------------------------------------------------------------------


async def _tasks(desk: Desk, status: str, limit: int, cursor: str) -> Listing:
    found: list[TaskLine] = []
    while True:
        heads, cursor = await desk.engine.heads(cursor, limit - len(found))
        for head in heads:
            line = await line_of(desk, head)
            if not status or line.status == status:
                found.append(line)
        if not cursor or len(found) >= limit:
            return Listing(tasks=found, cursor=cursor)


async def all_tasks(desk: Desk) -> list[TaskLine]:
    """Give every task, the most recently touched first."""
    found = [await line_of(desk, head) async for head in all_heads(desk)]
    return sorted(found, key=lambda line: line.updated_at, reverse=True)


async def all_heads(desk: Desk) -> AsyncIterator[Head]:
    """Give every task as the engine knows it, writing nothing down."""
    async for heads in heads_in_portions(desk):
        for head in heads:
            yield head


async def heads_in_portions(desk: Desk) -> AsyncIterator[list[Head]]:
    """Give the same a few at a time: whoever holds no more needs no more memory for more tasks."""
    cursor = ""
    while True:
        heads, cursor = await desk.engine.heads(cursor, _HEADS_AT_ONCE)
        yield heads
        if not cursor:
            return


async def line_of(desk: Desk, head: Head) -> TaskLine:
    """Give a task's line: from its summary, else folded; what cannot be read says so."""
    if head.problem:
        return TaskLine(task=head.task, status="damaged", damaged=True, problem=head.problem)
    if head.summary is not None:
        # A file that somebody changed is not believed: the journal says it too.
        with suppress(ValidationError):
            return TaskLine.model_validate(head.summary)
    try:
        fold = await desk.fold_to(head.task)
        summary = view.summary(fold, desk.clock())
        line = TaskLine.model_validate(summary)
    except (HoldfastError, *MISFITS) as error:
        # One task that cannot be read must not hide the others.
        return TaskLine(task=head.task, status="damaged", damaged=True, problem=str(error))
    await desk.engine.note_head(head.task, fold.seq, summary)
    return line


# --- one task ---------------------------------------------------------------------------------


def find_checkpoint(fold: Fold, number: int) -> Checkpoint:
    """Find a checkpoint by its number."""
    kept = fold.checkpoints.get(number)
    if kept is None:
        there = [str(known) for known in sorted(fold.checkpoints, reverse=True)[:5]]
        raise Unknown("checkpoint", str(number), there)
    return kept


async def _checkpoints(desk: Desk, task: str, status: str, limit: int, after: int) -> Listing:
    history = await desk.fold_to(task, history=True)
    numbers = [
        number
        for number in sorted(history.checkpoints, reverse=True)
        if not after or number < after
    ]
    shown = [_checkpoint(history.checkpoints[number]) for number in numbers[:limit]]
    cursor = str(shown[-1].checkpoint) if len(numbers) > limit else ""
    return Listing(task=task, checkpoints=shown, cursor=cursor)


def _checkpoint(kept: Checkpoint) -> CheckpointLine:
    return CheckpointLine(
        checkpoint=kept.number,
        label=kept.label,
        milestone=kept.milestone,
        at=kept.at,
        by=kept.by,
        bytes=kept.place.length,
        pinned=kept.pinned,
        run=kept.run,
        restored_from=kept.restored_from,
        available=kept.readable and not kept.pruned,
    )


async def _steps(desk: Desk, task: str, status: str, limit: int, after: int) -> Listing:
    def of(fold: Fold) -> tuple[list[tuple[str, str, Step]], int, int]:
        now, gone = desk.clock(), desk.gone(fold)
        found: list[tuple[str, str, Step]] = []
        position = after
        for name in islice(fold.order, after, None):
            if len(found) == limit:
                return found, position, fold.seq
            position += 1
            at_present = fold.status_of(name, now, gone)
            if not status or at_present == status:
                # A copy: by the time its result is read, the step may be another.
                found.append((name, at_present, replace(fold.steps[name])))
        return found, 0, fold.seq

    found, position, revision = await desk.ask(task, of, is_light=False)
    lines = [
        StepLine(
            step=name,
            status=at_present,
            attempts=step.attempts,
            at=step.at,
            by=step.by,
            **await _details(desk, task, name, step.place, revision),
        )
        for name, at_present, step in found
    ]
    return Listing(task=task, steps=lines, cursor=str(position) if position else "")


async def _details(
    desk: Desk, task: str, step: str, place: Place | None, revision: int
) -> dict[str, Any]:
    if place is None:
        return {}
    ending = await desk.ending_of(task, step, place, revision)
    refs = [ref["ref"] for ref in ending.body.get("refs", ())]
    return {"result": ending.body.get("result"), "refs": refs}


async def _events(desk: Desk, task: str, status: str, limit: int, before: int) -> Listing:
    """Give the newest events first: seqs have no gaps, so a page is found without reading the rest."""
    last = before - 1 if before else await desk.ask(task, lambda fold: fold.seq)
    first = max(0, last - limit)
    try:
        found = await _between(desk, task, first, last, after=first)
    except JournalReplaced:
        # Somebody pruned, or put a backup back, since this process last read it. A page remembers
        # nothing, so it can begin at the beginning.
        found = await _between(desk, task, first, last, after=0)
    found = sorted(found, key=lambda event: event.seq, reverse=True)[:limit]
    return Listing(task=task, events=found, cursor=str(first + 1) if first else "")


async def _between(desk: Desk, task: str, first: int, last: int, *, after: int) -> list[Event]:
    found: list[Event] = []
    async for entries in desk.engine.read(task, after):
        found += [_event(entry) for entry in entries if first < _seq(entry) <= last]
        if entries and _seq(entries[-1]) >= last:
            break
    return found


def _seq(entry: Record | DamagedLine) -> int:
    return entry.seq or 0


def _event(entry: Record | DamagedLine) -> Event:
    if isinstance(entry, DamagedLine):
        return Event(seq=_seq(entry), at="", by="", op="damaged", about={"problem": entry.problem})
    about = {key: entry.body[key] for key in _SHOWN_IN_EVENT if key in entry.body}
    if entry.op in ("edit", "save"):
        about["changed"] = changed_paths(entry.body)
    return Event(seq=entry.seq, at=entry.at, by=entry.by, op=entry.op, about=about)


def changed_paths(body: Mapping[str, Any]) -> list[str]:
    """Name what a record changed, in words a person can read."""
    changes: Mapping[str, Any] = body.get("changes", {})
    paths = [f"/state{path}" for part in ("set", "add", "drop") for path in changes.get(part, ())]
    named = [f"/{name}" for name in ("status", "goal", "next", "plan", "reopen") if name in body]
    steps = [f"/plan/{name}" for name in body.get("steps", ())]
    answers = [f"/questions/{name}/answer" for name in body.get("answers", ())]
    return [*named, *steps, *answers, *paths][:50]


_SHOWS = {"checkpoints": _checkpoints, "steps": _steps, "events": _events}
