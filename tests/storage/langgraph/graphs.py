"""Small graphs to save, as their authors would write them."""

# langgraph says of its own graphs only part of the types.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import itertools
import operator
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class Report(TypedDict, total=False):
    topic: str
    draft: str
    log: Annotated[list[str], operator.add]


def draft(state: Report) -> Report:
    return {"draft": f"About {state.get('topic', '')}", "log": ["draft"]}


def approve(state: Report) -> Report:
    told = interrupt({"question": "Publish it?", "options": ["yes", "no"]})
    return {"log": [f"approve {told}"]}


def publish(state: Report) -> Report:
    return {"log": [f"publish {state.get('draft', '')}"]}


def report_graph(saver: BaseCheckpointSaver[Any], *nodes: Any) -> Any:
    """Compile a graph of nodes that follow one another."""
    builder = StateGraph(Report)
    named = [START, *(node.__name__ for node in nodes or (draft, approve, publish)), END]
    for node in nodes or (draft, approve, publish):
        builder.add_node(node.__name__, node)
    for before, after in itertools.pairwise(named):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)
