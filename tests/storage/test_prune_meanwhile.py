"""Somebody prunes while others look and prune: nobody is told of damage where there is none."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast_storage.core import strict_json, view
from holdfast_storage.core.errors import JournalReplaced, Unavailable
from holdfast_storage.core.records import Entry, Place, Record
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.workspace import Workspace

TASK = "report"


class Meanwhile(FolderEngine):
    """Lets something happen between learning where a record lies and reading it there."""

    happens: Callable[[], Awaitable[Any]] | None = None

    async def fetch(self, task: str, places: Sequence[Place]) -> list[Entry]:
        happens, self.happens = self.happens, None
        if happens:
            await happens()
        return await super().fetch(task, places)


async def seven_saves(root: Path) -> None:
    async with Workspace.open(root) as workspace:
        for n in range(1, 8):
            await workspace.task(TASK).save({"n": n, "big": "x" * 2000})


async def prune(root: Path, keep_last: int) -> None:
    async with Workspace.open(root, by="somebody") as workspace:
        await workspace.prune(TASK, keep_last=keep_last, older_than_hours=0)


def opened(root: Path, keep_last: int) -> Workspace:
    engine = Meanwhile.open(root, schema=strict_json.pretty(view.schema()))
    assert isinstance(engine, Meanwhile)
    engine.happens = lambda: prune(root, keep_last)
    return Workspace(engine)


async def test_a_checkpoint_that_a_prune_moved_is_shown(root: Path) -> None:
    await seven_saves(root)
    async with opened(root, keep_last=3) as workspace:
        state = await workspace.state_at(TASK, 6)

        assert state["n"] == 6


async def test_a_checkpoint_that_a_prune_took_is_called_pruned(root: Path) -> None:
    await seven_saves(root)
    async with opened(root, keep_last=1) as workspace:
        with pytest.raises(Unavailable) as refused:
            await workspace.state_at(TASK, 3)

        assert refused.value.why == "it was pruned"


async def test_who_prunes_after_somebody_else_has_prunes_what_is_left(root: Path) -> None:
    await seven_saves(root)
    async with opened(root, keep_last=3) as workspace:
        pruned = await workspace.prune(TASK, keep_last=1, older_than_hours=0)

        assert [line.checkpoint for line in pruned.removed] == [5, 6]
        assert (await workspace.state_at(TASK, 7))["n"] == 7
        assert await workspace.check() == []


async def test_a_second_save_from_one_buffer_is_merged_though_a_prune_moved_the_first(
    root: Path,
) -> None:
    await seven_saves(root)
    file = root / "tasks" / TASK / "state.json"
    buffer = json.loads(file.read_text())
    buffer["state"]["first"] = 1
    file.write_text(json.dumps(buffer))
    async with Workspace.open(root) as workspace:
        await workspace.brief(TASK)
    buffer["state"]["second"] = 2
    file.write_text(json.dumps(buffer))

    async with opened(root, keep_last=1) as workspace:
        state = (await workspace.brief(TASK)).state

    assert (state["first"], state["second"]) == (1, 2)
    assert not (root / "tasks" / TASK / "conflicts").exists()


class MeanwhileOnDisk(Disk):
    """Lets something happen just before a segment is opened to be read."""

    happens: Callable[[], object] | None = None

    def open(self, name: str, flags: int, mode: int = 0o600, *, at: int | None) -> int:
        if name.endswith(".jsonl") and not flags & os.O_RDWR and self.happens:
            happens, self.happens = self.happens, None
            happens()
        return super().open(name, flags, mode, at=at)


async def test_a_segment_that_grew_when_it_was_rewritten_is_read_to_its_end(root: Path) -> None:
    """Of a delta that leaned on what went prune makes a full save, which is longer."""
    async with Workspace.open(root) as workspace:
        for n in range(1, 4):
            await workspace.task(TASK).save({"n": n, "big": "x" * 20_000})
    segment = root / "tasks" / TASK / "journal" / "000001.jsonl"
    before = segment.stat().st_size
    disk = MeanwhileOnDisk()
    disk.happens = lambda: asyncio.run(prune(root, keep_last=2))

    engine = FolderEngine.open(root, disk=disk)
    read = [entry async for portion in engine.read(TASK, 0) for entry in portion]
    await engine.close()

    assert segment.stat().st_size > before
    assert [(type(entry), entry.seq) for entry in read] == [(Record, 1), (Record, 2), (Record, 3)]


async def test_where_only_pruned_saves_are_left_the_state_is_unknown_and_not_empty(
    root: Path,
) -> None:
    await seven_saves(root)
    await prune(root, keep_last=1)
    segment = root / "tasks" / TASK / "journal" / "000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b'"n":7', b'"n":8'))

    async with Workspace.open(root) as workspace:
        brief = await workspace.brief(TASK)

    assert brief.state is None
    assert brief.warnings


async def test_what_happened_to_a_task_that_was_forgotten_and_then_pruned_is_listed(
    root: Path,
) -> None:
    await seven_saves(root)
    async with Workspace(FolderEngine.open(root, known_tasks=2)) as workspace:
        caller = workspace.caller("ann")
        await caller.load(TASK)
        for number in range(5):
            await caller.save(f"other-{number}", {"n": number})
        await prune(root, keep_last=1)

        listed = await caller.list_checkpoints(TASK, show="events", limit=3)

        assert [(event.seq, event.op) for event in listed.events] == [
            (8, "prune"),
            (7, "save"),
            (6, "save"),
        ]


async def test_whoever_folds_a_journal_that_is_replaced_between_two_looks_begins_anew(
    root: Path,
) -> None:
    class Between(FolderEngine):
        """Tells a reader what it is told when another call finds the journal replaced just then."""

        has_told = False

        async def read(self, task: str, after: int) -> AsyncIterator[list[Entry]]:
            if after and not self.has_told:
                self.has_told = True
                raise JournalReplaced(task)
            async for entries in super().read(task, after):
                yield entries

    async with Workspace.open(root) as workspace:
        bob = workspace.caller("bob")
        await bob.save(TASK, {"n": 0})
        await bob.finish(TASK, "abandoned")
        await bob.load(TASK)
        await bob.save(TASK, {"n": 7})
    engine = Between.open(root)
    assert isinstance(engine, Between)
    async with Workspace(engine) as workspace:
        brief = await workspace.caller("ann").load(TASK)

    assert (brief.state, engine.has_told) == ({"n": 7}, True)
