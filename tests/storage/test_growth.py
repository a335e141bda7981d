"""What is kept grows with what changed: not with the number of saves, and a step costs what the first did."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest

from holdfast_storage.core import strict_json, view
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.workspace import Workspace

TASK = "collect"
SAVES = 500
ITEM_BYTES = 4_000


class CountingDisk(Disk):
    """Counts the bytes that go in and out."""

    def __init__(self) -> None:
        self.bytes_read = self.bytes_written = self.calls = 0

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        raw = super().pread(fd, size, offset)
        self.bytes_read += len(raw)
        self.calls += 1
        return raw

    def write(self, fd: int, raw: bytes) -> int:
        self.bytes_written += len(raw)
        self.calls += 1
        return super().write(fd, raw)

    def pwrite(self, fd: int, raw: bytes, offset: int) -> int:
        # Room is as long as the lines that are written over it later.
        self.bytes_written += len(raw.rstrip(b" "))
        self.calls += 1
        return super().pwrite(fd, raw, offset)


def opened_on(root: Path, disk: Disk, **times: Any) -> Workspace:
    engine = FolderEngine.open(root, schema=strict_json.pretty(view.schema()), disk=disk, **times)
    return Workspace(engine)


def item(number: int) -> str:
    """Give text that is not the same again and again."""
    word = f"{number:06} {string.ascii_letters} "
    return (word * (ITEM_BYTES // len(word) + 1))[:ITEM_BYTES]


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def journal_size(root: Path) -> int:
    return size_of(root / "tasks" / TASK / "journal")


@pytest.mark.parametrize("how", ["append", "whole list"])
async def test_500_saves_of_a_growing_list_take_at_most_5_times_its_size(
    root: Path, how: str
) -> None:
    found: list[str] = []
    async with Workspace.open(root) as workspace:
        task = workspace.task(TASK)
        await task.save({"found": []})
        for number in range(SAVES):
            found.append(item(number))
            if how == "append":
                await task.save(append={"found": [item(number)]})
            else:
                await task.save({"found": found})

    content = len(strict_json.encode({"found": found}))
    assert content > SAVES * ITEM_BYTES
    assert size_of(root) <= 5 * content
    async with Workspace.open(root) as workspace:
        for checkpoint in (2, SAVES // 2, SAVES + 1):
            state = await workspace.state_at(TASK, checkpoint)
            assert state == {"found": found[: checkpoint - 1]}
        assert await workspace.check() == []


@pytest.mark.parametrize("how", ["append", "whole list"])
async def test_what_one_save_writes_does_not_grow_with_the_list(root: Path, how: str) -> None:
    disk = CountingDisk()
    async with opened_on(root, disk, young_view_seconds=3600.0) as workspace:
        task = workspace.task(TASK)
        found: list[str] = []
        written: list[int] = []
        await task.save({"found": []})
        await workspace.render(TASK)
        for number in range(200):
            before = disk.bytes_written
            found.append(item(number))
            if how == "append":
                await task.save(append={"found": [item(number)]})
            else:
                await task.save({"found": found})
            written.append(disk.bytes_written - before)

    # Now and then one holds everything, each time so much later that they add up to little.
    full = [size for size in written if size > 2 * ITEM_BYTES]
    assert len(full) <= 6
    assert sum(written) <= 2 * 200 * ITEM_BYTES


async def test_the_500th_step_reads_and_writes_what_the_10th_did(root: Path) -> None:
    disk = CountingDisk()
    costs: list[list[int]] = []
    async with opened_on(root, disk, young_view_seconds=3600.0) as workspace:
        task = workspace.task(TASK)
        await task.save({"padding": "x" * 10_000})
        await workspace.render(TASK)
        for number in range(500):
            before = (disk.bytes_read, disk.bytes_written, disk.calls, journal_size(root))
            await task.done(f"step-{number:03}", {"result": f"{number:03}"})
            after = (disk.bytes_read, disk.bytes_written, disk.calls, journal_size(root))
            costs.append([late - early for early, late in zip(before, after, strict=True)])

    # The seq and the length noted in the lock grow by a digit or two.
    few = 8
    for early, late in zip(
        zip(*costs[10:20], strict=True), zip(*costs[-10:], strict=True), strict=True
    ):
        assert max(late) <= max(early) + few
    # The journal grows by a few kilobytes at a time.
    assert sum(cost[3] for cost in costs[1:]) < 1_000 * len(costs)


async def test_a_step_of_another_process_costs_its_own_bytes_to_read(root: Path) -> None:
    disk = CountingDisk()
    async with (
        Workspace.open(root) as busy,
        opened_on(root, disk, young_view_seconds=3600.0) as looking,
    ):
        await busy.task(TASK).save({"padding": "x" * 10_000})
        await looking.task(TASK).done("warm")
        reads: list[int] = []
        for number in range(200):
            await busy.task(TASK).done(f"step-{number:03}", {"result": f"{number:03}"})
            before = disk.bytes_read
            await looking.task(TASK).done(f"mine-{number:03}")
            reads.append(disk.bytes_read - before)

    # At times a rendering of the other one is looked at as well.
    quiet = sorted(reads)[: len(reads) // 2]
    assert max(quiet) < 2_000


async def test_a_rendering_does_not_grow_with_the_steps_that_are_done(root: Path) -> None:
    disk = CountingDisk()
    sizes: list[int] = []
    async with opened_on(root, disk, young_view_seconds=3600.0) as workspace:
        task = workspace.task(TASK)
        await task.save({})
        for number in range(600):
            await task.done(f"step-{number:03}", {"result": f"{number:03}"})
            if number in (99, 599):
                before = disk.bytes_written
                await workspace.render(TASK)
                sizes.append(disk.bytes_written - before)

    assert sizes[1] <= sizes[0] + 50


async def test_a_load_again_reads_next_to_nothing_however_large_the_state(root: Path) -> None:
    disk = CountingDisk()
    async with opened_on(root, disk, young_view_seconds=3600.0) as workspace:
        task = workspace.task(TASK)
        state = {"padding": "x" * 1_000_000}
        await task.save(state)
        await workspace.render(TASK)
        await task.load()
        reads: list[int] = []
        for _ in range(5):
            before = disk.bytes_read
            brief = await task.load(max_tokens=1_000_000)
            reads.append(disk.bytes_read - before)
            assert brief.state == state

    # A rendering that goes on beside one of them reads the view.
    assert min(reads) < 10_000
