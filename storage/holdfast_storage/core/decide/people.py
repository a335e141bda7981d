"""Decide on what passes between agents and people: ends, questions, answers, pins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from holdfast_storage.core import ids, strict_json
from holdfast_storage.core.decide.context import (
    Belief,
    Context,
    Decision,
    check_text,
    draft,
    opening_fields,
    opens_run,
    require_open_run,
    require_task,
)
from holdfast_storage.core.errors import InvalidValue, RunClosed, TooLarge, Unfinished, Unknown
from holdfast_storage.core.fold import Fold, Question
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.core.times import stamp

ENDS = ("done", "paused", "failed", "abandoned")
_LISTED = 20


def decide_finish(fold: Fold, outcome: str, summary: str, context: Context) -> Decision:
    """End the run, or lay it down; done only if nothing in it is open."""
    require_task(fold)
    if outcome not in ENDS:
        raise InvalidValue("outcome", f"it must be one of {', '.join(ENDS)}")
    check_text(summary, "summary", context)
    if fold.status == outcome and (fold.is_closed or fold.paused_by_person >= context.is_person):
        return Decision(None)
    if fold.is_closed:
        raise RunClosed(fold.task, fold.run, fold.finished_by)
    if outcome == "done":
        refuse_unfinished(fold, context)
    body: JsonObject = {"outcome": outcome, **({"summary": summary} if summary else {})}
    if context.is_person:
        body["by_person"] = True
    return Decision(draft(context, "finish", body))


def refuse_unfinished(fold: Fold, context: Context) -> None:
    """Name what is still open, if anything."""
    questions = [question.id for question in fold.open_questions(context.now)]
    if fold.unfinished or questions:
        steps = list(fold.unfinished)
        more = max(0, len(steps) - _LISTED)
        raise Unfinished(fold.task, steps[:_LISTED], questions, more)


def decide_go_on(fold: Fold, context: Context) -> Decision:
    """Let a paused run go on."""
    require_open_run(fold)
    if fold.status not in ("paused", "failed"):
        return Decision(None)
    return Decision(draft(context, "finish", {"outcome": "active"}))


# --- questions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskRequest:
    """A question for a person."""

    question: str
    options: Sequence[str] = ()
    step: str = ""
    expires_in_hours: float = 0


def decide_ask(fold: Fold, request: AskRequest, belief: Belief, context: Context) -> Decision:
    """Ask once: the same text in the same run and for the same step is the same question."""
    opens = opens_run(fold, belief)
    _check_ask(request, context)
    if not opens:
        for question in fold.questions.values():
            if (question.question, question.step) == (request.question, request.step):
                return Decision(None, {"question": question.id, "opens": False})
        waiting = len(fold.open_questions(context.now))
        if waiting >= context.settings.limits.open_questions:
            limit = context.settings.limits.open_questions
            raise TooLarge("the task", waiting + 1, limit, "open questions")
    name = "q1" if opens else f"q{len(fold.questions) + 1}"
    body: JsonObject = {
        **(opening_fields(fold) if opens else {}),
        "question_id": name,
        "question": request.question,
    }
    if request.options:
        body["options"] = list(request.options)
    if request.step:
        body["step"] = request.step
    if request.expires_in_hours:
        body["expires_at"] = stamp(context.now + timedelta(hours=request.expires_in_hours))
    return Decision(draft(context, "ask", body, opens=opens), {"question": name, "opens": opens})


def _check_ask(request: AskRequest, context: Context) -> None:
    if type(request.question) is not str or not request.question.strip():
        raise InvalidValue("question", "it must be a text that asks something")
    check_text(request.question, "question", context)
    if len(request.options) > 20:
        raise TooLarge("options", len(request.options), 20, "entries")
    for option in request.options:
        check_text(option, "options", context)
    if request.step:
        ids.check_id("step", request.step)
    if (
        type(request.expires_in_hours) not in (int, float)
        or not 0 <= request.expires_in_hours <= 24 * 366
    ):
        raise InvalidValue("expires_in_hours", "it must be between 0 (never) and 8,784")


def decide_answer(fold: Fold, question_id: str, answer: Any, context: Context) -> Decision:
    """Answer a question; a person may change an answer."""
    require_open_run(fold)
    question = find_question(fold, question_id, context)
    if answer is None:
        raise InvalidValue("answer", "it is empty")
    limits = context.settings.limits
    strict_json.check(answer, "answer", max_bytes=limits.text_bytes, max_depth=limits.depth)
    if strict_json.same(question.answer, answer):
        return Decision(None, {"question": question.id})
    body = {"question_id": question.id, "answer": answer}
    return Decision(draft(context, "answer", body), {"question": question.id})


def find_question(fold: Fold, question_id: str, context: Context) -> Question:
    """Find a question by its id, or the only open one if none is named."""
    open_ones = fold.open_questions(context.now)
    if not question_id and len(open_ones) == 1:
        return open_ones[0]
    if question_id not in fold.questions:
        raise Unknown("question", question_id, [question.id for question in open_ones])
    return fold.questions[question_id]


# --- checkpoints, conflicts, damage -----------------------------------------------------------


def decide_pin(fold: Fold, number: int, pinned: bool, context: Context) -> Decision:
    """Keep a checkpoint whatever retention says, or stop keeping it."""
    checkpoint = fold.checkpoints.get(number)
    if checkpoint is None:
        raise Unknown("checkpoint", str(number))
    if checkpoint.pinned == pinned:
        return Decision(None)
    return Decision(draft(context, "pin", {"checkpoint": number, "pinned": pinned}))


def decide_acknowledge(
    fold: Fold, conflicts: Sequence[str], damage: bool, context: Context
) -> Decision:
    """Stop announcing conflicts or damage that somebody has looked at."""
    require_task(fold)
    for name in conflicts:
        if name not in fold.conflicts:
            raise Unknown("conflict", name, list(fold.conflicts)[:5])
    body: JsonObject = {}
    if conflicts:
        body["acknowledged"] = list(conflicts)
    if damage and (fold.is_damaged or fold.doubts_all):
        body["damage"] = True
    return Decision(draft(context, "acknowledge", body) if body else None)
