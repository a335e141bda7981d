"""LangGraph's own suite for checkpointers, every capability of it, those that are optional too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from langgraph.checkpoint.conformance import (  # pyright: ignore[reportMissingTypeStubs]
    checkpointer_test,
    validate,
)

from holdfast_storage.langgraph import HoldfastSaver

# How many tests each capability has: the suite skips in silence what a saver does not offer.
TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


async def test_all_eight_capabilities_pass(tmp_path: Path) -> None:
    @checkpointer_test(name="HoldfastSaver")
    async def ours() -> AsyncIterator[HoldfastSaver]:
        with HoldfastSaver(tmp_path / ".holdfast") as saver:
            yield saver

    report = await validate(ours)

    failures = [why for result in report.results.values() for why in result.failures or ()]
    assert failures == []
    assert {name: result.tests_passed for name, result in report.results.items()} == TESTS
