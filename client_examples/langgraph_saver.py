"""LangGraph on Holdfast: a graph is killed in a node, goes on, and a person approves in state.json."""

# langgraph says of its own graphs only part of the types.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import operator
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from shared.stage import Stage, play, tell

from holdfast_storage.langgraph import HoldfastSaver

# --- the graph --------------------------------------------------------------------------------


class Report(TypedDict, total=False):
    topic: str
    draft: str
    done: Annotated[list[str], operator.add]


def research(state: Report) -> Report:
    tell("research")
    return {"done": ["research"]}


def write(state: Report) -> Report:
    tell("write")
    return {"draft": f"All about {state.get('topic')}.", "done": ["write"]}


def approve(state: Report) -> Report:
    answer = interrupt({"question": "Publish the draft?", "options": ["yes", "no"]})
    return {"done": [f"approved: {answer}"]}


def publish(state: Report) -> Report:
    tell(f"publish: {state.get('draft')}")
    return {"done": ["publish"]}


async def report(folder: Path) -> None:
    """Begin, or go on where the thread is: the same after a kill and after an answer."""
    builder = StateGraph(Report)
    nodes = [research, write, approve, publish]
    for node in nodes:
        builder.add_node(node.__name__, node)
    for before, after in pairwise([START, *(node.__name__ for node in nodes), END]):
        builder.add_edge(before, after)
    thread: Any = {"configurable": {"thread_id": "report"}}
    with HoldfastSaver(folder / ".holdfast") as saver:
        graph = builder.compile(checkpointer=saver)
        is_new = await saver.aget_tuple(thread) is None
        begin: Any = {"topic": "lighthouses"} if is_new else None
        # "sync": a node begins only when what came before it is safe.
        told = await graph.ainvoke(begin, thread, durability="sync")
        while "__interrupt__" in told:
            tell("asked")  # somebody answers in state.json: now, or when you start it next week
            told = await graph.ainvoke(None, thread, durability="sync")


# --- the story --------------------------------------------------------------------------------


def approve_by_hand(view: dict[str, Any]) -> None:
    view["state"]["draft"] = "All about lighthouses, by hand."
    view["questions"][0]["answer"] = "yes"


def story(stage: Stage) -> str:
    first = stage.run("graph", kill_at="write")
    person = {"asked": lambda: stage.edit("report", approve_by_hand)}
    second = stage.run("graph", meanwhile=person)

    stage.check("it was killed in the second node", holds=first == ["research", "write"])
    stage.check("it went on there, and asked", holds=second[:2] == ["write", "asked"])
    published = second[2:] == ["publish: All about lighthouses, by hand."]
    stage.check("what the person wrote was published, once", holds=published)
    return "killed at write, resumed at write, effects done once (research, publish)"


if __name__ == "__main__":
    play({"graph": report}, story)
