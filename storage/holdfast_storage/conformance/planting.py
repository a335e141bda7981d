"""A task may be made of many records at once, and then it is there wholly or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast_storage.conformance.harness import (
    Conformance,
    OpenEngine,
    drafted,
    ids_of,
    recorded,
    records_of,
)
from holdfast_storage.core.errors import NotSaved
from holdfast_storage.engines.base import Beside

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from holdfast_storage.core.records import Draft
    from holdfast_storage.engines.base import Engine

NOTHING = Beside({}, ())


async def _portions(*portions: Sequence[Draft]) -> AsyncIterator[Sequence[Draft]]:
    for portion in portions:
        yield portion


async def _ending_badly(*drafts: Draft) -> AsyncIterator[Sequence[Draft]]:
    yield drafts
    raise ValueError("the rest cannot be had")


class PlantingConformance(Conformance):
    """What `plant` promises."""

    async def test_a_planted_task_has_its_records_in_order(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        drafts = [drafted(f"{n}", opens=n in (0, 5), text="x" * 60) for n in range(12)]

        assert await engine.plant("t", _portions(drafts[:7], [], drafts[7:]), NOTHING)

        for reader in (engine, other):
            records = await records_of(reader, "t")
            assert [record.seq for record in records] == list(range(1, 13))
            assert [record.id for record in records] == [draft.id for draft in drafts]
            assert await reader.opening("t") == 5
        assert [head.task for head in (await other.heads("", 10))[0]] == ["t"]

    async def test_a_planted_task_goes_on_like_any_other(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        await engine.plant("t", _portions([drafted("a", opens=True)]), NOTHING)

        await recorded(other, "t", drafted("b"))
        await recorded(engine, "t", drafted("c"))

        assert await ids_of(engine, "t") == ["a", "b", "c"]

    async def test_what_lies_beside_a_task_is_planted_with_it(self, engine: Engine) -> None:
        beside = Beside({("conflicts", "a.json"): b"{}"}, [{"by": "an agent", "run": 1}])

        await engine.plant("t", _portions([drafted("a", opens=True)]), beside)

        assert await engine.kept("t", "conflicts") == {"a.json": b"{}"}
        assert await engine.loads("t") == [{"by": "an agent", "run": 1}]

    async def test_a_task_that_is_there_is_not_replaced(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))

        assert not await engine.plant("t", _portions([drafted("b", opens=True)]), NOTHING)

        assert await ids_of(engine, "t") == ["a"]

    async def test_of_a_task_that_cannot_be_had_whole_nothing_is_planted(
        self, engine: Engine
    ) -> None:
        with pytest.raises(ValueError, match="cannot be had"):
            await engine.plant("t", _ending_badly(drafted("a", opens=True)), NOTHING)

        assert await ids_of(engine, "t") == []
        assert await engine.heads("", 10) == ([], "")

    async def test_what_cannot_be_made_durable_is_not_planted(self, engine: Engine) -> None:
        with self.failing(engine), pytest.raises(NotSaved):
            await engine.plant("t", _portions([drafted("a", opens=True)]), NOTHING)

        assert await ids_of(engine, "t") == []
