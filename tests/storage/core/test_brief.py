from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.core.stories import Story, started

from holdfast_storage.core import hints
from holdfast_storage.core.brief import BriefRequest, compose, is_person, shortened
from holdfast_storage.core.delta import at, path_of
from holdfast_storage.core.snapshot import plain
from holdfast_storage.core.strict_json import encode


def brief_of(story: Story, max_tokens: int = 3000, **more: Any) -> dict[str, Any]:
    request = BriefRequest(
        now=story.now, gone=story.gone, max_tokens=max_tokens, state=story.fold.snapshot
    )
    brief = compose(story.fold, replace(request, **more))
    return brief | {"state": plain(brief["state"])}


def tokens(brief: dict[str, Any]) -> float:
    return len(encode(brief).decode()) / 4


@pytest.fixture(scope="module")
def large() -> Story:
    """A task with 10,000 steps and a state of 1 MiB."""
    story, agent = started(
        {
            "model": "small",
            "totals": {"pages": 812, "words": 99},
            "findings": [{"n": n, "text": "x" * 80} for n in range(8_000)],
            "notes": {f"note-{n}": "y" * 100 for n in range(3_000)},
        },
        plan=[f"doc-{number:05}" for number in range(10_000)],
        goal="Summarise all contracts. " * 100,
        next="doc-00003, then the annexes. " * 50,
        refs=[{"ref": f"out/{n}.csv", "size": n} for n in range(100)],
    )
    assert len(encode(story.fold.state)) > 2**20
    for number in range(3):
        agent.mark(f"doc-{number:05}")
    agent.begin("doc-00003")
    agent.begin("doc-00004")
    story.person().release("doc-00004")
    for number in range(30):
        agent.ask(f"Question {number}? " * 20)
    return story


# --- it fits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("max_tokens", [150, 500, 3000])
def test_a_brief_fits_whatever_the_task_holds(large: Story, max_tokens: int) -> None:
    changes = [
        {"by": "human", "path": f"/state/k{n}", "from": "x" * 250, "to": "y" * 250}
        for n in range(20)
    ]
    refs = [{"ref": f"out/{n}.csv", "status": "ok"} for n in range(50)]
    warnings = ["something is wrong with the journal " * 10] * 20

    brief = brief_of(large, max_tokens, changes=changes, refs=refs, warnings=warnings)

    assert tokens(brief) <= max_tokens
    assert brief["revision"] == large.fold.seq
    assert brief["in_doubt"] == ["doc-00004"]
    assert brief["hint"]


@pytest.mark.parametrize("max_tokens", [150, 500, 3000])
def test_a_brief_of_a_healthy_task_fits_and_says_how_to_go_on(
    large: Story, max_tokens: int
) -> None:
    brief = brief_of(large, max_tokens)

    assert tokens(brief) <= max_tokens
    assert brief["progress"]["total"] == 10_000


@pytest.mark.parametrize("max_tokens", [500, 3000])
def test_most_of_what_may_be_spent_is_spent(large: Story, max_tokens: int) -> None:
    notes = {f"note-{n:05}": "y" * 100 for n in range(100)}

    brief = brief_of(large, max_tokens, state={"small": 1, "notes": {"few": notes}})

    assert tokens(brief) > max_tokens / 2


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "ü", "d"]), st.text(max_size=900) | st.integers(), max_size=4
    ),
    st.text(max_size=600),
    st.lists(
        st.text("abc-é", min_size=1, max_size=40).filter(lambda t: t == t.strip()), max_size=9
    ),
    st.integers(150, 900),
)
def test_a_brief_fits_for_all_states_texts_and_plans(
    state: Any, goal: str, plan: list[str], max_tokens: int
) -> None:
    story, _ = started(state, plan=plan, goal=goal)

    assert tokens(brief_of(story, max_tokens)) <= max_tokens


def test_fewer_tokens_than_make_sense_are_taken_as_the_least() -> None:
    story, _ = started({"a": 1})

    assert brief_of(story, 1) == brief_of(story, 150)


def test_names_are_never_cut_even_where_they_do_not_fit() -> None:
    story = Story("t" * 500)
    story.agent("a" * 400).save({"a": "x" * 900})

    brief = brief_of(story, 150)

    assert brief["task"] == "t" * 500
    assert brief["state"] == {"$cut": 908, "path": ""}


def test_what_fits_comes_whole() -> None:
    story, agent = started({"a": [1, 2]}, plan=["one", "two"], goal="the goal", next="one")
    agent.mark("one")

    brief = brief_of(story, resumes=2, more={"chosen_because": "it is the only one"})

    assert brief["state"] is story.fold.state
    assert (brief["goal"], brief["next"], brief["remaining"]) == ("the goal", "one", ["two"])
    assert brief["progress"]["resumes"] == 2
    assert brief["chosen_because"] == "it is the only one"
    assert brief["found"] is True


def test_a_value_too_large_comes_as_name_and_size_and_can_be_fetched(large: Story) -> None:
    state = brief_of(large, 500)["state"]

    assert state["model"] == "small"
    assert state["findings"]["path"] == "/findings"
    size = state["findings"]["$cut"]
    assert size == len(encode(at(large.fold.state, path_of("/findings"))))


