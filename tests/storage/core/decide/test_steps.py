from __future__ import annotations

from typing import Any

import pytest
from tests.storage.core.stories import Agent, Story, started

from holdfast_storage.core.errors import (
    ClaimReplaced,
    InDoubt,
    InvalidName,
    InvalidValue,
    RunClosed,
    StepDone,
    TooLarge,
    Unknown,
)
from holdfast_storage.core.limits import Limits, Settings
from holdfast_storage.core.records import Record

# --- marking -----------------------------------------------------------------------------------


def test_a_step_marked_twice_has_one_effect_and_the_second_answer_points_to_the_first() -> None:
    story, agent = started()
    first = agent.mark("one", {"pages": 12})

    again = agent.mark("one", {"pages": 99}, state={"n": 1}, append={"l": [1]})

    assert again.record is None
    assert first.record is not None
    assert again.found["already"] == first.record.place
    assert story.fold.state == {}


def test_a_failed_step_may_still_be_done() -> None:
    story, agent = started()
    agent.mark("one", outcome="failed")

    agent.mark("one", "worked")

    assert story.status_of("one") == "done"
    assert story.fold.steps["one"].attempts == 2


def test_a_skipped_step_may_still_be_done() -> None:
    story, agent = started()
    agent.mark("one", outcome="skipped")

    agent.mark("one")

    assert story.status_of("one") == "done"


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_done_step_cannot_become_anything_else_by_itself(outcome: str) -> None:
    story, agent = started()
    agent.mark("one")

    with pytest.raises(StepDone) as refused:
        agent.mark("one", outcome=outcome)

    assert "reopen" in refused.value.hint
    assert story.status_of("one") == "done"


def test_a_failed_step_stays_in_the_plan_and_a_skipped_one_does_not() -> None:
    story, agent = started(plan=["one", "two"])

    agent.mark("one", outcome="failed")
    agent.mark("two", outcome="skipped")

    assert list(story.fold.unfinished) == ["one"]


def test_what_a_step_carries_is_taken_in() -> None:
    story, agent = started({"n": 1}, next="one")

    agent.mark("one", state={"n": 2}, next="two", refs=[{"ref": "a.csv", "size": 1}])

    assert (story.fold.state, story.fold.next) == ({"n": 2}, "two")
    assert list(story.fold.refs) == ["a.csv"]


def test_a_step_whose_state_changes_nothing_says_nothing_of_it() -> None:
    _, agent = started({"n": 1})

    assert "changes" not in agent.mark("one", state={"n": 1}).body


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"step": ""}, InvalidName),
        ({"step": "a\nb"}, InvalidName),
        ({"step": "a", "outcome": "perhaps"}, InvalidValue),
        ({"step": "a", "result": "x" * 70_000}, TooLarge),
        ({"step": "a", "result": {1: 2}}, InvalidValue),
    ],
)
def test_what_cannot_be_kept_is_refused(arguments: Any, error: type[Exception]) -> None:
    story, agent = started()

    with pytest.raises(error):
        agent.mark(**arguments)

    assert len(story.journal) == 1


def test_a_run_has_only_so_many_steps() -> None:
    story = Story(settings=Settings(limits=Limits(steps=2)))
    agent = story.agent()
    agent.mark("one")
    agent.mark("two")

    with pytest.raises(TooLarge):
        agent.mark("three")
    with pytest.raises(TooLarge):
        agent.begin("three")
    assert agent.mark("two").record is None


def test_names_that_are_nearly_the_same_can_be_found() -> None:
    story, agent = started(plan=["Doc-007"])

    agent.mark("doc_7")

    assert story.fold.alike["doc7"] == "Doc-007"


def test_a_step_without_a_claim_needs_none_to_be_done() -> None:
    story, agent = started(plan=["one"])

    agent.mark("one")

    assert story.status_of("one") == "done"


# --- marking in a run that is over -------------------------------------------------------------


