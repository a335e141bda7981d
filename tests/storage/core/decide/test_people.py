from __future__ import annotations

from typing import Any

import pytest
from tests.storage.core.stories import Story, started

from holdfast_storage.core.errors import (
    InvalidName,
    InvalidValue,
    RunClosed,
    TooLarge,
    Unfinished,
    Unknown,
)
from holdfast_storage.core.limits import Limits, Settings

# --- finishing ---------------------------------------------------------------------------------


def test_a_run_in_which_nothing_is_open_may_be_done() -> None:
    story, agent = started(plan=["one", "two"])
    agent.mark("one")
    agent.mark("two", outcome="skipped")

    agent.finish(summary="all well")

    fold = story.fold
    assert (fold.status, fold.is_closed, fold.summary) == ("done", True, "all well")
    assert (fold.finished_by, fold.closed_seq) == ("ann", fold.seq)


def test_done_is_refused_while_anything_is_open_and_all_of_it_is_listed() -> None:
    story, agent = started(plan=["pending", "failed", "running", "in-doubt", "done"])
    agent.mark("failed", outcome="failed")
    agent.begin("running")
    agent.begin("in-doubt")
    story.person().release("in-doubt")
    agent.mark("done")
    agent.ask("Skip it?")

    with pytest.raises(Unfinished) as refused:
        agent.finish()

    assert set(refused.value.steps) == {"pending", "failed", "running", "in-doubt"}
    assert refused.value.questions == ["q1"]
    assert story.fold.status == "waiting"


def test_of_very_many_open_steps_only_some_are_listed() -> None:
    _, agent = started(plan=[f"step-{number}" for number in range(50)])

    with pytest.raises(Unfinished) as refused:
        agent.finish()

    assert (len(refused.value.steps), refused.value.more) == (20, 30)


def test_a_question_whose_time_ran_out_keeps_nobody_from_finishing() -> None:
    story, agent = started()
    agent.ask("Skip it?", expires_in_hours=1)
    story.later(hours=1)

    agent.finish()

    assert story.fold.status == "done"


@pytest.mark.parametrize("outcome", ["paused", "failed", "abandoned"])
def test_a_run_may_be_laid_down_with_steps_open(outcome: str) -> None:
    story, agent = started(plan=["one"])

    agent.finish(outcome)

    assert story.fold.status == outcome
    assert story.fold.is_closed == (outcome == "abandoned")


@pytest.mark.parametrize("outcome", ["done", "paused", "failed", "abandoned"])
def test_finishing_twice_is_finishing_once(outcome: str) -> None:
    story, agent = started()
    agent.finish(outcome)
    lines = len(story.journal)

    assert agent.finish(outcome).record is None
    assert story.agent("bob").finish(outcome).record is None
    assert len(story.journal) == lines


def test_a_run_that_is_over_cannot_end_another_way() -> None:
    _, agent = started()
    agent.finish()

    with pytest.raises(RunClosed):
        agent.finish("abandoned")


def test_what_is_no_end_or_no_task_is_refused() -> None:
    _, agent = started()

    with pytest.raises(InvalidValue):
        agent.finish("active")
    with pytest.raises(TooLarge):
        agent.finish("done", "x" * 20_000)
    with pytest.raises(Unknown):
        Story().agent().finish()


@pytest.mark.parametrize("outcome", ["paused", "failed"])
def test_the_next_write_goes_on_where_an_agent_laid_the_run_down(outcome: str) -> None:
    story, agent = started({"a": 1}, plan=["one"])
    agent.finish(outcome)

    agent.load().mark("one")

    fold = story.fold
    assert (fold.run, fold.status, fold.state) == (1, "active", {"a": 1})


# --- a person's pause --------------------------------------------------------------------------


def test_a_person_s_pause_holds_until_a_person_ends_it() -> None:
    story, agent = started()
    story.person().finish("paused")

    agent.load().save({"a": 1})
    agent.mark("one")
    assert (story.fold.status, story.fold.paused_by_person) == ("paused", True)

    story.person().go_on()
    assert (story.fold.status, story.fold.paused_by_person) == ("active", False)


