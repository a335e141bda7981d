"""Where a task stands and how it got there, for people: read off the fold, without results."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import islice

from holdfast_storage.core.decide.steps import progress_of
from holdfast_storage.core.fold import Conflict, Fold, Question
from holdfast_storage.core.records import Record
from holdfast_storage.results import (
    AskedQuestion,
    Course,
    Edited,
    LostValue,
    Milestone,
    Progress,
    ProgressPoint,
    Standing,
    StepAtWork,
)

_SHOWN = 50


def standing(
    fold: Fold, now: datetime, gone: AbstractSet[str], resumes: int, warnings: Sequence[str]
) -> Standing:
    """Say where a task stands at this moment."""
    running = [name for name in fold.claims if fold.status_of(name, now, gone) == "running"]
    doubtful = _doubtful(fold, now, gone)
    return Standing(
        task=fold.task,
        status=fold.status_at(now),
        goal=fold.goal,
        next=fold.next,
        summary=fold.summary,
        run=fold.run,
        revision=fold.seq,
        checkpoint=fold.checkpoint,
        progress=Progress.model_validate({**progress_of(fold), "resumes": resumes}),
        updated_at=fold.updated_at,
        by=fold.updated_by,
        paused_by_person=fold.paused_by_person,
        running=[_at_work(fold, name) for name in running[:_SHOWN]],
        in_doubt=[_at_work(fold, name) for name in doubtful[:_SHOWN]],
        in_doubt_count=len(doubtful),
        questions=[_question(each, now) for each in fold.questions.values()][-_SHOWN:],
        conflicts=[_lost(each) for each in islice(fold.conflicts.values(), _SHOWN)],
        conflict_count=len(fold.conflicts),
        refs=list(fold.refs)[-_SHOWN:],
        warnings=[*warnings, *fold.edit_warnings],
        problems=fold.problems[:_SHOWN],
        damaged=fold.is_damaged,
    )


def _doubtful(fold: Fold, now: datetime, gone: AbstractSet[str]) -> list[str]:
    if not (fold.claims or fold.count("in_doubt") or fold.doubts_all):
        return []
    return [name for name in fold.unfinished if fold.status_of(name, now, gone) == "in_doubt"]


def _at_work(fold: Fold, name: str) -> StepAtWork:
    step, claim = fold.steps[name], fold.claims.get(name)
    return StepAtWork(
        step=name,
        by=claim.by if claim else step.by,
        at=claim.at if claim else step.at,
        attempts=step.attempts,
    )


def _question(question: Question, now: datetime) -> AskedQuestion:
    status = "answered" if question.answer is not None else "waiting"
    return AskedQuestion(
        id=question.id,
        question=question.question,
        status="expired" if question.is_expired(now) else status,
        options=list(question.options),
        step=question.step,
        asked_by=question.asked_by,
        asked_at=question.asked_at,
        expires_at=question.expires_at,
        answer=question.answer,
        answered_by=question.answered_by,
    )


def _lost(lost: Conflict) -> LostValue:
    return LostValue(
        id=lost.id,
        path=lost.path,
        kept_by=lost.kept_by,
        lost_by=lost.lost_by,
        file=lost.file,
        at=lost.at,
    )


def course(fold: Fold, points: int) -> Course:
    """Say how many steps of the open run were done when, in at most so many points."""
    ends = sorted(step.at for step in fold.steps.values() if step.status == "done" and step.at)
    every = max(1.0, len(ends) / points)
    shown = [ends[int((number + 1) * every) - 1] for number in range(min(points, len(ends)))]
    return Course(
        points=[ProgressPoint(at=at, done=bisect_right(ends, at)) for at in shown],
        milestones=[
            Milestone(at=kept.at, checkpoint=kept.number, label=kept.label)
            for kept in fold.checkpoints.values()
            if kept.milestone
        ][-_SHOWN:],
    )


def edited(record: Record | None, revision: int) -> Edited:
    """Say what became of a person's edit, from the record it became."""
    if record is None:
        return Edited(revision=revision, changed=False)
    lost = record.body.get("conflicts", ())
    fields = LostValue.model_fields.keys()
    return Edited(
        revision=record.seq,
        changed=True,
        warnings=record.body.get("warnings", []),
        conflicts=[
            LostValue(**{key: value for key, value in each.items() if key in fields})
            for each in lost
        ],
    )