def closed() -> tuple[Story, Agent, Agent]:
    story, ann = started()
    ann.mark("done-one")
    ann.mark("skipped-one", outcome="skipped")
    bob = story.agent("bob").load()
    ann.finish()
    return story, ann, bob


def test_a_late_repetition_of_what_the_closed_run_did_is_answered() -> None:
    _, _, bob = closed()

    assert bob.mark("done-one").record is None
    assert bob.mark("skipped-one", outcome="skipped").record is None


def test_anything_else_comes_too_late() -> None:
    story, _, bob = closed()
    lines = len(story.journal)

    with pytest.raises(RunClosed):
        bob.mark("new-one")
    with pytest.raises(RunClosed):
        bob.mark("skipped-one", outcome="done")
    with pytest.raises(StepDone):
        bob.mark("done-one", outcome="failed")
    with pytest.raises(RunClosed):
        bob.begin("new-one")

    assert len(story.journal) == lines


def test_after_a_load_the_same_name_is_a_new_step_of_the_next_run() -> None:
    story, _, bob = closed()

    outcome = bob.load().mark("done-one")

    assert outcome.record is not None
    assert outcome.record.opens
    assert story.fold.run == 2


# --- claims ------------------------------------------------------------------------------------


def test_a_free_step_is_handed_out_with_a_claim_and_a_key() -> None:
    story, agent = started(plan=["one"])

    begun = agent.begin("one")

    assert (begun["go"], begun["status"], begun["step"]) == (True, "running", "one")
    assert begun["claim"]
    assert len(begun["key"]) == 32
    assert story.status_of("one") == "running"
    assert story.fold.steps["one"].attempts == 1


def test_without_a_name_the_next_free_planned_step_is_handed_out() -> None:
    story, ann = started(plan=["one", "two", "three"])
    bob = story.agent("bob")
    ann.mark("one")

    assert ann.begin()["step"] == "two"
    assert bob.begin()["step"] == "three"
    assert bob.begin()["status"] == "nothing_left"


def test_failed_steps_are_handed_out_when_nothing_else_is_left() -> None:
    _, agent = started(plan=["one", "two", "three"])
    agent.mark("one", outcome="failed")
    agent.mark("two", outcome="failed")

    assert agent.begin()["step"] == "three"
    assert agent.begin()["step"] == "one"


def test_on_a_task_that_has_no_run_there_is_no_next_step() -> None:
    story = Story()

    begun = story.agent().begin()

    assert (begun["go"], begun["status"]) == (False, "nothing_left")
    assert story.journal == []


def test_a_running_step_is_not_handed_out_again() -> None:
    story, ann = started()
    ann.begin("one")
    lines = len(story.journal)

    begun = story.agent("bob").begin("one")

    assert (begun["go"], begun["status"]) == (False, "running")
    assert begun["held"].by == "ann"
    assert "claim" not in begun
    assert len(story.journal) == lines


def test_its_holder_may_ask_again_and_has_more_time() -> None:
    story, ann = started()
    first = ann.begin("one")
    story.later(minutes=10)

    again = ann.begin("one", claim=first["claim"])
    story.later(minutes=10)

    assert (again["go"], again["claim"], again["key"]) == (True, first["claim"], first["key"])
    assert story.status_of("one") == "running"
    assert story.fold.steps["one"].attempts == 1


@pytest.mark.parametrize("outcome", ["done", "skipped"])
def test_a_finished_step_is_not_begun_and_its_result_is_pointed_to(outcome: str) -> None:
    _, agent = started()
    record = agent.mark("one", 12, outcome=outcome).record
    assert isinstance(record, Record)

    begun = agent.begin("one")

    assert (begun["go"], begun["status"]) == (False, outcome)
    assert begun["already"] == record.place


def test_a_failed_step_may_be_begun_again_and_attempts_are_counted() -> None:
    story, agent = started()
    for _ in range(3):
        claim = agent.begin("one")["claim"]
        agent.mark("one", outcome="failed", claim=claim)

    assert story.fold.steps["one"].attempts == 3
    assert agent.begin("one")["go"] is True


