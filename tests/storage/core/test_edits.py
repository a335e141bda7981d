"""What people write into `state.json`, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.core.stories import Story, started

from holdfast_storage.core.delta import diff
from holdfast_storage.core.edits import (
    Base,
    SavedFile,
    apply_said,
    decide_edit,
    decide_keep_aside,
    is_known,
)
from holdfast_storage.core.limits import Limits, Settings
from holdfast_storage.core.records import Record
from holdfast_storage.core.strict_json import is_object, pretty


def body_of(record: Record | None) -> Mapping[str, Any]:
    assert record is not None
    return record.body


def warnings_of(record: Record | None) -> list[str]:
    warnings: list[str] = body_of(record).get("warnings", [])
    return warnings


def lost_by_path(record: Record | None) -> dict[str, Any]:
    return {lost["path"]: lost.get("lost") for lost in body_of(record).get("conflicts", ())}


# --- what a person may write -------------------------------------------------------------------


def test_an_edit_is_a_revision_of_its_own_with_an_author() -> None:
    story, _ = started({"ceo": "Ann"})

    record = story.person().edits(state={"ceo": "Bea"}, goal="the goal", next="go on")

    assert record is not None
    assert (record.op, record.by, record.seq) == ("edit", "human", 2)
    assert {"base", "digest", "mtime_ns"} <= record.body.keys()
    fold = story.fold
    assert (fold.state, fold.goal, fold.next) == ({"ceo": "Bea"}, "the goal", "go on")


@pytest.mark.parametrize("word", ["done", "failed", "skipped"])
def test_a_person_may_say_how_a_step_ended(word: str) -> None:
    story, _ = started(plan=["one", "two"])

    story.person().edits(plan={"one": word})

    assert story.status_of("one") == word
    assert story.status_of("two") == "pending"


def test_a_person_may_make_a_failed_step_pending() -> None:
    story, agent = started()
    agent.mark("one", outcome="failed")

    story.person().edits(plan={"one": "pending"})

    assert story.status_of("one") == "pending"


@pytest.mark.parametrize(("word", "status"), [("done", "done"), ("pending", "pending")])
@pytest.mark.parametrize("how", ["lease", "release", "gap"])
def test_a_person_s_word_settles_a_doubt(how: str, word: str, status: str) -> None:
    story, agent = started(plan=["one"])
    if how == "gap":
        agent.save(next="x")
        agent.save(next="y")
        story.lose(2)
    else:
        agent.begin("one")
    if how == "lease":
        story.later(hours=1)
    if how == "release":
        story.person().release("one")
    assert story.status_of("one") == "in_doubt"

    story.person().edits(plan={"one": word})

    assert story.status_of("one") == status
    assert story.fold.claims == {}


def test_a_step_that_a_person_ended_is_not_done_again_by_whoever_held_it() -> None:
    story, agent = started(plan=["one"])
    claim = agent.begin("one")["claim"]

    story.person().edits(plan={"one": "done"})

    assert agent.mark("one", "sent", claim=claim).record is None


@pytest.mark.parametrize("shown", ["running", "in_doubt"])
def test_a_status_that_time_changed_since_it_was_shown_is_no_edit(shown: str) -> None:
    story, agent = started(plan=["one"])
    agent.begin("one")

    record = story.person().edits(plan={"one": shown}, goal="g")

    assert "steps" not in body_of(record)
    assert story.status_of("one") == "running"


def test_a_new_key_adds_a_step_where_it_stands() -> None:
    story, _ = started(plan=["one", "two"])
    buffer = story.person().opens()
    buffer.document["plan"] = {"one": "pending", "new": "pending", "two": "pending"}

    buffer.saves()

    assert story.fold.order == ["one", "new", "two"]


def test_a_new_key_may_say_that_the_step_is_done_already() -> None:
    story, _ = started(plan=["one"])

    story.person().edits(plan={"new": "done"})

    assert story.status_of("new") == "done"
    assert story.fold.last_done == "new"


def test_the_order_of_keys_is_the_order_of_steps() -> None:
    story, agent = started(plan=["one", "two", "three"])
    buffer = story.person().opens()
    buffer.document["plan"] = {"three": "pending", "one": "pending", "two": "pending"}

    buffer.saves()

    assert agent.begin()["step"] == "three"


def test_a_deleted_line_means_nothing() -> None:
    story, _ = started({"a": 1}, plan=["one", "two"], goal="g", next="n")
    buffer = story.person().opens()
    del buffer.document["plan"]["one"]
    for name in ("goal", "next", "state", "status", "questions", "reopen"):
        del buffer.document[name]

    record = buffer.saves()

    assert record is None
    assert story.fold.order == ["one", "two"]
    assert (story.fold.state, story.fold.goal) == ({"a": 1}, "g")


def test_a_key_deleted_from_the_state_is_removed() -> None:
    story, _ = started({"a": 1, "b": 2})
    buffer = story.person().opens()
    del buffer.document["state"]["a"]

    buffer.saves()

    assert story.fold.state == {"b": 2}


def test_names_written_into_reopen_become_pending_again() -> None:
    story, agent = started()
    agent.mark("one")
    agent.mark("two", outcome="failed")
    agent.mark("three", outcome="skipped")

    story.person().edits(reopen=["one", "two", "three", "one"])

    assert [story.status_of(step) for step in ("one", "two", "three")] == ["pending"] * 3
    assert story.fold.steps["one"].reopened == 1


def test_reopening_what_is_pending_says_nothing_and_what_is_unknown_warns() -> None:
    story, _ = started(plan=["one"])

    assert story.person().edits(reopen=["one"]) is None
    record = story.person().edits(reopen=["never-heard-of", 5, ["one"]])

    assert len(warnings_of(record)) == 3
    assert "reopen" not in body_of(record)


def test_a_doubt_is_not_reopened() -> None:
    story, agent = started()
    agent.begin("one")

    record = story.person().edits(reopen=["one"])

    assert len(warnings_of(record)) == 1
    assert story.status_of("one") == "running"


def test_an_answer_answers() -> None:
    story, agent = started()
    agent.ask("Skip it?", options=["skip", "stop"])
    buffer = story.person().opens()
    buffer.document["questions"][0]["answer"] = "skip"

    buffer.saves()

    assert story.fold.questions["q1"].answer == "skip"
    assert story.fold.status == "active"


@pytest.mark.parametrize("status", ["paused", "abandoned", "done"])
def test_a_person_may_set_the_status(status: str) -> None:
    story, _ = started()

    story.person().edits(status=status)

    assert story.fold.status == status
    assert story.fold.paused_by_person == (status == "paused")
    assert story.fold.is_closed == (status != "paused")


def test_a_person_s_pause_ends_when_a_person_sets_active() -> None:
    story, agent = started()
    story.person().edits(status="paused")
    agent.save({"a": 1})

    story.person().edits(status="active")

    assert (story.fold.status, story.fold.paused_by_person) == ("active", False)


def test_a_person_who_pauses_what_an_agent_paused_meanwhile_holds_it() -> None:
    story, agent = started()
    buffer = story.person().opens()
    agent.finish("paused")

    buffer.saves(status="paused")
    agent.save({"a": 1})

    assert (story.fold.status, story.fold.paused_by_person) == ("paused", True)


def test_setting_active_while_a_question_is_open_leaves_the_task_waiting() -> None:
    story, agent = started()
    agent.ask("Skip it?")

    story.person().edits(status="active")

    assert story.fold.status == "waiting"


def test_done_by_hand_closes_the_run_for_late_writers() -> None:
    story, agent = started(plan=["one"])

    story.person().edits(plan={"one": "skipped"}, status="done")

    assert story.fold.is_closed
    assert story.fold.closed_seq == story.fold.seq
    assert agent.belief.told < story.fold.closed_seq


@pytest.mark.parametrize(
    "also",
    [
        {},
        {"plan": {"two": "done"}},
        {"plan": {"one": "done", "new": "pending"}},
        {"plan": {"one": "done"}, "reopen": ["finished"]},
        {"plan": {"one": "failed"}},
    ],
)
def test_done_with_unfinished_steps_is_put_back_with_a_warning(also: dict[str, Any]) -> None:
    story, agent = started(plan=["one"])
    agent.mark("finished")

    record = story.person().edits(status="done", **also)

    assert story.fold.status == "active"
    assert any(warning.startswith("status was put back") for warning in warnings_of(record))


def test_done_with_a_question_that_the_same_edit_answers_is_done() -> None:
    story, agent = started()
    agent.ask("Skip it?")
    buffer = story.person().opens()
    assert "status" not in body_of(buffer.saves(status="done"))

    buffer = story.person().opens()
    buffer.document["questions"][0]["answer"] = "skip"
    buffer.saves(status="done")

    assert story.fold.status == "done"


# --- what is put back --------------------------------------------------------------------------


def test_what_belongs_to_holdfast_is_put_back() -> None:
    story, agent = started({"a": 1})
    agent.mark("one")
    before = story.person().opens()
    buffer = story.person().opens()
    buffer.document["task"] = "another"
    buffer.document["$schema"] = "elsewhere"
    buffer.document["read_only"]["progress"]["done"] = 99

    record = buffer.saves()

    assert record is None
    assert story.person().opens().raw == before.raw


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"goal": 5}, "goal"),
        ({"next": "x" * 20_000}, "next"),
        ({"state": []}, "state"),
        ({"state": {"$cut": 5}}, "state"),
        ({"state": {"a": [{"$enc": 5}]}}, "state"),
        ({"plan": ["one"]}, "plan"),
        ({"plan": {"one": "perhaps"}}, "plan: one"),
        ({"plan": {"one": None}}, "plan: one"),
        ({"plan": {"": "done"}}, "plan"),
        ({"reopen": "one"}, "reopen"),
        ({"questions": {}}, "questions"),
        ({"status": "failed"}, "status"),
        ({"status": ["done"]}, "status"),
    ],
)
def test_what_nobody_can_take_in_is_put_back_with_a_warning(
    values: dict[str, Any], what: str
) -> None:
    story, agent = started({"a": 1}, plan=["one"])
    agent.ask("Skip it?")

    record = story.person().edits(**values)

    [warning] = warnings_of(record)
    assert warning.startswith(f"{what} was put back: ")
    assert story.fold.edit_warnings == [warning]
    assert story.fold.state == {"a": 1}
    assert story.status_of("one") == "pending"


def test_the_rest_of_an_edit_counts_all_the_same() -> None:
    story, _ = started({"a": 1})

    story.person().edits(goal=5, next="go on", state={"a": 2})

    assert (story.fold.goal, story.fold.next, story.fold.state) == ("", "go on", {"a": 2})


def test_a_state_over_the_limit_is_put_back() -> None:
    story = Story(settings=Settings(limits=Limits(state_bytes=100)))
    story.agent().save({"a": 1})

    record = story.person().edits(state={"a": "x" * 200})

    assert len(warnings_of(record)) == 1
    assert story.fold.state == {"a": 1}


@pytest.mark.parametrize(
    ("questions", "warns"),
    [
        ([5], False),
        ([{"id": "q1"}], False),
        ([{"id": "q9", "answer": "yes"}], True),
        ([{"id": 5, "answer": "yes"}], True),
        ([{"id": "q1", "answer": "x" * 20_000}], True),
    ],
)
def test_an_answer_that_cannot_be_taken_in_is_told(questions: list[Any], warns: bool) -> None:
    story, agent = started()
    agent.ask("Skip it?")
    buffer = story.person().opens()
    buffer.document["questions"] = questions

    record = buffer.saves(goal="g")

    assert bool(warnings_of(record)) == warns
    assert story.fold.questions["q1"].answer is None


def test_a_step_done_meanwhile_stays_done() -> None:
    story, agent = started(plan=["one"])
    buffer = story.person().opens()
    agent.mark("one")

    record = buffer.saves(plan={"one": "skipped"})

    assert len(warnings_of(record)) == 1
    assert story.status_of("one") == "done"


def test_a_step_that_an_agent_ended_the_same_way_meanwhile_is_no_news() -> None:
    story, agent = started(plan=["one"])
    buffer = story.person().opens()
    agent.mark("one")

    assert buffer.saves(plan={"one": "done"}) is None


def test_warnings_of_one_edit_are_gone_with_the_next() -> None:
    story, _ = started()
    story.person().edits(goal=5)
    assert story.fold.edit_warnings

    story.person().edits(goal="g")

    assert story.fold.edit_warnings == []


# --- unknown keys ------------------------------------------------------------------------------


def test_an_unknown_key_is_kept_and_warned_about() -> None:
    story, agent = started()

    record = story.person().edits(todo=["call Eva"])
    agent.save({"a": 1})

    assert len(warnings_of(record)) == 1
    assert story.person().opens().document["todo"] == ["call Eva"]


def test_an_unknown_key_is_warned_about_once() -> None:
    story, _ = started()
    story.person().edits(todo=1)

    record = story.person().edits(todo=2)

    assert warnings_of(record) == []
    assert story.fold.extra == {"todo": 2}


def test_an_unknown_key_may_be_taken_out_again() -> None:
    story, _ = started()
    story.person().edits(todo=1, other=2)
    buffer = story.person().opens()
    del buffer.document["todo"]

    buffer.saves()

    assert story.fold.extra == {"other": 2}


def test_an_unknown_key_the_file_did_not_show_is_not_deleted() -> None:
    story, _ = started()
    old = story.person().opens()
    story.later(minutes=1)
    story.agent().load().save({"b": 1})
    story.person().edits(todo=1)
    story.later(minutes=1)

    old.saves(goal="g")

    assert story.fold.extra == {"todo": 1}


def test_of_an_unknown_key_that_two_people_wrote_the_last_one_stands() -> None:
    story, agent = started()
    old = story.person().opens()
    agent.save({"a": 1})
    story.person().edits(todo="first")
    story.later(minutes=1)

    record = old.saves(todo="second")

    assert story.fold.extra == {"todo": "second"}
    assert lost_by_path(record) == {"/todo": "first"}


def test_unknown_keys_have_a_limit() -> None:
    story, _ = started()

    record = story.person().edits(todo="x" * 70_000)

    assert len(warnings_of(record)) == 1
    assert story.fold.extra == {}


# --- merging with what agents did --------------------------------------------------------------


def test_what_an_agent_did_while_the_file_was_open_is_not_undone() -> None:
    story, agent = started({"ceo": "Ann", "pages": 1}, plan=["one", "two"], next="one")
    buffer = story.person().opens()
    agent.mark("one", state={"pages": 2}, next="two")
    agent.save(plan=["three"])

    buffer.saves(state={"ceo": "Bea"})

    fold = story.fold
    assert fold.state == {"ceo": "Bea", "pages": 2}
    assert (fold.next, list(fold.unfinished)) == ("two", ["two", "three"])


def test_where_both_changed_a_value_the_person_s_stands_and_the_agent_s_is_kept_aside() -> None:
    story, agent = started({"ceo": "Ann"}, goal="old")
    buffer = story.person().opens()
    agent.save({"ceo": "Cleo"}, goal="agent's")

    record = buffer.saves(state={"ceo": "Bea"}, goal="person's")

    assert (story.fold.state, story.fold.goal) == ({"ceo": "Bea"}, "person's")
    assert lost_by_path(record) == {"/state/ceo": "Cleo", "/goal": "agent's"}
    assert {lost.lost_by for lost in story.fold.conflicts.values()} == {"ann"}


def test_where_both_wrote_the_same_there_is_nothing_to_record() -> None:
    story, agent = started({"ceo": "Ann"})
    buffer = story.person().opens()
    agent.save({"ceo": "Bea"}, goal="g")

    assert buffer.saves(state={"ceo": "Bea"}, goal="g") is None


def test_an_object_replaced_by_a_scalar_while_an_agent_adds_a_key_below_it() -> None:
    story, agent = started({"totals": {"pages": 1}})
    buffer = story.person().opens()
    agent.save({"totals": {"words": 2}})
    buffer.document["state"]["totals"] = "none"

    record = buffer.saves()

    assert story.fold.state == {"totals": "none"}
    assert lost_by_path(record) == {"/state/totals": {"pages": 1, "words": 2}}


def test_an_object_that_both_give_keys_has_not_itself_changed() -> None:
    story, agent = started({"totals": {"pages": 1}})
    buffer = story.person().opens()
    agent.save({"totals": {"words": 2}})

    record = buffer.saves(state={"totals": {"pages": 1, "lines": 3}})

    assert story.fold.state == {"totals": {"pages": 1, "words": 2, "lines": 3}}
    assert "conflicts" not in body_of(record)


def test_lists_are_atomic() -> None:
    story, agent = started({"found": ["a"]})
    buffer = story.person().opens()
    agent.save(append={"found": ["b"]})

    record = buffer.saves(state={"found": ["a", "c"]})

    assert story.fold.state == {"found": ["a", "c"]}
    assert lost_by_path(record) == {"/state/found": ["a", "b"]}


def test_a_list_of_which_a_person_s_is_the_longer_one_is_set_as_a_whole() -> None:
    story, agent = started({"found": ["a"]})
    buffer = story.person().opens()
    agent.save(append={"found": ["b"]})

    record = buffer.saves(state={"found": ["a", "b", "c"]})

    assert body_of(record)["changes"] == {"set": {"/found": ["a", "b", "c"]}}


def test_an_edit_is_told_to_agents_and_cannot_be_overwritten_unseen() -> None:
    story, agent = started({"ceo": "Ann"})
    story.person().edits(state={"ceo": "Bea"})

    outcome = agent.save({"ceo": "Ann", "pages": 1})

    assert [told["path"] for told in outcome.changes] == ["/state/ceo"]
    assert story.fold.state["ceo"] == "Bea"


# --- known edits, open buffers, undo -----------------------------------------------------------


def test_a_file_is_taken_in_once() -> None:
    story, _ = started({"ceo": "Ann"})
    buffer = story.person().opens()

    assert buffer.saves(state={"ceo": "Bea"}, at=100) is not None
    assert buffer.saves(at=100) is None
    assert buffer.saves(at=200) is None  # touched, not changed


def test_a_view_as_it_was_rendered_is_no_edit() -> None:
    story, _ = started({"ceo": "Ann"})
    buffer = story.person().opens()

    assert buffer.undoes(at=100) is None
    assert is_known(story.fold, buffer.file(buffer.raw, 10**18))


def test_two_saves_from_one_buffer_are_two_edits() -> None:
    story, agent = started({"ceo": "Ann", "pages": 1})
    buffer = story.person().opens()
    buffer.saves(state={"ceo": "Bea"}, at=100)
    agent.load().save({"ceo": "Cleo"})

    record = buffer.saves(state={"pages": 2}, at=200)

    assert body_of(record)["changes"] == {"set": {"/pages": 2}}
    assert story.fold.state == {"ceo": "Cleo", "pages": 2}


def test_what_the_second_save_from_a_buffer_repeats_is_no_news() -> None:
    story, agent = started({"a": 1}, plan=["one", "two"], goal="g", next="n")
    agent.mark("finished")
    agent.ask("Skip it?")
    buffer = story.person().opens()
    buffer.document["questions"][0]["answer"] = "skip"
    said: dict[str, Any] = {"goal": "h", "plan": {"one": "skipped", "new": "pending"}}
    buffer.saves(**said, reopen=["finished"], status="paused", extra=1, at=100)
    agent.load().mark("finished")
    agent.save(goal="agent's", next="agent's")
    agent.mark("one", outcome="done")
    story.person().answer("q1", "stop")

    record = buffer.saves(state={"a": 2}, at=200)

    assert set(body_of(record)) == {"base", "digest", "mtime_ns", "changes"}
    assert story.fold.goal == "agent's"
    assert story.status_of("finished") == "done"
    assert story.fold.questions["q1"].answer == "stop"


def test_a_buffer_saved_as_it_was_before_is_known_unless_it_is_newer() -> None:
    story, _ = started({"ceo": "Ann"})
    buffer = story.person().opens()
    buffer.saves(state={"ceo": "Bea"}, at=100)
    first = pretty(buffer.document)
    buffer.saves(state={"ceo": "Cleo"}, at=200)

    assert buffer.saves(raw=first, at=150) is None
    assert story.fold.state == {"ceo": "Cleo"}

    assert buffer.saves(raw=first, at=300) is not None
    assert story.fold.state == {"ceo": "Bea"}


def test_pressing_undo_takes_the_edit_back() -> None:
    story, agent = started({"ceo": "Ann", "pages": 1})
    buffer = story.person().opens()
    buffer.saves(state={"ceo": "Bea"}, at=100)
    agent.load().save({"pages": 2})

    assert buffer.undoes(at=50) is None
    buffer.undoes(at=200)

    assert story.fold.state == {"ceo": "Ann", "pages": 2}
    assert buffer.undoes(at=200) is None


def test_an_old_rendering_found_after_several_edits_is_no_undo() -> None:
    story, _ = started({"a": 0, "b": 0})
    buffer, other = story.person().opens(), story.person().opens()
    buffer.saves(state={"a": 1}, at=300)
    other.saves(state={"b": 1}, at=100)

    assert buffer.undoes(at=200) is None
    assert story.fold.state == {"a": 1, "b": 1}


def test_two_people_on_one_view_the_last_save_stands_and_what_it_took_back_is_kept() -> None:
    story, _ = started({"ceo": "Ann", "cfo": "Ann", "pages": 1}, goal="g")
    eva, otto = story.person().opens(), story.person().opens()
    eva.saves(state={"ceo": "Bea", "cfo": "Bea"}, goal="eva's", at=100)

    record = otto.saves(state={"cfo": "Cleo", "pages": 2}, at=200)

    assert story.fold.state == {"ceo": "Ann", "cfo": "Cleo", "pages": 2}
    assert story.fold.goal == "g"
    assert lost_by_path(record) == {"/state/ceo": "Bea", "/goal": "eva's"}
    assert len(story.fold.conflicts) == 2


def test_what_one_save_took_back_was_not_in_its_file() -> None:
    story, agent = started({"ceo": "Ann", "pages": 1})
    eva, otto = story.person().opens(), story.person().opens()
    eva.saves(state={"ceo": "Bea"}, at=100)
    otto.saves(state={"pages": 2}, at=200)
    agent.load().save({"ceo": "Cleo"})

    record = otto.saves(state={"pages": 3}, at=300)

    assert body_of(record)["changes"] == {"set": {"/pages": 3}}
    assert story.fold.state == {"ceo": "Cleo", "pages": 3}


def test_an_older_edit_found_later_goes_to_conflicts_where_a_newer_one_stands() -> None:
    story, _ = started({"ceo": "Ann", "pages": 1, "gone": 1}, goal="g", next="n")
    older, newer = story.person().opens(), story.person().opens()
    del newer.document["state"]["gone"]
    newer.saves(state={"ceo": "newer"}, goal="newer", next="newer", at=200)

    record = older.saves(state={"ceo": "older", "gone": 2, "pages": 2}, goal="older", at=100)

    assert story.fold.state == {"ceo": "newer", "pages": 2}
    assert (story.fold.goal, story.fold.next) == ("newer", "newer")
    assert lost_by_path(record) == {"/state/ceo": "older", "/state/gone": 2, "/goal": "older"}


def test_an_older_answer_status_or_step_found_later_does_not_replace_a_newer_one() -> None:
    story, agent = started(plan=["one"])
    agent.ask("Skip it?")
    older, newer = story.person().opens(), story.person().opens()
    newer.document["questions"][0]["answer"] = "newer"
    newer.saves(status="paused", plan={"one": "skipped"}, at=200)

    older.document["questions"][0]["answer"] = "older"
    record = older.saves(status="abandoned", plan={"one": "failed"}, at=100)

    assert story.fold.questions["q1"].answer == "newer"
    assert story.fold.status == "paused"
    assert story.status_of("one") == "skipped"
    assert lost_by_path(record) == {
        "/questions/q1/answer": "older",
        "/status": "abandoned",
        "/plan/one": "failed",
    }


def test_an_older_edit_below_an_object_that_a_newer_one_replaced_goes_to_conflicts() -> None:
    story, _ = started({"totals": {"pages": 1}})
    older, newer = story.person().opens(), story.person().opens()
    newer.document["state"]["totals"] = 7
    newer.saves(at=200)

    record = older.saves(state={"totals": {"pages": 2}}, at=100)

    assert story.fold.state == {"totals": 7}
    assert lost_by_path(record) == {"/state/totals": {"pages": 2}}


def test_where_an_agent_wrote_since_an_older_edit_is_merged_like_any_other() -> None:
    story, agent = started({"ceo": "Ann"}, goal="g")
    older, newer = story.person().opens(), story.person().opens()
    newer.saves(state={"ceo": "newer"}, goal="newer", at=200)
    agent.load().save({"ceo": "agent's"}, goal="agent's")

    record = older.saves(state={"ceo": "older"}, goal="older", at=100)

    assert (story.fold.state, story.fold.goal) == ({"ceo": "older"}, "older")
    assert lost_by_path(record) == {"/state/ceo": "agent's", "/goal": "agent's"}


def test_what_an_older_edit_lost_was_in_its_file_all_the_same() -> None:
    story, agent = started({"ceo": "Ann", "gone": 1, "pages": 1})
    older, newer = story.person().opens(), story.person().opens()
    newer.saves(state={"ceo": "newer", "gone": 2}, at=200)
    del older.document["state"]["gone"]
    older.saves(state={"ceo": "older"}, at=100)
    agent.load().save({"ceo": "Cleo", "gone": 3})

    record = older.saves(state={"pages": 2}, at=150)

    assert body_of(record)["changes"] == {"set": {"/pages": 2}}
    assert story.fold.state == {"ceo": "Cleo", "gone": 3, "pages": 2}


def test_what_an_older_edit_said_in_vain_is_not_said_again_by_its_next_save() -> None:
    story, agent = started({"pages": 1}, plan=["one"], goal="g")
    older, newer = story.person().opens(), story.person().opens()
    newer.saves(goal="newer", plan={"one": "skipped"}, at=200)
    older.saves(goal="older", plan={"one": "failed"}, at=100)
    agent.load().save(goal="agent's")

    record = older.saves(state={"pages": 2}, at=150)

    assert lost_by_path(record) == {}
    assert story.fold.goal == "agent's"
    assert story.status_of("one") == "skipped"


def test_what_an_ingested_edit_said_cannot_always_be_told() -> None:
    said = Record(2, "x", "", "human", "edit", {"changes": {"drop": ["/gone"]}})

    with pytest.raises(ValueError, match="does not fit"):
        apply_said({"state": {}, "plan": {}, "reopen": [], "questions": []}, said)


def test_a_lost_value_that_has_no_place_any_more_is_left_out() -> None:
    lost = {"path": "/state/a/b", "lost_by": "human", "lost": 1}
    said = Record(2, "x", "", "human", "edit", {"conflicts": [lost]})
    content: dict[str, Any] = {"state": {}, "plan": {}, "reopen": [], "questions": []}

    assert apply_said(content, said)["state"] == {}


# --- kept aside --------------------------------------------------------------------------------


def test_a_file_that_cannot_be_merged_is_announced_once() -> None:
    story, _ = started({"ceo": "Ann"})
    file = SavedFile({"state": {}}, "digest", 100, 0)
    context = story.context("human", is_person=True)

    story.write(decide_keep_aside(story.fold, file, "conflicts/x.json", "because", context))

    [lost] = story.fold.conflicts.values()
    assert (lost.file, lost.path, lost.lost_by) == ("conflicts/x.json", "", "human")
    assert story.fold.edit_warnings == ["because"]
    assert story.fold.state == {"ceo": "Ann"}
    again = decide_keep_aside(story.fold, file, "conflicts/x.json", "because", context)
    assert again.draft is None
    assert decide_edit(story.fold, file, Base({}, {}), context).draft is None


# --- for all edits -----------------------------------------------------------------------------

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([0, 1, "x", None, [1]]),
    lambda inner: st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
STATES = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@settings(max_examples=100, deadline=None)
@given(STATES, STATES, STATES)
def test_every_change_of_a_person_stands(first: Any, agents: Any, persons: Any) -> None:
    story = Story()
    agent = story.agent()
    agent.save(first, replace=True)
    buffer = story.person().opens()
    agent.save(agents, replace=True)
    buffer.document["state"] = persons

    buffer.saves()

    changes = diff(first, persons)
    for path in changes.get("set", {}):
        assert diff({"v": at(story.fold.state, path)}, {"v": at(persons, path)}) == {} or (
            # where both made an object, it has the keys of both
            is_object(at(persons, path))
        )
    for path in changes.get("drop", ()):
        assert at(story.fold.state, path) is None or is_object(at(agents, path))


def at(value: Any, path: str) -> Any:
    for key in path.split("/")[1:]:
        value = value.get(key) if is_object(value) else None
    return value


@settings(max_examples=100, deadline=None)
@given(STATES, STATES, STATES)
def test_a_file_taken_in_says_nothing_new_afterwards(first: Any, agents: Any, persons: Any) -> None:
    story = Story()
    agent = story.agent()
    agent.save(first, replace=True)
    buffer = story.person().opens()
    agent.save(agents, replace=True)
    buffer.document["state"] = persons
    buffer.saves(at=100)

    assert buffer.saves(at=100) is None
