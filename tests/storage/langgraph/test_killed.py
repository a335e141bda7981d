"""A graph whose process is killed goes on where it was."""

# langgraph says of its own graphs only part of the types.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

from pathlib import Path
from typing import Any

from langgraph.graph import END, START, StateGraph
from tests.storage.langgraph.graphs import Report
from tests.storage.langgraph.puts import THREAD, saver_in
from tests.storage.processes import Parent, child


def steps(folder: Path, parent: Parent | None) -> Any:
    """Make a graph whose nodes leave a line in a file, and wait in the third to be killed."""

    def node(name: str) -> Any:
        def run(state: Report) -> Report:
            with (folder / "effects.txt").open("a") as effects:
                effects.write(f"{name}\n")
            if parent and name == "c":
                parent.say("in c")
                parent.wait_to_be_killed()
            return {"log": [name]}

        return run

    builder = StateGraph(Report)
    for before, name in zip([START, *"abcd"], [*"abcd", END], strict=True):
        if name != END:
            builder.add_node(name, node(name))
        builder.add_edge(before, name)
    return builder


async def run_until_killed(parent: Parent, folder: Path) -> None:
    with saver_in(folder) as saver:
        graph = steps(folder, parent).compile(checkpointer=saver)
        # "sync": a node begins only when the checkpoint before it is durable.
        graph.invoke({"topic": "cats"}, THREAD, durability="sync")


def test_a_killed_graph_goes_on_and_repeats_no_node_that_was_done(tmp_path: Path) -> None:
    with child(run_until_killed, tmp_path) as running:
        running.expect("in c")
        running.kill()

    with saver_in(tmp_path) as saver:
        graph = steps(tmp_path, None).compile(checkpointer=saver)
        assert graph.get_state(THREAD).next == ("c",)
        told = graph.invoke(None, THREAD)

    assert told["log"] == ["a", "b", "c", "d"]
    assert (tmp_path / "effects.txt").read_text().split() == ["a", "b", "c", "c", "d"]