def test_the_holder_confirms_with_its_claim_or_because_it_is_the_same_caller() -> None:
    story, ann = started()
    claim = ann.begin("one")["claim"]
    ann.begin("two")

    story.agent("ann-again").mark("one", claim=claim)
    ann.mark("two")

    assert story.fold.count("done") == 2
    assert story.fold.claims == {}


def test_nobody_else_can_confirm_a_running_step() -> None:
    story, ann = started()
    ann.begin("one")

    with pytest.raises(ClaimReplaced) as refused:
        story.agent("bob").mark("one", "mine")

    assert refused.value.held_by == "ann"
    assert story.status_of("one") == "running"


def test_time_never_decides_a_confirm() -> None:
    story, ann = started()
    claim = ann.begin("one")["claim"]
    story.later(days=3)
    story.gone.add(ann.process)

    ann.mark("one", claim=claim)

    assert story.status_of("one") == "done"


# --- doubts ------------------------------------------------------------------------------------


def abandoned_by_ann() -> tuple[Story, Agent, Agent, dict[str, Any]]:
    story, ann = started(plan=["one"])
    begun = ann.begin("one")
    story.gone.add(ann.process)
    return story, ann, story.agent("bob"), begun


def test_a_claim_ends_with_its_lease() -> None:
    story, ann = started()
    ann.begin("one")

    story.later(minutes=14, seconds=59)
    assert story.agent("bob").begin("one")["status"] == "running"

    story.later(seconds=1)
    assert story.agent("bob").begin("one")["status"] == "in_doubt"


def test_a_claim_ends_at_once_when_its_process_is_gone() -> None:
    story, _, _, _ = abandoned_by_ann()

    assert story.status_of("one") == "in_doubt"


def test_a_step_in_doubt_is_not_the_next_free_one() -> None:
    _, _, bob, _ = abandoned_by_ann()

    assert bob.begin()["status"] == "nothing_left"


def test_whoever_begins_a_step_in_doubt_gets_a_claim_to_look_and_the_same_key() -> None:
    story, _, bob, before = abandoned_by_ann()

    looking = bob.begin("one")

    assert (looking["go"], looking["status"]) == (False, "in_doubt")
    assert looking["claim"] != before["claim"]
    assert looking["key"] == before["key"]
    assert story.status_of("one") == "in_doubt"
    assert story.fold.steps["one"].attempts == 1


def test_it_happened_and_whoever_looked_confirms_it() -> None:
    story, _, bob, _ = abandoned_by_ann()
    claim = bob.begin("one")["claim"]

    bob.mark("one", "sent", claim=claim)

    assert story.status_of("one") == "done"


def test_it_did_not_happen_and_whoever_looked_does_it_with_the_same_key() -> None:
    story, _, bob, before = abandoned_by_ann()
    claim = bob.begin("one")["claim"]

    retried = bob.begin("one", claim=claim, retry=True)
    bob.mark("one", "sent", claim=claim)

    assert (retried["go"], retried["key"]) == (True, before["key"])
    assert story.fold.steps["one"].attempts == 2
    assert story.status_of("one") == "done"


def test_the_caller_that_looked_may_retry_without_naming_its_claim() -> None:
    _, _, bob, _ = abandoned_by_ann()
    bob.begin("one")

    assert bob.begin("one", retry=True)["go"] is True


def test_a_holder_that_was_replaced_can_neither_confirm_nor_retry() -> None:
    story, ann, bob, before = abandoned_by_ann()
    bob.begin("one")

    with pytest.raises(ClaimReplaced) as refused:
        ann.mark("one", "sent", claim=before["claim"])
    with pytest.raises(ClaimReplaced):
        ann.begin("one", claim=before["claim"], retry=True)

    assert refused.value.held_by == "bob"
    assert story.status_of("one") == "in_doubt"


