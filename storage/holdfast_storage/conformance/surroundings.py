"""Who is there, who resumed when, what changed, what people set, and whether all is well."""

from __future__ import annotations

import asyncio
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
    rendered,
)
from holdfast_storage.core.errors import Unreadable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast_storage.engines.base import Engine


class SurroundingsConformance(Conformance):
    """What everything beside the log and the view promises."""

    # --- who is there -------------------------------------------------------------------------

    async def test_a_workspace_has_one_id_and_each_process_its_own(
        self, open_engine: OpenEngine
    ) -> None:
        engines = [await open_engine() for _ in range(3)]

        assert len({engine.workspace_id for engine in engines}) == 1
        assert len({engine.process for engine in engines}) == 3
        assert all(engine.workspace_id and engine.process for engine in engines)

    async def test_a_workspace_keeps_its_id(self, open_engine: OpenEngine) -> None:
        engine = await open_engine()
        await recorded(engine, "t", drafted("a"))

        await engine.close()

        assert (await open_engine()).workspace_id == engine.workspace_id

    async def test_a_process_is_alive_until_it_closes(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        needs(engine, "shared")
        await recorded(other, "t", drafted("a"))
        seen_by = (engine.is_alive(other.process), other.is_alive(other.process))

        await other.close()

        assert seen_by == (True, True)
        assert not engine.is_alive(other.process)
        assert engine.is_alive(engine.process)

    async def test_a_process_nobody_heard_of_is_not_alive(self, engine: Engine) -> None:
        assert not engine.is_alive("0123456789abcdef")
        assert not engine.is_alive("")

    async def test_closing_twice_does_no_harm(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()

        await engine.close()
        await engine.close()

        await recorded(other, "t", drafted("a"))
        assert len(await records_of(other, "t")) == 1

    # --- who resumed when ---------------------------------------------------------------------

    async def test_loads_are_given_oldest_first(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        needs(engine, "shared")
        await recorded(engine, "t", drafted("a"))
        lines = [{"by": "an agent", "at": f"…{n}", "checkpoint": n} for n in range(4)]

        for n, line in enumerate(lines):
            await (engine, other)[n % 2].log_load("t", line)

        assert await engine.loads("t") == lines
        assert await other.loads("t") == lines

    async def test_a_task_nobody_resumed_has_no_loads(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))

        assert await engine.loads("t") == []
        assert await engine.loads("unheard of") == []

    async def test_loads_are_no_records(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))

        await engine.log_load("t", {"by": "an agent"})

        assert len(await log_of(engine, "t")) == 1

    # --- what changed -------------------------------------------------------------------------

    async def test_a_record_is_announced_to_other_processes(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        needs(engine, "watch")
        await recorded(other, "t", drafted("a"))
        watching = engine.watch()

        announced = await _announced(watching, lambda: other.commit("t", Recording(drafted("b"))))

        assert announced == {"t"}

    async def test_a_persons_save_is_announced(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        needs(engine, "watch")
        needs(engine, "editable")
        await recorded(other, "t", drafted("a"))
        await other.swap_view("t", rendered("t", 1), 1)
        watching = engine.watch()

        async def save() -> None:
            self.save_as_person(other, "t", b'{"state": {"by": "hand"}}')

        assert await _announced(watching, save) == {"t"}

    async def test_closing_ends_the_announcements(self, open_engine: OpenEngine) -> None:
        engine = await open_engine()
        needs(engine, "watch")
        await recorded(engine, "t", drafted("a"))
        watching = asyncio.create_task(_until_it_ends(engine.watch()))
        await asyncio.sleep(0)

        await engine.close()

        async with asyncio.timeout(30):
            await watching

    # --- whether all is well ------------------------------------------------------------------

    async def test_a_sound_workspace_has_no_findings(self, open_engine: OpenEngine) -> None:
        engine = await open_engine()
        await recorded(engine, "t", drafted("a"), drafted("b", opens=True))
        await recorded(engine, "Another Task", drafted("a"))
        await engine.swap_view("t", rendered("t", 2), 2)
        await engine.keep("t", "checkpoints", "0001.json", b"{}")
        await engine.log_load("t", {"by": "an agent"})
        await engine.rewrite("t", {1: drafted("a", pruned=True)}, "prune")

        for checker in (engine, await open_engine()):
            assert await checker.check(repair=False) == []

    async def test_a_damaged_line_is_found(self, engine: Engine) -> None:
        await recorded(engine, "sound", drafted("a"))
        await recorded(engine, "t", drafted("a"), drafted("b"), drafted("c"))
        self.spoil_line(engine, "t", 2)

        findings = await engine.check(repair=False)

        assert {finding.task for finding in findings} == {"t"}
        assert all(finding.problem and finding.file for finding in findings)

    async def test_checking_changes_nothing(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"), drafted("b"), drafted("c"))
        self.spoil_line(engine, "t", 2)
        before = await log_of(engine, "t")

        findings = await engine.check(repair=False)

        assert await log_of(engine, "t") == before
        assert await engine.check(repair=False) == findings

    async def test_repairing_keeps_every_record_that_is_believed(self, engine: Engine) -> None:
        accepted = await recorded(engine, "t", drafted("a"), drafted("b"), drafted("c"))
        self.spoil_line(engine, "t", 2)

        await engine.check(repair=True)

        entries = await log_of(engine, "t")
        assert [entry for entry in entries if entry in accepted] == [accepted[0], accepted[2]]
        [later] = await recorded(engine, "t", drafted("d"))
        assert later.seq == 4

    async def test_repairing_moves_and_never_deletes(self, engine: Engine) -> None:
        needs(engine, "editable")
        await recorded(engine, "t", drafted("a"))
        await engine.swap_view("t", rendered("t", 1), 1)
        broken = b'{"state": {"by": "hand",}}'
        self.save_as_person(engine, "t", broken)

        await engine.check(repair=True)

        sighted = [sighting.raw for sighting in await engine.view("t")]
        assert broken in [*sighted, *(await engine.kept("t", "quarantine")).values()]
        assert len(await records_of(engine, "t")) == 1

    # --- what people set ----------------------------------------------------------------------

    async def test_settings_are_given_as_people_wrote_them(self, open_engine: OpenEngine) -> None:
        engine = await open_engine()
        await recorded(engine, "t", drafted("a"))

        self.write_settings(engine, b'{"retention": {"keep_last": 7}, "unheard of": [1.5]}')

        for reader in (engine, await open_engine()):
            found = await reader.settings()
            assert found["retention"] == {"keep_last": 7}
            assert found["unheard of"] == [1.5]

    async def test_broken_settings_are_unreadable_and_say_where(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))
        self.write_settings(engine, b'{\n  "lease_minutes": 15,\n}')

        with pytest.raises(Unreadable) as caught:
            await engine.settings()

        assert caught.value.line == 3
        assert caught.value.file


async def _announced(
    watching: AsyncIterator[set[str]], change: Callable[[], Awaitable[None]]
) -> set[str]:
    """Make changes until one is announced: a watcher need not be ready before the first."""
    announcement = asyncio.ensure_future(anext(watching))
    async with asyncio.timeout(30):
        while not announcement.done():
            await change()
            await asyncio.wait({announcement}, timeout=0.1)
    return await announcement


async def _until_it_ends(watching: AsyncIterator[set[str]]) -> None:
    async for _ in watching:
        pass
