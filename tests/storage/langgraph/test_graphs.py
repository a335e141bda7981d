"""Graphs on a workspace: they go on where they were, and forks, subgraphs and branches stay apart."""

# langgraph says of its own graphs only part of the types.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import asyncio
import json
import operator
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send
from tests.storage.langgraph.graphs import Report, approve, draft, publish, report_graph
from tests.storage.langgraph.puts import (
    THREAD,
    found,
    id_of,
    put,
    saver_in,
    task_folder,
    values_of,
)

from holdfast_storage import Workspace
from holdfast_storage.core.errors import InvalidValue, TooLarge
from holdfast_storage.langgraph import HoldfastSaver


@dataclass(frozen=True)
class Kept:
    pair: tuple[str, int]


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def answer(state: Chat) -> dict[str, Any]:
    return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}


def chat_graph(saver: HoldfastSaver) -> Any:
    builder = StateGraph(Chat)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def says(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def test_a_conversation_goes_on_in_another_process_of_the_same_thread(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        chat_graph(saver).invoke(says("hello"), THREAD)

    with saver_in(tmp_path) as saver:
        told = chat_graph(saver).invoke(says("again"), THREAD)

    texts = [message.content for message in told["messages"]]
    assert texts == ["hello", "answer 1", "again", "answer 3"]


async def test_the_async_methods_do_the_same_from_any_event_loop(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        graph = chat_graph(saver)
        await graph.ainvoke(says("hello"), THREAD)
        elsewhere = asyncio.to_thread(asyncio.run, graph.ainvoke(says("again"), THREAD))

        told = await elsewhere

        history = [step async for step in graph.aget_state_history(THREAD)]
    assert len(told["messages"]) == 4
    assert history[0].values["messages"][-1].content == "answer 3"


def test_a_message_stands_in_state_json_as_people_write_it(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        chat_graph(saver).invoke(says("hello"), THREAD)

    view = json.loads((task_folder(tmp_path) / "state.json").read_text())
    first = view["state"]["messages"][0]
    assert (first["$enc"], first["content"]) == ("HumanMessage", "hello")
    assert list(view["state"]) == ["messages"]


class Results(TypedDict):
    done: Annotated[list[str], operator.add]


def test_a_node_that_failed_runs_again_and_those_beside_it_do_not(tmp_path: Path) -> None:
    runs: list[str] = []

    def steady(state: Results) -> Results:
        runs.append("steady")
        return {"done": ["steady"]}

    def shaky(state: Results) -> Results:
        runs.append("shaky")
        if runs.count("shaky") == 1:
            raise OSError("not yet")
        return {"done": ["shaky"]}

    def graph(saver: HoldfastSaver) -> Any:
        builder = StateGraph(Results)
        for node in (steady, shaky):
            builder.add_node(node.__name__, node)
            builder.add_edge(START, node.__name__)
        return builder.compile(checkpointer=saver)

    with saver_in(tmp_path) as saver, pytest.raises(OSError, match="not yet"):
        graph(saver).invoke({"done": []}, THREAD)

    with saver_in(tmp_path) as saver:
        told = graph(saver).invoke(None, THREAD)

    assert sorted(told["done"]) == ["shaky", "steady"]
    assert sorted(runs) == ["shaky", "shaky", "steady"]


def test_going_back_to_a_checkpoint_makes_a_branch_and_loses_neither(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        graph = report_graph(saver, draft, publish)
        graph.invoke({"topic": "cats"}, THREAD)
        before = next(step for step in graph.get_state_history(THREAD) if step.next == ("publish",))

        branch = graph.update_state(before.config, {"draft": "About dogs"})
        told = graph.invoke(None, branch)

        said = {line for step in graph.get_state_history(THREAD) for line in step.values["log"]}
    assert told["log"][-1] == "publish About dogs"
    assert said == {"draft", "publish About cats", "publish About dogs"}


class Sum(TypedDict):
    numbers: list[int]
    squares: Annotated[list[int], operator.add]


def square(state: Any) -> dict[str, list[int]]:
    return {"squares": [state["n"] ** 2]}


def spread(state: Sum) -> Sequence[Send]:
    return [Send("square", {"n": n}) for n in state["numbers"]]


def test_many_branches_meet_again(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        builder = StateGraph(Sum)
        builder.add_node("square", square)
        builder.add_conditional_edges(START, spread)
        graph: Any = builder.compile(checkpointer=saver)

        told = graph.invoke({"numbers": [1, 2, 3]}, THREAD)

    assert sorted(told["squares"]) == [1, 4, 9]


def with_subgraph(saver: HoldfastSaver, **subgraph: Any) -> Any:
    inner = StateGraph(Report)
    inner.add_node("approve", approve)
    inner.add_edge(START, "approve")
    builder = StateGraph(Report)
    builder.add_node("draft", draft)
    builder.add_node("inner", inner.compile(**subgraph))
    builder.add_edge(START, "draft")
    builder.add_edge("draft", "inner")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("subgraph", [{}, {"checkpointer": True}], ids=["called", "lasting"])
def test_a_subgraph_is_resumed_inside(tmp_path: Path, subgraph: dict[str, Any]) -> None:
    with saver_in(tmp_path) as saver:
        with_subgraph(saver, **subgraph).invoke({"topic": "cats"}, THREAD)

    with saver_in(tmp_path) as saver:
        told = with_subgraph(saver, **subgraph).invoke(Command(resume="yes"), THREAD)

    assert told["log"][-1] == "approve yes"


def joined(before: list[str], new: Sequence[list[str]]) -> list[str]:
    return [*before, *(item for items in new for item in items)]


class Growing(TypedDict):
    items: Annotated[list[str], DeltaChannel(joined)]


class GrowingWithSnapshots(TypedDict):
    items: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=3)]


def grow(state: Any) -> dict[str, list[str]]:
    return {"items": [f"item {len(state['items'])}"]}


def growing_graph(saver: HoldfastSaver, state: type[Any]) -> Any:
    builder = StateGraph(state)
    builder.add_node("grow", grow)
    builder.add_edge(START, "grow")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("state", [Growing, GrowingWithSnapshots])
def test_a_delta_channel_is_rebuilt_from_its_writes_also_after_pruning(
    tmp_path: Path, state: type[Any]
) -> None:
    with saver_in(tmp_path) as saver:
        graph = growing_graph(saver, state)
        for _ in range(4):
            graph.invoke({"items": ["asked"]}, THREAD)
        before = graph.get_state(THREAD).values
        all_of_them = len(list(saver.list(THREAD)))

        saver.prune(["report"])

    with saver_in(tmp_path) as saver:
        assert growing_graph(saver, state).get_state(THREAD).values == before
        assert state is Growing or len(list(saver.list(THREAD))) < all_of_them
    assert len(before["items"]) == 8


def test_namespaces_and_parents_are_fields_of_the_save(tmp_path: Path) -> None:
    child: RunnableConfig = {"configurable": {"thread_id": "report", "checkpoint_ns": "child:1"}}
    with saver_in(tmp_path) as saver:
        first = put(saver, {"a": 1})
        second = put(saver, {"a": 2}, first)
        put(saver, {"b": 1}, child)

    lines = (task_folder(tmp_path) / "journal" / "000001.jsonl").read_text().splitlines()
    graphs = [json.loads(line)["graph"] for line in lines]
    assert (graphs[1]["id"], graphs[1]["parent"]) == (id_of(second), id_of(first))
    assert graphs[2]["ns"] == "child:1"


def test_a_put_replaces_and_never_merges(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver, saver_in(tmp_path) as other:
        first = put(saver, {"a": {"x": 1}, "b": [1]})
        put(other, {"a": {"y": 2}}, first)

        assert values_of(saver) == {"a": {"y": 2}}
        assert values_of(saver, first) == {"a": {"x": 1}, "b": [1]}


def test_an_agent_over_the_workspace_and_a_graph_share_a_task(tmp_path: Path) -> None:
    async def note(text: str) -> list[str]:
        async with Workspace.open(tmp_path / ".holdfast", by="agent") as workspace:
            task = workspace.task("report")
            await task.load()
            await task.save({"draft": text})
            return sorted((await task.load()).state or {})

    with saver_in(tmp_path) as saver:
        report_graph(saver).invoke({"topic": "cats"}, THREAD)
        keys = asyncio.run(note("by an agent"))

        told = report_graph(saver).invoke(Command(resume="yes"), THREAD)

    assert keys == ["draft", "log", "topic"]
    assert told["log"][-1] == "publish by an agent"


def test_a_thread_that_was_deleted_starts_fresh_and_its_values_are_gone(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        put(saver, {"secret": "hunter2"})
        saver.put_writes(put(saver, {"secret": "hunter2"}), [("secret", "hunter2")], "t1")

        saver.delete_thread("report")

        assert saver.get_tuple(THREAD) is None
        put(saver, {"a": 1})
        assert values_of(saver) == {"a": 1}
        assert len(list(saver.list(THREAD))) == 1
    kept = [path for path in task_folder(tmp_path).rglob("*") if path.is_file()]
    assert not [path for path in kept if b"hunter2" in path.read_bytes()]


def test_pruning_keeps_the_latest_of_each_graph_whole(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        graph = chat_graph(saver)
        for text in ("one", "two", "three"):
            graph.invoke(says(text), THREAD)
        before = graph.get_state(THREAD).values

        saver.prune(["report"])

        assert len(list(saver.list(THREAD))) == 1
        assert graph.get_state(THREAD).values == before
        told = graph.invoke(says("four"), THREAD)
    assert len(told["messages"]) == 8


def test_the_newest_checkpoint_can_go_and_the_one_before_it_counts_again(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver, saver_in(tmp_path) as other:
        first = put(saver, {"a": 1}, run_id="r1")
        put(saver, {"a": 2}, first, run_id="r2")
        assert values_of(other) == {"a": 2}

        saver.delete_for_runs(["r2"])

        assert values_of(saver) == {"a": 1}
        assert values_of(other) == {"a": 1}
        put(other, {"a": 3}, first, run_id="r3")
        assert values_of(saver) == {"a": 3}


def test_every_thread_is_listed_where_none_is_named(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        for name in ("a", "b"):
            put(saver, {"name": name}, {"configurable": {"thread_id": name}})

        listed = [each.checkpoint["channel_values"]["name"] for each in saver.list(None)]

    assert sorted(listed) == ["a", "b"]


def test_what_cannot_be_kept_is_refused_and_nothing_is_saved(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        put(saver, {"a": 1})

        with pytest.raises(InvalidValue, match="state/lock"):
            put(saver, {"lock": threading.Lock()})
        with pytest.raises(TooLarge):
            put(saver, {"big": "x" * 17 * 2**20})

        assert values_of(saver) == {"a": 1}


def test_a_class_that_was_allowed_comes_back(tmp_path: Path) -> None:
    with saver_in(tmp_path, allow=[Kept]) as saver:
        put(saver, {"kept": Kept(("a", 1))})

    with saver_in(tmp_path, allow=[Kept]) as saver:
        assert values_of(saver) == {"kept": Kept(("a", 1))}


def test_memory_can_stand_in_for_a_folder() -> None:
    with HoldfastSaver("memory:") as saver:
        told = report_graph(saver, draft, publish).invoke({"topic": "cats"}, THREAD)

    assert told["log"] == ["draft", "publish About cats"]


def test_closing_twice_is_harmless_and_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    saver = HoldfastSaver(tmp_path / ".holdfast")
    put(saver, {"a": 1})

    saver.close()
    saver.close()

    names = [thread.name for thread in threading.enumerate()]
    assert "holdfast-saver" not in names
    assert threading.active_count() <= before + 1


def test_writes_are_told_in_the_order_in_which_they_are_applied(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        config = put(saver, {"a": 1})
        saver.put_writes(config, [("a", "second")], "task-1", "~b")
        saver.put_writes(config, [("a", "first"), ("b", "then")], "task-2", "~a")
        saver.put_writes(config, [("a", "ignored")], "task-2", "~a")

        pending = found(saver).pending_writes

    assert pending == [
        ("task-2", "a", "first"),
        ("task-2", "b", "then"),
        ("task-1", "a", "second"),
    ]