def test_of_two_that_look_only_the_newest_may_act() -> None:
    story, _, bob, _ = abandoned_by_ann()
    bob.begin("one")
    cleo = story.agent("cleo")
    newest = cleo.begin("one")["claim"]

    with pytest.raises(ClaimReplaced):
        bob.begin("one", retry=True)
    cleo.mark("one", claim=newest)

    assert story.status_of("one") == "done"


def test_to_retry_one_must_have_looked() -> None:
    story, ann = started()
    ann.begin("one")
    story.person().release("one")

    with pytest.raises(ClaimReplaced):
        story.agent("bob").begin("one", retry=True)


def test_a_holder_whose_time_ran_out_unnoticed_may_go_on() -> None:
    story, ann = started()
    before = ann.begin("one")
    story.later(hours=1)

    again = ann.begin("one", claim=before["claim"], retry=True)

    assert (again["go"], again["key"]) == (True, before["key"])


def test_a_step_in_doubt_cannot_be_marked_without_having_looked() -> None:
    story, ann = started()
    key = ann.begin("one")["key"]
    story.person().release("one")

    with pytest.raises(InDoubt) as refused:
        story.agent("bob").mark("one")
    with pytest.raises(ClaimReplaced):
        ann.mark("one", claim="something old")

    assert refused.value.idempotency_key == key
    assert story.status_of("one") == "in_doubt"


def test_a_claim_that_a_person_ended_cannot_confirm_the_step_a_person_reopened() -> None:
    story, ann = started(plan=["one"])
    claim = ann.begin("one")["claim"]
    story.person().release("one")
    story.person().resolve("one", happened=False)

    with pytest.raises(ClaimReplaced):
        ann.mark("one", claim=claim)

    assert story.status_of("one") == "pending"


def test_a_late_repetition_does_not_undo_a_reopening() -> None:
    story, ann = started(plan=["one"])
    claim = ann.begin("one")["claim"]
    ann.mark("one", claim=claim)
    story.person().reopen("one")

    with pytest.raises(ClaimReplaced):
        ann.mark("one", claim=claim)

    assert story.status_of("one") == "pending"


def test_a_failed_step_may_be_corrected_by_the_claim_that_failed_it() -> None:
    story, ann = started()
    claim = ann.begin("one")["claim"]
    ann.mark("one", outcome="failed", claim=claim)

    ann.mark("one", claim=claim)

    assert story.status_of("one") == "done"


def test_after_a_gap_a_new_step_is_handed_out_only_after_looking() -> None:
    story, agent = started(plan=["one"])
    agent.save(next="x")
    agent.save(next="y")
    story.lose(2)

    looking = agent.begin("one")
    retried = agent.begin("one", claim=looking["claim"], retry=True)

    assert (looking["go"], looking["status"], retried["go"]) == (False, "in_doubt", True)
    assert looking["key"] == retried["key"]


# --- keys --------------------------------------------------------------------------------------


def test_a_key_stays_the_same_until_the_step_is_reopened() -> None:
    story, agent = started(plan=["one"])
    first = agent.begin("one")
    agent.mark("one")
    assert agent.begin("one")["key"] == first["key"]

    story.person().reopen("one")

    assert agent.begin("one")["key"] != first["key"]


def test_keys_of_different_steps_tasks_runs_and_workspaces_differ() -> None:
    story, agent = started()
    keys = {agent.begin("one")["key"], agent.begin("two")["key"]}
    other = Story("another")
    keys.add(other.agent().begin("one")["key"])
    agent.finish("abandoned")
    keys.add(agent.load().begin("one")["key"])

    assert len(keys) == 4
    assert story.fold.run == 2


def test_a_step_reopened_in_one_run_has_nothing_to_do_with_the_next() -> None:
    story, ann = started()
    ann.mark("one")
    story.person().reopen("one")
    ann.finish("abandoned")
    ann.load()

    key = ann.begin("one")["key"]

    again = story.agent("bob").begin("one")
    assert again["key"] == key


