"""Of operations that race for one task each sees the others' records or is seen by them."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from holdfast_storage.conformance.harness import (
    Choose,
    Conformance,
    OpenEngine,
    Recording,
    drafted,
    ids_of,
    needs,
    records_of,
)
from holdfast_storage.core.records import Draft, Entry, Record

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from holdfast_storage.engines.base import Engine

_ENGINES = 8
_OPERATIONS = 25


class RacingConformance(Conformance):
    """What holds when many want the same task at once, in one process and in several."""

    async def test_racing_operations_see_each_other(self, open_engine: OpenEngine) -> None:
        engines = await _several(open_engine)
        operations = [Recording(drafted(f"{n}")) for n in range(_ENGINES * _OPERATIONS)]

        await _race(engines, operations)

        records = await records_of(engines[0], "t")
        for operation in operations:
            [record] = operation.accepted
            assert record is not None
            assert operation.shown[-1] == records[: record.seq - 1]

    async def test_each_racing_operation_is_recorded_exactly_once(
        self, open_engine: OpenEngine
    ) -> None:
        engines = await _several(open_engine)
        operations = [Recording(drafted(f"{n}")) for n in range(_ENGINES * _OPERATIONS)]

        await _race(engines, operations)

        records = await records_of(await open_engine(), "t")
        assert [record.seq for record in records] == list(range(1, len(operations) + 1))
        in_their_order = {record.id: record for record in records}
        for n, operation in enumerate(operations):
            assert operation.accepted == [in_their_order[f"{n}"]]

    async def test_a_decision_made_again_rests_on_no_less(self, open_engine: OpenEngine) -> None:
        engines = await _several(open_engine)
        operations = [Recording(drafted(f"{n}")) for n in range(_ENGINES * _OPERATIONS)]

        await _race(engines, operations)

        for operation in operations:
            for earlier, later in zip(operation.shown, operation.shown[1:], strict=False):
                assert later[: len(earlier)] == earlier

    async def test_whoever_only_follows_misses_nothing(self, open_engine: OpenEngine) -> None:
        engines = await _several(open_engine)
        followed: list[list[Entry]] = [[] for _ in engines]
        operations = [
            _Following(f"{n}", followed[n % _ENGINES]) for n in range(_ENGINES * _OPERATIONS)
        ]

        await _race(engines, operations)

        records = await records_of(engines[0], "t")
        assert [record.body["count"] for record in records] == list(range(1, len(operations) + 1))
        for entries in followed:
            assert entries == records[: len(entries)]

    async def test_one_of_many_who_want_the_same_gets_it(self, open_engine: OpenEngine) -> None:
        engines = await _several(open_engine)
        operations = [Recording(_first_only(f"{n}")) for n in range(_ENGINES * _OPERATIONS)]

        await _race(engines, operations)

        [record] = await records_of(engines[0], "t")
        accepted = [found for operation in operations for found in operation.accepted]
        assert len(accepted) == len(operations)
        assert [found for found in accepted if found] == [record]

    async def test_an_operation_is_called_from_one_thread_at_a_time(self, engine: Engine) -> None:
        guard = Lock()
        operations = [_Guarded(f"{n}", guard) for n in range(_ENGINES * _OPERATIONS)]

        await _race([engine], operations)

        assert not any(operation.overlapped for operation in operations)

    async def test_tasks_do_not_get_into_each_others_way(self, open_engine: OpenEngine) -> None:
        engines = await _several(open_engine)

        await asyncio.gather(
            *(
                engine.commit(f"task {n % 5}", Recording(drafted(f"{where}-{n}")))
                for where, engine in enumerate(engines)
                for n in range(_OPERATIONS)
            )
        )

        for task in range(5):
            records = await records_of(engines[0], f"task {task}")
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
            assert sorted(record.id for record in records) == sorted(
                f"{where}-{n}" for where in range(_ENGINES) for n in range(task, _OPERATIONS, 5)
            )

    async def test_a_commit_nobody_waits_for_any_more_is_there_once_or_not_at_all(
        self, engine: Engine
    ) -> None:
        underway = [
            asyncio.create_task(engine.commit("t", Recording(drafted(f"{n}")))) for n in range(20)
        ]
        await asyncio.sleep(0)
        for commit in underway[::2]:
            commit.cancel()
        await asyncio.gather(*underway, return_exceptions=True)

        await engine.commit("t", Recording(drafted("last")))

        ids = await ids_of(engine, "t")
        assert ids[-1] == "last"
        assert len(ids) == len(set(ids))
        assert set(ids) >= {f"{n}" for n in range(1, 20, 2)}

    async def test_closing_finishes_what_was_begun(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        needs(engine, "shared")
        operations = [Recording(drafted(f"{n}")) for n in range(20)]
        underway = [asyncio.create_task(engine.commit("t", each)) for each in operations]
        await asyncio.sleep(0)

        await engine.close()

        at_close = await ids_of(other, "t")
        assert await asyncio.gather(*underway) == [None] * 20
        assert sorted(at_close) == sorted(f"{n}" for n in range(20))


async def _several(open_engine: OpenEngine) -> list[Engine]:
    first = await open_engine()
    needs(first, "shared")
    return [first, *[await open_engine() for _ in range(_ENGINES - 1)]]


async def _race(engines: Sequence[Engine], operations: Sequence[Recording]) -> None:
    await asyncio.gather(
        *(
            engines[n % len(engines)].commit("t", operation)
            for n, operation in enumerate(operations)
        )
    )


def _first_only(id: str) -> Choose:
    """Record only where nobody else has."""
    return lambda entries: None if entries else drafted(id)


class _Following(Recording):
    """Decides on what its process has followed so far and on what is new, as a Workspace does."""

    def __init__(self, id: str, followed: list[Entry]) -> None:
        super().__init__(None)
        self._id = id
        self._followed = followed
        self._new: list[Entry] = []

    @property
    def known(self) -> int:
        return len(self._followed)

    def decide(self, entries: Sequence[Entry]) -> Draft:
        self._new = [*self._followed, *entries]
        return drafted(self._id, count=len(self._new) + 1)

    def accept(self, record: Record | None) -> None:
        assert record is not None
        self._followed[:] = [*self._new, record]


class _Guarded(Recording):
    """Notices when two operations of one process are called at once."""

    def __init__(self, id: str, guard: Lock) -> None:
        super().__init__(drafted(id))
        self._guard = guard
        self.overlapped = False

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        with self._alone():
            return super().decide(entries)

    def accept(self, record: Record | None) -> None:
        with self._alone():
            super().accept(record)

    @contextmanager
    def _alone(self) -> Generator[None, None, None]:
        if not self._guard.acquire(blocking=False):
            self.overlapped = True
            yield
            return
        try:
            time.sleep(0)  # lets another thread in, if there is one
            yield
        finally:
            self._guard.release()
