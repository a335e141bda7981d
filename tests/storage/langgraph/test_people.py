"""People look at a graph's thread, answer it, change it and stop it, with an editor."""

# langgraph says of its own graphs only part of the types.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command, interrupt
from tests.storage.langgraph.graphs import Report, report_graph
from tests.storage.langgraph.puts import (
    THREAD,
    edit,
    found,
    put,
    saver_in,
    task_folder,
    values_of,
)
from tests.storage.langgraph.test_graphs import with_subgraph

from holdfast_storage import Workspace
from holdfast_storage.core.errors import RunClosed


def view(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((task_folder(folder) / "state.json").read_text())
    return document


def stopped_at_the_question(folder: Path) -> None:
    with saver_in(folder) as saver:
        report_graph(saver).invoke({"topic": "cats"}, THREAD)


def test_an_interrupt_is_a_question_in_state_json(tmp_path: Path) -> None:
    stopped_at_the_question(tmp_path)

    shown = view(tmp_path)
    [question] = shown["questions"]
    assert shown["status"] == "waiting"
    assert (question["question"], question["options"]) == ("Publish it?", ["yes", "no"])
    assert shown["state"] == {"topic": "cats", "draft": "About cats", "log": ["draft"]}


def test_a_person_answers_by_editing_state_json_and_the_graph_goes_on(tmp_path: Path) -> None:
    stopped_at_the_question(tmp_path)

    edit(tmp_path, lambda document: document["questions"][0].update(answer="yes"))
    with saver_in(tmp_path) as saver:
        told = report_graph(saver).invoke(None, THREAD)

    assert told["log"] == ["draft", "approve yes", "publish About cats"]
    assert view(tmp_path)["status"] == "active"


def test_without_an_answer_the_graph_stops_again_and_asks_no_second_time(tmp_path: Path) -> None:
    stopped_at_the_question(tmp_path)

    with saver_in(tmp_path) as saver:
        told = report_graph(saver).invoke(None, THREAD)

    assert "__interrupt__" in told
    assert len(view(tmp_path)["questions"]) == 1


def test_a_program_that_answers_closes_the_question(tmp_path: Path) -> None:
    stopped_at_the_question(tmp_path)

    with saver_in(tmp_path) as saver:
        told = report_graph(saver).invoke(Command(resume="no"), THREAD)

    assert told["log"][1] == "approve no"
    assert (view(tmp_path)["status"], view(tmp_path)["questions"][0]["answer"]) == ("active", "no")


def ask_twice(state: Report) -> Report:
    first, second = interrupt("Sure?"), interrupt("Sure?")
    return {"log": [f"{first} {second}"]}


def test_two_questions_of_one_node_are_answered_one_after_the_other(tmp_path: Path) -> None:
    def go_on() -> Any:
        with saver_in(tmp_path) as saver:
            return report_graph(saver, ask_twice).invoke(None, THREAD)

    with saver_in(tmp_path) as saver:
        report_graph(saver, ask_twice).invoke({"topic": "cats"}, THREAD)
    edit(tmp_path, lambda document: document["questions"][0].update(answer="one"))
    assert "__interrupt__" in go_on()
    edit(tmp_path, lambda document: document["questions"][1].update(answer="two"))

    assert go_on()["log"] == ["one two"]


def test_a_subgraphs_question_is_asked_once_and_answered_inside(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        with_subgraph(saver).invoke({"topic": "cats"}, THREAD)
    [question] = view(tmp_path)["questions"]
    assert question["question"] == "Publish it?"

    edit(tmp_path, lambda document: document["questions"][0].update(answer="yes"))
    with saver_in(tmp_path) as saver:
        told = with_subgraph(saver).invoke(None, THREAD)

    assert told["log"][-1] == "approve yes"


def test_what_a_person_changes_in_the_state_is_what_the_next_node_sees(tmp_path: Path) -> None:
    stopped_at_the_question(tmp_path)

    def change(document: dict[str, Any]) -> None:
        document["state"]["draft"] = "About dogs"
        document["questions"][0]["answer"] = "yes"

    edit(tmp_path, change)
    with saver_in(tmp_path) as saver:
        told = report_graph(saver).invoke(None, THREAD)

    assert told["log"][-1] == "publish About dogs"
    assert view(tmp_path)["state"]["draft"] == "About dogs"


def test_an_edit_while_the_graph_runs_is_kept_and_announced(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        first = put(saver, {"draft": "one"})
        values_of(saver)
    edited = tmp_path
    with saver_in(tmp_path) as saver:
        values_of(saver)
        edit(edited, lambda document: document["state"].update(draft="by a person"))

        put(saver, {"draft": "two"}, first)

        assert values_of(saver) == {"draft": "two"}
    [conflict] = (task_folder(tmp_path) / "conflicts").iterdir()
    kept = json.loads(conflict.read_text())
    assert (kept["lost"], kept["lost_by"]) == ("by a person", "human")


def test_an_edit_the_graph_has_seen_may_be_replaced(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        first = put(saver, {"draft": "one"})
    edit(tmp_path, lambda document: document["state"].update(draft="by a person"))
    with saver_in(tmp_path) as saver:
        assert values_of(saver) == {"draft": "by a person"}

        put(saver, {"draft": "two"}, first)

    assert not (task_folder(tmp_path) / "conflicts").exists()


def test_a_run_that_a_person_ends_stops_the_graph_and_the_next_starts_fresh(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        first = put(saver, {"draft": "one"})
        asyncio.run(finish(tmp_path))

        with pytest.raises(RunClosed):
            put(saver, {"draft": "two"}, first)

        assert saver.get_tuple(THREAD) is None
        put(saver, {"draft": "three"})
        assert len(list(saver.list(THREAD))) == 1


async def finish(folder: Path) -> None:
    async with Workspace.open(folder / ".holdfast") as workspace:
        await workspace.finish("report", "abandoned")


def test_rewinding_the_task_takes_the_values_back_and_not_the_place_in_the_graph(
    tmp_path: Path,
) -> None:
    async def rewind(number: int) -> None:
        async with Workspace.open(tmp_path / ".holdfast") as workspace:
            await workspace.rewind("report", number)

    with saver_in(tmp_path) as saver:
        first = put(saver, {"draft": "one"})
        second = put(saver, {"draft": "two"}, first)
        asyncio.run(rewind(1))

        assert found(saver).config == second
        assert values_of(saver) == {"draft": "one"}


def test_a_mistake_in_a_marked_value_is_named_with_its_place(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        put(saver, {"when": (1, 2)})
    edit(tmp_path, lambda document: document["state"]["when"].update({"$enc": "tupel"}))

    with saver_in(tmp_path) as saver, pytest.raises(Exception, match=r"state/when: .*tupel"):
        values_of(saver)
