"""Prune may put other records in the place of old ones, and what it took can be brought back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from holdfast_storage.conformance.harness import (
    Conformance,
    OpenEngine,
    Recording,
    drafted,
    log_of,
    needs,
    recorded,
    records_of,
)
from holdfast_storage.core.errors import Unknown
from holdfast_storage.core.records import DamagedLine, Draft, Record

if TYPE_CHECKING:
    from holdfast_storage.engines.base import Engine


def _saved(number: int) -> Draft:
    state = {"pages": number, "text": "x" * 100}
    return drafted(f"{number}", "save", opens=number == 4, checkpoint=number, state=state)


def _pruned(number: int) -> Draft:
    return drafted(f"{number}", "save", opens=number == 4, checkpoint=number, pruned=True)


async def _six_saves(engine: Engine) -> list[Record]:
    return await recorded(engine, "t", *map(_saved, range(1, 7)))


def _bodies(records: list[Record], *numbers: int) -> list[object]:
    return [records[number - 1].body for number in numbers]


class RewritingConformance(Conformance):
    """What `rewrite`, `trash`, `restore` and `empty_trash` promise."""

    async def test_rewriting_puts_other_records_in_the_place_of_the_old(
        self, open_engine: OpenEngine
    ) -> None:
        engine, other = await open_engine(), await open_engine()
        await _six_saves(engine)

        await engine.rewrite("t", {2: _pruned(2), 5: _pruned(5)}, "prune")

        for reader in (engine, other):
            records = await records_of(reader, "t")
            assert _bodies(records, 2, 5) == [_pruned(2).body, _pruned(5).body]

    async def test_rewriting_keeps_every_other_line_as_it_was(self, engine: Engine) -> None:
        before = await _six_saves(engine)

        await engine.rewrite("t", {2: _pruned(2), 6: _pruned(6)}, "prune")

        after = await records_of(engine, "t")
        untouched = [seq - 1 for seq in (1, 3, 4, 5)]
        assert [after[n] for n in untouched] == [before[n] for n in untouched]
        assert [after[n].place.length for n in untouched] == [
            before[n].place.length for n in untouched
        ]

    async def test_rewriting_keeps_seqs_and_order(self, engine: Engine) -> None:
        await _six_saves(engine)

        await engine.rewrite("t", {5: _pruned(5), 1: _pruned(1), 3: _pruned(3)}, "prune")

        records = await records_of(engine, "t")
        assert [record.seq for record in records] == [1, 2, 3, 4, 5, 6]
        assert [record.id for record in records] == ["1", "2", "3", "4", "5", "6"]

    async def test_rewriting_leaves_the_open_run_where_it_was(self, engine: Engine) -> None:
        await _six_saves(engine)

        await engine.rewrite("t", {2: _pruned(2), 4: _pruned(4)}, "prune")

        assert await engine.opening("t") == 3
        assert [entry.seq for entry in await log_of(engine, "t", 3)] == [4, 5, 6]

    async def test_a_record_may_be_rewritten_more_than_once(self, engine: Engine) -> None:
        await _six_saves(engine)

        await engine.rewrite("t", {2: drafted("2", "save", checkpoint=2, note="full now")}, "a")
        await engine.rewrite("t", {2: _pruned(2)}, "b")

        records = await records_of(engine, "t")
        assert _bodies(records, 2) == [_pruned(2).body]
        assert len(await engine.trash()) == 2

    async def test_a_rewritten_place_is_a_damaged_line(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        before = await _six_saves(engine)
        assert await records_of(other, "t") == before

        await engine.rewrite("t", {2: _pruned(2)}, "prune")

        for reader in (engine, other, await open_engine()):
            [found] = await reader.fetch("t", [before[1].place])
            assert isinstance(found, DamagedLine)

    async def test_an_old_place_never_gives_another_record(self, engine: Engine) -> None:
        before = await _six_saves(engine)
        await engine.rewrite("t", {2: _pruned(2), 3: _pruned(3)}, "prune")

        found = await engine.fetch("t", [record.place for record in before])

        for entry, record in zip(found, before, strict=True):
            assert isinstance(entry, DamagedLine) or entry == record

    async def test_new_places_are_good_after_rewriting(self, engine: Engine) -> None:
        await _six_saves(engine)
        await engine.rewrite("t", {2: _pruned(2)}, "prune")

        records = await records_of(engine, "t")

        assert await engine.fetch("t", [record.place for record in records]) == records

    async def test_recording_goes_on_where_it_was_after_rewriting(
        self, open_engine: OpenEngine
    ) -> None:
        engine, other = await open_engine(), await open_engine()
        needs(engine, "shared")
        await _six_saves(engine)
        await recorded(other, "t", _saved(7))
        await other.rewrite("t", {2: _pruned(2), 7: _pruned(7)}, "prune")
        operations = [Recording(_saved(8), known=7), Recording(_saved(9), known=7)]

        await engine.commit("t", operations[0])
        await other.commit("t", operations[1])

        assert operations[0].shown[-1] == []
        assert operations[1].shown[-1] == operations[0].accepted
        assert [record.seq for record in await records_of(engine, "t")] == list(range(1, 10))

    async def test_recording_goes_on_while_lines_are_rewritten(
        self, open_engine: OpenEngine
    ) -> None:
        engine, other = await open_engine(), await open_engine()
        needs(engine, "shared")
        await _six_saves(engine)
        operations = [Recording(_saved(n), known=6) for n in range(7, 47)]

        await asyncio.gather(
            *(engine.commit("t", operation) for operation in operations[::2]),
            other.rewrite("t", {n: _pruned(n) for n in range(1, 6)}, "prune"),
            *(other.commit("t", operation) for operation in operations[1::2]),
        )

        records = await records_of(await open_engine(), "t")
        assert [record.seq for record in records] == list(range(1, 47))
        assert _bodies(records, 1, 5, 6) == [_pruned(1).body, _pruned(5).body, _saved(6).body]
        assert sorted(int(record.id) for record in records) == list(range(1, 47))

    async def test_an_interrupted_rewrite_loses_nothing(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        before = await _six_saves(engine)
        rewriting = asyncio.create_task(engine.rewrite("t", {2: _pruned(2)}, "prune"))
        await asyncio.sleep(0)

        rewriting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await rewriting

        after = await records_of(other, "t")
        assert len(after) == 6
        if after[1] != before[1]:
            [trashed] = await other.trash()
            await other.restore(trashed.name)
            assert await records_of(other, "t") == before

    async def test_what_cannot_be_rewritten_is_refused(self, engine: Engine) -> None:
        before = await _six_saves(engine)

        with pytest.raises(Unknown):
            await engine.rewrite("t", {2: _pruned(2), 7: _pruned(7)}, "prune")
        with pytest.raises(Unknown):
            await engine.rewrite("unheard of", {1: _pruned(1)}, "prune")

        assert await records_of(engine, "t") == before
        assert await engine.trash() == []

    # --- the trash ----------------------------------------------------------------------------

    async def test_the_trash_says_what_can_be_brought_back(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        await _six_saves(engine)

        name = await engine.rewrite("t", {2: _pruned(2), 5: _pruned(5)}, "prune")

        for reader in (engine, other):
            [trashed] = await reader.trash()
            assert (trashed.name, trashed.task) == (name, "t")
            assert sorted(trashed.checkpoints) == [2, 5]
            assert trashed.size > 0
            assert trashed.at

    async def test_the_trash_is_listed_newest_first(self, engine: Engine) -> None:
        await _six_saves(engine)
        await recorded(engine, "another", _saved(1))

        names = [
            await engine.rewrite("t", {1: _pruned(1)}, "prune"),
            await engine.rewrite("another", {1: _pruned(1)}, "prune"),
            await engine.rewrite("t", {2: _pruned(2)}, "prune"),
            await engine.rewrite("t", {3: _pruned(3)}, "a word"),
        ]

        assert [trashed.name for trashed in await engine.trash()] == names[::-1]

    async def test_a_restored_record_is_the_one_that_was_taken(
        self, open_engine: OpenEngine
    ) -> None:
        engine, other = await open_engine(), await open_engine()
        before = await _six_saves(engine)
        name = await engine.rewrite("t", {2: _pruned(2), 5: _pruned(5)}, "prune")
        [listed] = await other.trash()

        restored = await other.restore(name)

        assert restored == listed
        for reader in (engine, other):
            assert await records_of(reader, "t") == before

    async def test_what_was_restored_is_no_longer_in_the_trash(self, engine: Engine) -> None:
        await _six_saves(engine)
        name = await engine.rewrite("t", {2: _pruned(2)}, "prune")

        await engine.restore(name)

        assert await engine.trash() == []
        with pytest.raises(Unknown):
            await engine.restore(name)

    async def test_restoring_keeps_what_was_recorded_since(self, engine: Engine) -> None:
        await _six_saves(engine)
        name = await engine.rewrite("t", {6: _pruned(6)}, "prune")
        await recorded(engine, "t", _saved(7))

        await engine.restore(name)

        records = await records_of(engine, "t")
        assert [record.body for record in records] == [_saved(n).body for n in range(1, 8)]

    async def test_restoring_one_leaves_the_others_as_they_are(self, engine: Engine) -> None:
        await _six_saves(engine)
        first = await engine.rewrite("t", {2: _pruned(2)}, "prune")
        second = await engine.rewrite("t", {3: _pruned(3)}, "prune")

        await engine.restore(first)

        records = await records_of(engine, "t")
        assert _bodies(records, 2, 3) == [_saved(2).body, _pruned(3).body]
        assert [trashed.name for trashed in await engine.trash()] == [second]

    async def test_emptying_the_trash_spares_what_is_younger(self, engine: Engine) -> None:
        await _six_saves(engine)
        name = await engine.rewrite("t", {2: _pruned(2)}, "prune")

        await engine.empty_trash(older_than_seconds=3600)

        assert [trashed.name for trashed in await engine.trash()] == [name]

    async def test_emptying_the_trash_removes_for_good(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        await _six_saves(engine)
        name = await engine.rewrite("t", {2: _pruned(2)}, "prune")

        # Everything is older than a moment to come; so no test has to wait until it is.
        await engine.empty_trash(older_than_seconds=-3600)

        assert await other.trash() == []
        with pytest.raises(Unknown):
            await other.restore(name)
        assert _bodies(await records_of(other, "t"), 2) == [_pruned(2).body]