# --- a person's pause --------------------------------------------------------------------------


def test_while_a_person_has_paused_the_task_nothing_is_handed_out_and_work_is_recorded() -> None:
    story, agent = started(plan=["one", "two"])
    claim = agent.begin("one")["claim"]
    story.person().finish("paused")

    begun = agent.begin("two")
    agent.mark("one", claim=claim)

    assert (begun["go"], begun["status"]) == (False, "paused")
    assert story.status_of("one") == "done"
    assert story.fold.status == "paused"


def test_an_agent_s_own_pause_ends_when_it_begins_a_step() -> None:
    story, agent = started()
    agent.finish("paused")

    assert agent.begin("one")["go"] is True
    assert story.fold.status == "active"


# --- what people decide ------------------------------------------------------------------------


def test_a_person_settles_a_doubt_as_happened() -> None:
    story, _, _, _ = abandoned_by_ann()

    story.person().resolve("one", happened=True, result={"sent": True})

    step = story.fold.steps["one"]
    assert (step.status, step.by) == ("done", "human")
    assert step.place == story.entries()[-1].place
    assert story.fold.last_done == "one"


def test_a_person_settles_a_doubt_as_not_happened() -> None:
    story, _, bob, before = abandoned_by_ann()

    story.person().resolve("one", happened=False)
    begun = bob.begin("one")

    assert (begun["go"], begun["key"]) == (True, before["key"])


def test_settling_twice_is_settling_once() -> None:
    story, _, _, _ = abandoned_by_ann()
    story.person().resolve("one", happened=True)

    assert story.person().resolve("one", happened=True) is None


@pytest.mark.parametrize("step", ["two", "never-heard-of"])
def test_there_is_nothing_to_settle_about_a_step_that_is_not_in_doubt(step: str) -> None:
    story, _, _, _ = abandoned_by_ann()
    story.agent().load().mark("two", outcome="failed")

    with pytest.raises(Unknown) as refused:
        story.person().resolve(step, happened=True)

    assert refused.value.similar == ["one"]


def test_releasing_a_claim_leaves_a_doubt() -> None:
    story, agent = started()
    agent.begin("one")

    story.person().release("one")

    assert story.status_of("one") == "in_doubt"
    with pytest.raises(Unknown):
        story.person().release("one")


@pytest.mark.parametrize("outcome", ["done", "failed", "skipped"])
def test_a_person_may_reopen_what_is_finished_or_failed(outcome: str) -> None:
    story, agent = started(plan=["one", "two"])
    agent.mark("one", outcome=outcome)

    story.person().reopen("one")

    step = story.fold.steps["one"]
    assert (step.status, step.reopened, step.attempts, step.place) == ("pending", 1, 0, None)
    assert list(story.fold.unfinished) == ["one", "two"]


def test_reopening_what_is_pending_is_nothing_and_what_is_unknown_an_error() -> None:
    story, _ = started(plan=["one"])

    assert story.person().reopen("one") is None
    with pytest.raises(Unknown) as refused:
        story.person().reopen("oone")
    assert refused.value.similar == ["one"]


def test_a_doubt_is_not_reopened_into_another_key() -> None:
    story, _, _, before = abandoned_by_ann()

    with pytest.raises(InDoubt) as refused:
        story.person().reopen("one")

    assert refused.value.idempotency_key == before["key"]
    assert story.status_of("one") == "in_doubt"


def test_in_a_run_that_is_over_there_is_nothing_to_decide() -> None:
    story, agent = started()
    agent.mark("one")
    agent.finish()
    person = story.person()

    with pytest.raises(RunClosed):
        person.reopen("one")
    with pytest.raises(RunClosed):
        person.release("one")
    with pytest.raises(RunClosed):
        person.resolve("one", happened=True)


def test_on_a_task_that_does_not_exist_there_is_nothing_to_decide() -> None:
    with pytest.raises(Unknown):
        Story().person().reopen("one")
