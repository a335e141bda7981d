from __future__ import annotations

from typing import Any

from tests.storage.core.stories import Story, started

from holdfast_storage.core import view
from holdfast_storage.core.seal import is_sealed
from holdfast_storage.core.strict_json import parse_object


def shown(story: Story, resumes: int = 0) -> dict[str, Any]:
    return parse_object(view.render(story.fold, story.now, story.gone, resumes))


def test_a_view_reads_like_the_example_in_the_design() -> None:
    story, agent = started({"model": "small"}, plan=["doc-047", "doc-048"], goal="Summarise.")
    agent.mark("doc-047", next="doc-048, then the annexes")
    agent.ask("doc-031 is unreadable: skip it?", options=["skip", "stop"])

    document = shown(story, resumes=1)

    assert list(document) == [
        *("$schema", "task", "status", "goal", "next", "state", "plan", "reopen", "questions"),
        "read_only",
    ]
    assert document["plan"] == {"doc-048": "pending"}
    assert document["reopen"] == []
    assert document["questions"] == [
        {
            "id": "q1",
            "question": "doc-031 is unreadable: skip it?",
            "options": ["skip", "stop"],
            "answer": None,
        }
    ]
    read_only = document["read_only"]
    assert read_only["progress"] == {
        "done": 1,
        "failed": 0,
        "total": 2,
        "last_done": "doc-047",
        "resumes": 1,
    }
    assert read_only["recent_steps"] == [
        {"step": "doc-047", "at": "2026-03-01T12:00:00.000Z", "by": "ann"}
    ]
    assert (read_only["run"], read_only["checkpoint"], read_only["revision"]) == (1, 1, 3)
    assert list(read_only)[-1] == "digest"


def test_a_view_certifies_itself_whatever_is_in_it() -> None:
    story, _ = started({"digest": "0" * 64, "read_only": {"digest": "1" * 64}})
    story.person().edits(todo={"digest": "2" * 64})

    assert is_sealed(view.render(story.fold, story.now, story.gone, 0))


def test_the_same_fold_is_rendered_the_same() -> None:
    story, agent = started({"a": 1}, plan=["one"])
    agent.mark("one")

    again = story.read_again()

    assert view.render(again, story.now, story.gone, 0) == view.render(
        story.fold, story.now, story.gone, 0
    )


def test_the_plan_shows_the_first_fifty_unfinished_steps_failed_and_doubtful_ones_included() -> (
    None
):
    story, agent = started(plan=[f"step-{number:03}" for number in range(100)])
    agent.mark("step-000")
    agent.mark("step-001", outcome="failed")
    agent.begin("step-002")
    story.gone.add(agent.process)

    plan = shown(story)["plan"]

    assert len(plan) == 50
    assert list(plan)[:4] == ["step-001", "step-002", "step-003", "step-004"]
    assert [plan["step-001"], plan["step-002"], plan["step-003"]] == [
        "failed",
        "in_doubt",
        "pending",
    ]


def test_who_is_at_work_and_what_is_in_doubt_is_listed() -> None:
    story, agent = started(plan=["one", "two", "three"])
    agent.begin("one")
    story.agent("bob").begin("two")
    story.gone.add("process-of-bob")

    read_only = shown(story)["read_only"]

    assert read_only["running"] == [
        {"step": "one", "by": "ann", "since": "2026-03-01T12:00:00.000Z"}
    ]
    assert read_only["in_doubt"] == ["two"]


def test_open_questions_are_shown_and_the_last_answered_ones() -> None:
    story, agent = started()
    for number in range(1, 9):
        agent.ask(f"Question {number}?", step=f"step-{number}", expires_in_hours=1)
    for number in range(1, 8):
        story.person().answer(f"q{number}", "yes")

    questions = shown(story)["questions"]

    assert [question["id"] for question in questions] == ["q3", "q4", "q5", "q6", "q7", "q8"]
    assert questions[-1]["step"] == "step-8"
    assert questions[-1]["expires_at"] == "2026-03-01T13:00:00.000Z"


def test_a_question_whose_time_ran_out_makes_nobody_wait() -> None:
    story, agent = started()
    agent.ask("Skip it?", expires_in_hours=1)
    assert shown(story)["status"] == "waiting"

    story.later(hours=1)

    assert shown(story)["status"] == "active"


def test_what_went_wrong_is_told() -> None:
    story, agent = started({"ceo": "Ann"})
    story.person().edits(state={"ceo": "Bea"}, goal=5)
    agent.save({"ceo": "Cleo"})
    story.record("teleport")

    read_only = shown(story)["read_only"]

    [conflict] = read_only["conflicts"]
    assert conflict["path"] == "/state/ceo"
    assert conflict["file"].startswith("conflicts/")
    assert len(read_only["warnings"]) == 1
    assert len(read_only["damaged"]) == 1


def test_a_summary_is_shown_when_there_is_one() -> None:
    story, agent = started()
    assert "summary" not in shown(story)["read_only"]

    agent.finish(summary="all well")

    assert shown(story)["read_only"]["summary"] == "all well"


def test_one_line_of_a_listing_says_what_matters_and_stays_short() -> None:
    story, agent = started(plan=["one", "two"], goal="g" * 500, next="n" * 500)
    agent.mark("one")
    agent.ask("Skip it?")

    line = view.summary(story.fold, story.now)

    assert (line["task"], line["status"], line["questions"]) == ("report", "waiting", 1)
    assert (line["run"], line["checkpoint"], line["revision"]) == (1, 1, 3)
    assert line["progress"]["done"] == 1
    assert (len(line["goal"]), len(line["next"])) == (200, 200)
    assert line["damaged"] is False


def test_the_schema_describes_every_key_of_a_view() -> None:
    story, _ = started()

    described = view.schema()["properties"]

    assert set(shown(story)) <= set(described)
    assert set(described["status"]["enum"]) == {
        *("active", "waiting", "paused", "failed", "done", "abandoned")
    }


def test_the_schema_refuses_no_step_status_that_a_view_shows() -> None:
    words = view.schema()["properties"]["plan"]["additionalProperties"]["enum"]

    assert set(words) == {"pending", "running", "in_doubt", "done", "failed", "skipped"}
