from __future__ import annotations

from typing import Any

import pytest
from tests.storage.core.stories import Story, started

from holdfast_storage.core.errors import InvalidName, InvalidValue, RunClosed, TooLarge
from holdfast_storage.core.limits import Limits, Settings

# --- omitted means unchanged -------------------------------------------------------------------


def test_omitted_means_unchanged() -> None:
    story, agent = started({"a": 1}, plan=["one"], goal="g", next="n", total=7)

    agent.save({"b": 2})

    fold = story.fold
    assert (fold.goal, fold.next, fold.order, fold.total) == ("g", "n", ["one"], 7)


def test_a_single_space_clears() -> None:
    story, agent = started(goal="g", next="n")

    agent.save(goal=" ", next=" ")

    assert (story.fold.goal, story.fold.next) == ("", "")


def test_text_stays_exactly_as_sent() -> None:
    story, agent = started(goal="  two spaces\nand a line\t")

    assert story.fold.goal == "  two spaces\nand a line\t"
    assert "goal" not in agent.save({"a": 1}, goal=story.fold.goal).body


def test_clearing_at_the_opening_of_a_run_clears_nothing() -> None:
    story = Story()

    outcome = story.agent().save({"a": 1}, goal=" ")

    assert "goal" not in outcome.body


# --- the plan ----------------------------------------------------------------------------------


def test_a_plan_adds_and_orders_and_never_removes() -> None:
    story, agent = started(plan=["a", "b", "c"])

    agent.save(plan=["c", "x", "b"])

    assert story.fold.order == ["a", "c", "x", "b"]


def test_a_plan_that_only_orders_is_a_save_too() -> None:
    story, agent = started(plan=["a", "b"])

    outcome = agent.save(plan=["b", "a"])

    assert outcome.record is not None
    assert list(story.fold.unfinished) == ["b", "a"]


def test_planning_a_done_step_again_leaves_it_done() -> None:
    story, agent = started(plan=["a"])
    agent.mark("a")

    agent.save(plan=["a", "b"])

    assert story.status_of("a") == "done"
    assert list(story.fold.unfinished) == ["b"]


@pytest.mark.parametrize("plan", [["a", ""], ["a\nb"], ["x" * 600], [" a"]])
def test_names_no_step_may_have_are_refused(plan: list[str]) -> None:
    story, agent = started()

    with pytest.raises(InvalidName):
        agent.save(plan=plan)

    assert len(story.journal) == 1


def test_a_plan_that_is_one_text_is_refused() -> None:
    with pytest.raises(InvalidValue):
        Story().agent().save(plan="abc")


def test_a_plan_has_limits() -> None:
    story = Story(settings=Settings(limits=Limits(plan_at_once=3, steps=4)))
    agent = story.agent()
    agent.save(plan=["a", "b", "c"])

    with pytest.raises(TooLarge):
        agent.save(plan=["d", "e", "f", "g"])
    with pytest.raises(TooLarge):
        agent.save(plan=["c", "d", "e"])
    agent.save(plan=["b", "c", "d"])

    assert story.fold.order == ["a", "b", "c", "d"]


def test_a_plan_that_opens_a_run_has_limits_too() -> None:
    agent = Story(settings=Settings(limits=Limits(steps=2))).agent()

    with pytest.raises(TooLarge):
        agent.save(plan=["a", "b", "c"])


# --- the other fields --------------------------------------------------------------------------


@pytest.mark.parametrize("total", [-1, 1.5, True, 1_000_001])
def test_a_total_is_a_whole_number_within_the_limit(total: Any) -> None:
    with pytest.raises(InvalidValue):
        Story().agent().save(total=total)


def test_a_text_over_its_limit_is_refused() -> None:
    with pytest.raises(TooLarge):
        Story().agent().save(goal="x" * 20_000)


@pytest.mark.parametrize("goal", [5, "half \ud800"])
def test_what_is_no_text_is_refused(goal: Any) -> None:
    with pytest.raises(InvalidValue):
        Story().agent().save(goal=goal)


