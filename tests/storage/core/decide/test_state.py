"""What becomes of a state that somebody else has changed meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from tests.storage.core.stories import Story, started

from holdfast_storage.core.errors import InvalidValue, LoadFirst, TooLarge, WouldDrop
from holdfast_storage.core.fold import Changes
from holdfast_storage.core.limits import Limits, Settings

# --- merging -----------------------------------------------------------------------------------


def test_a_state_is_merged_deep_and_null_removes_a_key() -> None:
    story, agent = started({"totals": {"pages": 1, "words": 2}, "list": [1, 2], "old": 1})

    agent.save({"totals": {"pages": 3}, "list": [9], "old": None})

    assert story.fold.state == {"totals": {"pages": 3, "words": 2}, "list": [9]}


def test_with_replace_null_is_a_value_and_the_rest_goes() -> None:
    story, agent = started({"a": 1, "b": 2})

    agent.save({"a": None}, replace=True)

    assert story.fold.state == {"a": None}


def test_replace_without_a_state_changes_nothing() -> None:
    story, agent = started({"a": 1})

    agent.save(replace=True, next="on")

    assert story.fold.state == {"a": 1}


def test_append_adds_to_a_list_and_makes_a_missing_one() -> None:
    story, agent = started({"found": [1]})

    agent.save(append={"found": [2], "new": ["x"]})

    assert story.fold.state == {"found": [1, 2], "new": ["x"]}


def test_append_to_something_that_is_no_list_is_refused() -> None:
    story, agent = started({"found": "text"})

    with pytest.raises(InvalidValue):
        agent.save(append={"found": [2]})

    assert len(story.journal) == 1


def test_what_two_agents_append_is_all_there() -> None:
    story, ann = started({"found": []})
    bob = story.agent("bob").load()

    ann.save(append={"found": ["a"]})
    bob.save(append={"found": ["b"]})
    ann.save(append={"found": ["c"]})

    assert story.fold.state == {"found": ["a", "b", "c"]}


def test_an_append_needs_no_load() -> None:
    story, _ = started({"found": [1]})

    outcome = story.agent("bob").mark("one", append={"found": [2]})

    assert story.fold.state == {"found": [1, 2]}
    assert outcome.state_change.believed is None


def test_an_append_goes_through_where_the_caller_s_memory_has_no_list() -> None:
    story, ann = started({"found": "nothing"})
    bob = story.agent("bob").load()
    bob.save({"found": ["b"]})

    ann.save(append={"found": ["a"]})

    assert story.fold.state == {"found": ["b", "a"]}
    assert ann.belief.state == {"found": "nothing"}


def test_different_paths_of_two_agents_are_both_kept() -> None:
    story, ann = started({"totals": {"pages": 1, "words": 1}})
    bob = story.agent("bob").load()

    ann.save({"totals": {"pages": 2}})
    outcome = bob.save({"totals": {"words": 2}})

    assert story.fold.state == {"totals": {"pages": 2, "words": 2}}
    assert outcome.conflicts == []


# --- conflicts ---------------------------------------------------------------------------------


def test_where_a_person_and_an_agent_changed_a_value_the_person_s_stands() -> None:
    story, agent = started({"ceo": "Ann", "pages": 1})
    story.person().edits(state={"ceo": "Bea"})

    outcome = agent.save({"ceo": "Cleo", "pages": 2})

    assert story.fold.state == {"ceo": "Bea", "pages": 2}
    assert outcome.conflicts == ["/ceo"]
    [lost] = outcome.body["conflicts"]
    assert (lost["path"], lost["lost"]) == ("/state/ceo", "Cleo")
    assert (lost["kept_by"], lost["lost_by"]) == ("human", "ann")
    assert story.fold.conflicts[lost["id"]].file == lost["file"]


def test_a_value_that_was_removed_and_lost_is_told_without_one() -> None:
    story, agent = started({"ceo": "Ann"})
    story.person().edits(state={"ceo": "Bea"})

    outcome = agent.save({"ceo": None})

    assert story.fold.state == {"ceo": "Bea"}
    [lost] = outcome.body["conflicts"]
    assert "lost" not in lost


def test_until_it_is_told_an_agent_cannot_overwrite_what_a_person_wrote() -> None:
    story, agent = started({"ceo": "Ann"})
    story.person().edits(state={"ceo": "Bea"})

    for _ in range(3):
        outcome = agent.save({"ceo": "Cleo", "n": len(story.journal)})

        assert outcome.conflicts == ["/ceo"]
        assert story.fold.state["ceo"] == "Bea"


def test_an_agent_that_repeats_its_old_value_is_told_and_changes_nothing() -> None:
    story, agent = started({"ceo": "Ann", "pages": 1})
    story.person().edits(state={"ceo": "Bea"})

    for pages in (2, 3):
        outcome = agent.save({"ceo": "Ann", "pages": pages})

        assert outcome.conflicts == ["/ceo"]
        assert "conflicts" not in outcome.body
        assert story.fold.state == {"ceo": "Bea", "pages": pages}


def test_after_a_load_an_agent_may_insist() -> None:
    story, agent = started({"ceo": "Ann"})
    story.person().edits(state={"ceo": "Bea"})

    outcome = agent.load().save({"ceo": "Ann"})

    assert outcome.conflicts == []
    assert story.fold.state == {"ceo": "Ann"}


def test_a_revision_that_is_given_is_the_base() -> None:
    story, agent = started({"ceo": "Ann"})
    story.person().edits(state={"ceo": "Bea"})

    outcome = agent.save({"ceo": "Ann"}, base=story.fold.state)

    assert outcome.conflicts == []
    assert story.fold.state == {"ceo": "Ann"}


def test_a_merge_result_is_never_taken_for_what_the_caller_knows() -> None:
    story, agent = started({"ceo": "Ann", "pages": 1})
    story.person().edits(state={"ceo": "Bea"})

    agent.save({"pages": 2})

    assert agent.belief.state == {"ceo": "Ann", "pages": 2}


def test_an_object_replaced_by_an_agent_clashes_with_a_person_s_key_below_it() -> None:
    story, agent = started({"totals": {"pages": 1}})
    story.person().edits(state={"totals": {"pages": 1, "words": 5}})

    outcome = agent.save({"totals": "none"})

    assert outcome.conflicts == ["/totals"]
    assert story.fold.state == {"totals": {"pages": 1, "words": 5}}


def test_the_first_state_on_a_run_without_saves_does_not_overwrite_what_others_put_there() -> None:
    story = Story()
    story.agent("bob").mark("one", state={"ceo": "Bea"})

    outcome = story.agent("ann").save({"ceo": "Ann", "pages": 1})

    assert story.fold.state == {"ceo": "Bea", "pages": 1}
    assert outcome.conflicts == ["/ceo"]


def test_a_step_s_state_is_merged_like_a_save_s() -> None:
    story, agent = started({"ceo": "Ann"})
    story.person().edits(state={"ceo": "Bea"})

    outcome = agent.mark("one", state={"ceo": "Cleo", "pages": 2})

    assert story.fold.state == {"ceo": "Bea", "pages": 2}
    assert outcome.conflicts == ["/ceo"]
    assert [lost["lost"] for lost in outcome.body["conflicts"]] == ["Cleo"]


def test_a_lost_value_names_who_wrote_the_one_above_or_below_it() -> None:
    story, agent = started({"a": {"b": {"c": 1}}, "x": {"y": 1}})
    bob = story.agent("bob").load()
    bob.save({"a": {"b": {"c": 2}}, "x": None})

    outcome = agent.save({"a": {"b": 5}, "x": {"y": 2}})

    assert {lost["path"]: lost["kept_by"] for lost in outcome.body["conflicts"]} == {
        "/state/a/b": "bob",
        "/state/x": "bob",
    }


def test_a_value_nobody_remembers_the_writer_of_is_the_last_writer_s() -> None:
    story, agent = started({"ceo": "Ann"})
    story.agent("bob").load().save({"ceo": "Bea"})
    story.fold.changes = Changes()

    [lost] = agent.save({"ceo": "Cleo"}).body["conflicts"]

    assert lost["kept_by"] == "bob"


# --- who may send what -------------------------------------------------------------------------


def test_whoever_never_looked_must_load_before_saving_over_saved_work() -> None:
    story, _ = started({"ceo": "Ann"})

    with pytest.raises(LoadFirst) as refused:
        story.agent("bob").save({"ceo": "Bea"})

    assert refused.value.checkpoint == 1
    assert len(story.journal) == 1


def test_what_was_seen_of_a_run_that_is_over_does_not_count() -> None:
    story, ann = started({"a": 1})
    bob = story.agent("bob").load()
    ann.finish()
    ann.load().save({"b": 2})

    with pytest.raises(LoadFirst):
        bob.save({"a": 2})


def test_replace_that_would_drop_keys_never_shown_is_refused_and_names_them() -> None:
    story, agent = started({"mine": 1})
    story.agent("bob").load().save({"bobs": 1, "more": 2})

    with pytest.raises(WouldDrop) as refused:
        agent.save({"mine": 2}, replace=True)

    assert refused.value.keys == ["bobs", "more"]
    assert story.fold.state == {"mine": 1, "bobs": 1, "more": 2}


def test_replace_may_drop_what_was_shown() -> None:
    story, agent = started({"mine": 1})
    story.agent("bob").load().save({"bobs": 1})

    agent.load().save({"mine": 2}, replace=True)

    assert story.fold.state == {"mine": 2}


def test_replace_does_not_drop_what_a_person_changed_meanwhile() -> None:
    story, agent = started({"ceo": "Ann", "pages": 1})
    story.person().edits(state={"ceo": "Bea"})

    outcome = agent.save({"pages": 2}, replace=True)

    assert story.fold.state == {"ceo": "Bea", "pages": 2}
    assert outcome.conflicts == ["/ceo"]


@pytest.mark.parametrize("replace", [False, True])
def test_a_cut_value_sent_back_means_unchanged(replace: bool) -> None:
    story, agent = started({"findings": ["x"] * 9, "n": 1})

    agent.save({"findings": {"$cut": 99, "path": "/findings"}, "n": 2}, replace=replace)

    assert story.fold.state == {"findings": ["x"] * 9, "n": 2}


def test_a_cut_value_sent_back_does_not_undo_what_a_person_wrote() -> None:
    story, agent = started({"findings": ["x"], "n": 1})
    story.person().edits(state={"findings": ["x", "y"]})

    agent.save({"findings": {"$cut": 99, "path": "/findings"}, "n": 2})

    assert story.fold.state == {"findings": ["x", "y"], "n": 2}


@pytest.mark.parametrize(
    "state", [{"a": {"$enc": 1}}, {"a": {"$cut": 1}}, {"a": {"$cut": 1, "path": "/gone"}}]
)
def test_reserved_keys_are_refused(state: dict[str, Any]) -> None:
    story, agent = started({"a": 1})

    with pytest.raises(InvalidValue):
        agent.save(state)

    assert len(story.journal) == 1


# --- limits ------------------------------------------------------------------------------------


def small(**limits: int) -> Story:
    return Story(settings=Settings(limits=Limits(**limits)))


def test_a_state_over_its_limit_is_refused_however_it_came_about() -> None:
    story = small(state_bytes=200)
    agent = story.agent()
    agent.save({"a": "x" * 100})

    with pytest.raises(TooLarge):
        agent.save({"b": "x" * 300})
    with pytest.raises(TooLarge):
        agent.save({"b": "x" * 150})
    with pytest.raises(TooLarge):
        agent.save(append={"b": ["x" * 150]})

    assert story.fold.state == {"a": "x" * 100}


def test_a_state_that_stays_within_its_limit_may_change_for_ever() -> None:
    story = small(state_bytes=300)
    agent = story.agent()

    for number in range(20):
        agent.save({"a": str(number) * 50})

    assert story.fold.checkpoint == 20


def test_a_state_that_is_no_object_or_too_deep_is_refused() -> None:
    agent = small(depth=3).agent()

    with pytest.raises(InvalidValue):
        agent.save([1])  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        agent.save({"a": {"b": {"c": {"d": 1}}}})


# --- being told --------------------------------------------------------------------------------


def test_what_a_person_changed_is_told_with_every_answer_until_the_next_load() -> None:
    story, agent = started({"ceo": "Ann"})
    story.person().edits(state={"ceo": "Bea"}, goal="the goal")

    for step in ("one", "two"):
        changes = agent.mark(step).changes

        assert changes == [
            {"by": "human", "path": "/state/ceo", "from": "Ann", "to": "Bea"},
            {"by": "human", "path": "/goal", "from": "", "to": "the goal"},
        ]
    assert agent.load().mark("three").changes == []


def test_what_another_agent_changed_is_told_once() -> None:
    story, ann = started({"n": 1})
    bob = story.agent("bob").load()

    bob.save({"n": 2})

    assert [told["to"] for told in ann.mark("one").changes] == [2]
    assert ann.mark("two").changes == []


def test_nobody_is_told_of_its_own_changes() -> None:
    _, agent = started({"n": 1})

    assert agent.save({"n": 2}, goal="g").changes == []


def test_several_changes_of_one_value_are_told_as_one() -> None:
    story, agent = started({"n": 1})
    for n in (2, 3):
        story.person().edits(state={"n": n})

    [told] = agent.mark("one").changes

    assert (told["from"], told["to"]) == (1, 3)


def test_values_that_came_or_went_are_told_as_null_and_large_ones_as_cut() -> None:
    story, agent = started({"old": 1, "large": "x"})
    buffer = story.person().opens()
    del buffer.document["state"]["old"]
    buffer.saves(state={"new": 2, "large": "y" * 500})

    told = {change["path"]: (change["from"], change["to"]) for change in agent.mark("one").changes}

    assert told == {
        "/state/new": (None, 2),
        "/state/old": (1, None),
        "/state/large": ("x", {"$cut": 502, "path": "/large"}),
    }


def test_whoever_meets_a_task_for_the_first_time_has_nothing_to_unlearn() -> None:
    story, _ = started({"n": 1})
    story.person().edits(state={"n": 2})

    assert story.agent("bob").mark("one").changes == []