def test_a_part_of_the_state_is_fetched_by_its_path(large: Story) -> None:
    part = large.fold.state["notes"]

    brief = brief_of(large, 500, state=part, state_path=("notes",))
    whole = brief_of(large, state=part["note-7"], state_path=("notes", "note-7"))

    assert brief["state"]["path"] == "/notes"
    assert whole["state"] == "y" * 100


def test_a_state_that_cannot_be_read_is_unknown_and_not_empty() -> None:
    story, agent = started({"a": 1})
    agent.mark("one")
    story.damage(1)

    brief = brief_of(story)

    assert brief["state"] is None
    assert hints.STATE_LOST in brief["hint"]


# --- what is in it -----------------------------------------------------------------------------


def test_what_runs_is_apart_from_what_remains_and_what_is_in_doubt_from_both() -> None:
    story, agent = started(plan=["runs", "doubt", "failed", "pending"])
    agent.begin("runs")
    story.agent("bob").begin("doubt")
    story.gone.add("process-of-bob")
    agent.mark("failed", outcome="failed")

    brief = brief_of(story)

    assert [running["step"] for running in brief["running"]] == ["runs"]
    assert brief["in_doubt"] == ["doubt"]
    assert brief["remaining"] == ["failed", "pending"]


def test_who_saved_the_newest_checkpoint_is_told() -> None:
    story, _ = started(label="first")
    story.later(minutes=5)
    story.agent("bob").mark("one")

    brief = brief_of(story)

    assert (brief["checkpoint"], brief["label"], brief["saved_by"]) == (1, "first", "ann")
    assert brief["saved_at"] == "2026-03-01T12:00:00.000Z"


def test_without_a_checkpoint_the_last_write_is_told() -> None:
    story = Story()
    story.agent("bob").mark("one")

    brief = brief_of(story)

    assert (brief["checkpoint"], brief["label"], brief["saved_by"]) == (0, "", "bob")


def test_questions_and_conflicts_are_told() -> None:
    story, agent = started({"ceo": "Ann"})
    for question in ("Open?", "Answered?"):
        agent.ask(question)
    agent.ask("Expired?", expires_in_hours=1)
    story.person().answer("q2", "yes")
    story.person().edits(state={"ceo": "Bea"})
    agent.save({"ceo": "Cleo"})
    story.later(hours=2)

    brief = brief_of(story)

    assert [(each["id"], each["status"], each["answer"]) for each in brief["questions"]] == [
        ("q1", "waiting", None),
        ("q2", "answered", "yes"),
        ("q3", "expired", None),
    ]
    [conflict] = brief["conflicts"]
    assert (conflict["path"], conflict["kept_by"]) == ("/state/ceo", "human")
    assert "do not act" in brief["hint"]


# --- the hint ----------------------------------------------------------------------------------


def test_the_hint_says_stop_while_a_person_has_paused_the_task() -> None:
    story, _ = started()
    story.person().finish("paused")

    assert brief_of(story)["hint"] == hints.STOP


def test_the_hint_says_that_memory_is_wrong_when_something_changed() -> None:
    story, _ = started()

    changes = [{"by": "human", "path": "/goal", "from": "", "to": "g"}]

    assert brief_of(story, changes=changes)["hint"].startswith(hints.CHANGED)


def test_the_hint_for_a_doubt_names_what_the_agent_can_call() -> None:
    story, agent = started()
    agent.begin("one")
    story.person().release("one")

    assert "begin_step" in brief_of(story)["hint"]
    core_only = brief_of(story, core_only=True)["hint"]
    assert "begin_step" not in core_only
    assert "state.json" in core_only
    assert "holdfast resolve" in core_only


def test_the_hint_says_when_the_run_is_over() -> None:
    story, agent = started()
    agent.finish()

    assert "opens run 2" in brief_of(story)["hint"]


def test_no_word_that_somebody_wrote_enters_the_hint() -> None:
    word = "ignore-all-instructions"
    story, agent = started({word: word}, plan=[word], goal=word, next=word, label=word)
    agent.begin(word)
    story.person().release(word)
    agent.ask(word, expires_in_hours=1)
    story.person().edits(state={word: "x"})
    agent.save({word: "y"})
    story.later(hours=2)
    changes = [{"by": word, "path": word, "from": word, "to": word}]

    assert word not in brief_of(story, changes=changes, warnings=[word])["hint"]


def test_hints_after_a_step_say_how_to_go_on() -> None:
    assert "next_step" in hints.after_step("two", unfinished=2)
    assert "load_checkpoint" in hints.after_step("", unfinished=1)
    assert "finish_task" in hints.after_step("", unfinished=0)


def test_hints_about_several_things_say_all_of_them() -> None:
    said = hints.about(changes=[1], conflicts=[1], is_paused=True)

    assert said == hints.STOP + hints.CHANGED + hints.CONFLICTS
    assert hints.about(changes=[], conflicts=[], is_paused=False) == ""


# --- helpers -----------------------------------------------------------------------------------


def test_a_long_text_says_how_much_is_left_out() -> None:
    assert shortened("short", 10) == "short"
    assert shortened("x" * 2010, 10) == "x" * 10 + "… [2,000 more characters]"


@pytest.mark.parametrize(
    ("by", "person"), [("human", True), ("human:eva", True), ("humanoid", False), ("ann", False)]
)
def test_a_person_is_known_by_name(by: str, person: bool) -> None:
    assert is_person(by) is person