def test_a_person_may_take_over_an_agent_s_pause() -> None:
    story, agent = started()
    agent.finish("paused")

    story.person().finish("paused")
    agent.save({"a": 1})

    assert (story.fold.status, story.fold.paused_by_person) == ("paused", True)


def test_an_agent_that_pauses_too_does_not_make_the_pause_its_own() -> None:
    story, agent = started()
    story.person().finish("paused")

    agent.finish("paused")
    agent.save({"a": 1})

    assert (story.fold.status, story.fold.paused_by_person) == ("paused", True)


def test_an_agent_that_fails_does_not_end_a_person_s_pause() -> None:
    story, agent = started(plan=["one"])
    story.person().finish("paused")

    agent.finish("failed")
    agent.save({"a": 1})

    assert agent.begin("one")["status"] == "paused"
    story.person().go_on()
    assert agent.begin("one")["go"] is True


def test_an_agent_may_still_end_a_run_that_a_person_paused() -> None:
    story, agent = started()
    story.person().finish("paused")

    agent.finish()

    assert (story.fold.status, story.fold.paused_by_person) == ("done", False)


def test_letting_go_on_what_goes_on_is_nothing() -> None:
    story, agent = started()

    assert story.person().go_on() is None
    agent.finish()
    with pytest.raises(RunClosed):
        story.person().go_on()


def test_a_run_that_goes_on_waits_if_a_question_is_open() -> None:
    story, agent = started()
    agent.ask("Skip it?")
    story.person().finish("paused")

    story.person().go_on()

    assert story.fold.status == "waiting"


# --- questions ---------------------------------------------------------------------------------


def test_while_a_question_is_open_the_task_waits_and_blocks_no_write() -> None:
    story, agent = started()

    agent.ask("Skip it?", options=["skip", "stop"], step="one")
    agent.mark("two")

    [question] = story.fold.open_questions(story.now)
    assert (question.id, question.options, question.step) == ("q1", ("skip", "stop"), "one")
    assert story.fold.status == "waiting"
    assert story.status_of("two") == "done"


def test_the_same_text_is_the_same_question() -> None:
    story, agent = started()
    agent.ask("Skip it?")

    assert agent.ask("Skip it?") == "q1"
    assert story.agent("bob").load().ask("Skip it?", options=["yes"]) == "q1"
    assert len(story.fold.questions) == 1


def test_the_same_text_for_another_step_or_run_is_another_question() -> None:
    story, agent = started()
    agent.ask("Skip it?", step="one")

    assert agent.ask("Skip it?", step="two") == "q2"
    agent.finish("abandoned")
    assert agent.load().ask("Skip it?", step="one") == "q1"
    assert story.fold.run == 2
    assert list(story.fold.questions) == ["q1"]


def test_a_late_question_is_not_asked_in_a_new_run_by_accident() -> None:
    story, ann = started()
    bob = story.agent("bob").load()
    ann.finish()

    with pytest.raises(RunClosed):
        bob.ask("Skip it?")


def test_an_answer_answers_and_ends_the_waiting() -> None:
    story, agent = started()
    agent.ask("Skip it?")

    story.person("human:eva").answer("", "skip")

    question = story.fold.questions["q1"]
    assert (question.answer, question.answered_by) == ("skip", "human:eva")
    assert story.fold.status == "active"
    assert agent.ask("Skip it?") == "q1"
    assert [told["to"] for told in agent.mark("one").changes] == ["skip"]


def test_a_person_may_change_an_answer() -> None:
    story, agent = started()
    agent.ask("Skip it?")
    story.person().answer("q1", "skip")

    assert story.person().answer("q1", "skip") is None
    story.person().answer("q1", "stop")

    assert story.fold.questions["q1"].answer == "stop"