def test_a_save_may_have_a_label_and_be_a_milestone() -> None:
    story, agent = started()

    agent.save(label="research complete", milestone=True)

    kept = story.fold.checkpoints[2]
    assert (kept.label, kept.milestone) == ("research complete", True)


def test_refs_are_remembered_by_name() -> None:
    story, agent = started(refs=[{"ref": "a.csv", "size": 1}])

    agent.save({"n": 1}, refs=[{"ref": "a.csv", "size": 2}, {"ref": "b.csv", "size": 1}])

    assert {name: ref["size"] for name, ref in story.fold.refs.items()} == {"a.csv": 2, "b.csv": 1}


def test_rewinding_is_a_save_that_says_where_it_came_from() -> None:
    story, agent = started({"a": 1})
    agent.mark("one")
    agent.save({"a": 2})

    agent.save({"a": 1}, replace=True, restored_from=1)

    assert story.fold.checkpoints[3].restored_from == 1
    assert story.fold.state == {"a": 1}
    assert story.status_of("one") == "done"


# --- the same save again -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        {},
        {"goal": "g"},
        {"plan": ["one", "two"]},
        {"total": 5},
        {"label": "l", "milestone": True},
        {"refs": [{"ref": "a.csv", "size": 1}]},
    ],
)
def test_a_retried_save_with_the_content_of_the_newest_is_that_save(again: dict[str, Any]) -> None:
    story, agent = started(
        {"a": 1},
        plan=["one", "two"],
        goal="g",
        total=5,
        label="l",
        milestone=True,
        refs=[{"ref": "a.csv", "size": 1}],
    )

    for who in (agent, story.agent("ann").load()):
        outcome = who.save({"a": 1}, **again)

        assert outcome.record is None
        assert outcome.found["checkpoint"] == 1


@pytest.mark.parametrize(
    "other",
    [
        {"goal": "h"},
        {"plan": ["three"]},
        {"total": 6},
        {"label": "m"},
        {"milestone": True},
        {"restored_from": 1},
        {"refs": [{"ref": "a.csv", "size": 2}]},
    ],
)
def test_a_save_that_says_anything_new_is_another(other: dict[str, Any]) -> None:
    story, agent = started({"a": 1}, plan=["one"], goal="g", total=5, label="l")

    assert agent.save({"a": 1}, **other).found["checkpoint"] == 2
    assert story.fold.checkpoint == 2


def test_a_save_after_something_else_happened_is_another() -> None:
    story, agent = started({"a": 1})
    agent.mark("one")

    assert agent.save({"a": 1}).found["checkpoint"] == 2
    assert story.fold.checkpoint == 2


def test_a_save_that_lost_something_is_another() -> None:
    story, ann = started({"a": 1})
    story.agent("bob").load().save({"a": 2})

    outcome = ann.save({"a": 3})

    assert outcome.found["checkpoint"] == 3
    assert story.fold.conflicts


# --- runs --------------------------------------------------------------------------------------


def test_a_late_save_does_not_open_a_run_by_accident() -> None:
    story, ann = started({"a": 1})
    bob = story.agent("bob").load()
    ann.finish()

    with pytest.raises(RunClosed) as refused:
        bob.save({"a": 2})

    assert (refused.value.run, refused.value.finished_by) == (1, "ann")


def test_after_a_load_a_save_opens_the_next_run() -> None:
    story, ann = started({"a": 1})
    ann.finish("abandoned")
    bob = story.agent("bob").load()

    outcome = bob.save({"b": 1})

    assert outcome.record is not None
    assert outcome.record.opens
    assert outcome.body["run"] == 2
    assert outcome.body["state"] == {"b": 1}


def test_an_agent_s_own_pause_ends_with_its_next_save() -> None:
    story, agent = started({"a": 1})
    agent.finish("paused")

    agent.save({"a": 2})

    assert story.fold.status == "active"


def test_a_person_s_pause_holds_and_saves_are_recorded_all_the_same() -> None:
    story, agent = started({"a": 1})
    story.person().edits(status="paused")

    agent.save({"a": 2})

    assert (story.fold.status, story.fold.state) == ("paused", {"a": 2})