def test_a_question_whose_time_ran_out_has_no_answer_and_nobody_waits_for_it() -> None:
    story, agent = started()
    agent.ask("Skip it?", expires_in_hours=2)
    fold = story.fold

    story.later(hours=1, minutes=59)
    assert fold.status_at(story.now) == "waiting"

    story.later(minutes=1)
    assert fold.questions["q1"].is_expired(story.now)
    assert fold.status_at(story.now) == "active"
    assert fold.open_questions(story.now) == []


def test_an_answered_question_never_expires() -> None:
    story, agent = started()
    agent.ask("Skip it?", expires_in_hours=1)
    story.person().answer("q1", "skip")

    story.later(days=2)

    assert not story.fold.questions["q1"].is_expired(story.now)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"question": " "}, InvalidValue),
        ({"question": "x" * 20_000}, TooLarge),
        ({"question": "?", "options": ["x"] * 21}, TooLarge),
        ({"question": "?", "options": ["x" * 20_000]}, TooLarge),
        ({"question": "?", "step": "a\nb"}, InvalidName),
        ({"question": "?", "expires_in_hours": -1}, InvalidValue),
        ({"question": "?", "expires_in_hours": float("nan")}, InvalidValue),
        ({"question": "?", "expires_in_hours": 10_000}, InvalidValue),
    ],
)
def test_a_question_nobody_could_answer_is_refused(arguments: Any, error: type[Exception]) -> None:
    story, agent = started()

    with pytest.raises(error):
        agent.ask(**arguments)

    assert len(story.journal) == 1


def test_only_so_many_questions_may_be_open() -> None:
    story = Story(settings=Settings(limits=Limits(open_questions=2)))
    agent = story.agent()
    agent.ask("One?")
    agent.ask("Two?")

    with pytest.raises(TooLarge):
        agent.ask("Three?")
    story.person().answer("q1", "yes")

    assert agent.ask("Three?") == "q3"


def test_which_question_is_meant_must_be_clear() -> None:
    story, agent = started()
    agent.ask("One?")
    agent.ask("Two?")

    with pytest.raises(Unknown) as refused:
        story.person().answer("", "yes")
    with pytest.raises(Unknown):
        story.person().answer("q9", "yes")

    assert refused.value.similar == ["q1", "q2"]


@pytest.mark.parametrize(
    ("answer", "error"), [(None, InvalidValue), ("x" * 20_000, TooLarge), ({1: 2}, InvalidValue)]
)
def test_an_answer_that_is_none_or_cannot_be_kept_is_refused(
    answer: Any, error: type[Exception]
) -> None:
    story, agent = started()
    agent.ask("One?")

    with pytest.raises(error):
        story.person().answer("q1", answer)


# --- pins, conflicts, damage -------------------------------------------------------------------


def test_a_checkpoint_is_pinned_and_unpinned() -> None:
    story, _ = started()
    person = story.person()

    person.pin(1)
    assert story.fold.checkpoints[1].pinned
    assert person.pin(1) is None

    person.pin(1, False)
    assert not story.fold.checkpoints[1].pinned


def test_a_checkpoint_that_does_not_exist_is_not_pinned() -> None:
    story, _ = started()

    with pytest.raises(Unknown):
        story.person().pin(7)

    story.record("pin", checkpoint=7, pinned=True)
    assert not story.fold.is_damaged


def test_a_conflict_is_announced_until_somebody_acknowledges_it() -> None:
    story, agent = started({"ceo": "Ann"})
    story.person().edits(state={"ceo": "Bea"})
    agent.save({"ceo": "Cleo"})
    [conflict] = story.fold.conflicts

    story.person().acknowledge(conflict)

    assert story.fold.conflicts == {}
    with pytest.raises(Unknown):
        story.person().acknowledge(conflict)


def test_where_nothing_is_damaged_there_is_nothing_to_acknowledge() -> None:
    story, _ = started()

    assert story.person().acknowledge(damage=True) is None
    with pytest.raises(Unknown):
        Story().person().acknowledge(damage=True)
