"""A harness that has never been seen to fail shows nothing: each of these bugs must be caught.

What is patched here is inherited by the processes that the harnesses fork.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.torture import kills, run, soak, syscalls
from tests.torture.harness import Row
from tests.torture.live_memory import LiveMemory
from tests.torture.soak import Sample

from holdfast_storage.engines.folder import alive, kept, rewriting, task_folder
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.lock import TaskLock
from holdfast_storage.engines.folder.publishing import Publication

SEED = 7


def broken(row: Row, words: str) -> bool:
    """Say whether the harness saw it, in these words."""
    return any(words in violation for violation in row.violations)


@contextmanager
def never_tidying() -> Generator[None, None, None]:
    """What a killed process was about to put in place stays for ever."""
    with ExitStack() as patches:
        for module in (alive, kept, task_folder):
            patches.enter_context(patch.object(module, "remove_abandoned", _do_nothing))
        yield


def _do_nothing(*_: object) -> None:
    pass


# --- kills ------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_kills_see_that_a_lock_locks_nobody_out() -> None:
    def locked_by_all(*_: object, **__: object) -> bool:
        return True

    with patch.object(Disk, "lock_in_turn", locked_by_all):
        row = kills.long(SEED, 1500)

    assert row.violations


@pytest.mark.timeout(300)
def test_kills_see_that_a_lock_is_used_on_that_was_let_go_of() -> None:
    def released(self: TaskLock) -> None:
        known = vars(self)
        known["_disk"].unlock(known["_lock"])
        known["_is_kept"] = True

    with patch.object(TaskLock, "release", released):
        row = kills.long(SEED, 1500)

    assert row.violations


@pytest.mark.timeout(300)
def test_kills_see_that_what_a_rendering_displaced_is_thrown_away() -> None:
    def rename_over_it(publication: Publication, *_: object) -> bool:
        known = vars(publication)
        known["_disk"].rename(known["_ours"].name, "state.json", at=known["_folder"])
        return True

    with patch.object(Publication, "publish", rename_over_it):
        row = kills.long(SEED, 1500)

    assert broken(row, "lost: ['edited'")


@pytest.mark.timeout(300)
def test_kills_see_half_written_files_that_nobody_removes() -> None:
    # It ends with the first round that shows it; which one is up to the machine.
    with never_tidying():
        row = kills.long(SEED, 5000)

    assert broken(row, "left over")


# --- system calls -----------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_system_calls_see_a_segment_that_is_rewritten_in_place() -> None:
    def in_place(disk: Disk, name: str, raw: bytes, *, at: int) -> None:
        fd = disk.open(name, os.O_WRONLY | os.O_TRUNC, at=at)
        disk.write(fd, raw[: len(raw) // 2])
        disk.write(fd, raw[len(raw) // 2 :])
        disk.close(fd)

    prune = [each for each in syscalls.OPERATIONS if each.name == "prune"]
    with (
        patch.object(rewriting, "replace_file", in_place),
        patch.object(syscalls, "OPERATIONS", prune),
    ):
        row = syscalls.long(SEED, 1000)

    assert broken(row, "half of it is there") or broken(row, "checkpoint")


# --- soak -------------------------------------------------------------------------------------


def held(
    mib_per_hour: float,
    descriptors_per_hour: float = 0,
    fills: float = 6,
    seed: int = SEED,
    blocks_per_hour: float = 0,
    malloc_mib_per_hour: float = 0,
    small_mib_per_hour: float = 0,
) -> list[Sample]:
    """An hour of samples with noise; in the first 16 minutes caches fill with so many MiB."""
    chance, alive = random.Random(seed), random.Random(f"{seed} alive")
    return [
        Sample(
            second,
            40 + fills * min(second / 960, 1) + mib_per_hour * second / 3600 + chance.gauss(0, 0.3),
            # Mostly the same number, and more while something is read.
            100 + int(descriptors_per_hour * second / 3600) + max(0, chance.randrange(-8, 5)),
            LiveMemory(
                int(250_000 + blocks_per_hour * second / 3600 + alive.gauss(0, 2_000)),
                int((8 + malloc_mib_per_hour * second / 3600 + alive.gauss(0, 0.3)) * 2**20),
                int((22 + small_mib_per_hour * second / 3600) * 2**20),
            ),
        )
        for second in range(0, 3600, 5)
    ]


def test_a_soak_sees_memory_and_descriptors_that_rise_and_not_noise() -> None:
    assert not [*soak.grown({1: held(0.0)})]
    assert not [*soak.grown({1: held(0.0, fills=0)})]
    assert len([*soak.grown({1: held(0.0, descriptors_per_hour=3)})]) == 1
    assert len([*soak.grown({1: held(0.0, blocks_per_hour=7_000)})]) == 1
    assert len([*soak.grown({1: held(0.0, small_mib_per_hour=1.3)})]) == 1
    assert len([*soak.grown({1: held(0.0, malloc_mib_per_hour=1.3)})]) == 1
    freed = held(0.0, malloc_mib_per_hour=1.8, small_mib_per_hour=-1.5)
    assert len([*soak.grown({1: freed})]) == 1


def test_a_soak_looks_at_all_processes_and_names_one_that_stopped_telling() -> None:
    silent, leaking = held(0.0)[:100], held(0.0, malloc_mib_per_hour=9)

    accused = [*soak.grown({1: silent, 2: leaking})]

    assert [words.split(" ")[1] for words in accused] == ["1", "2"]
    assert not [*soak.grown({1: silent, 2: silent})]


def test_a_soak_tells_an_arena_more_from_a_leak_that_no_allocator_knows() -> None:
    assert not [*soak.grown({1: held(2.0)})]
    [accused] = soak.grown({1: held(8.0)})
    assert "more of the machine's memory" in accused


def test_what_a_process_keeps_is_seen_and_what_it_lets_go_is_not() -> None:
    before = LiveMemory.now()
    kept = [[number] for number in range(10_000)], [bytes(4_000) for _ in range(1_000)]
    during = LiveMemory.now()
    del kept
    after = LiveMemory.now()

    assert during.blocks - before.blocks > 10_000 > after.blocks - before.blocks
    assert before.block_bytes or sys.implementation.name != "cpython"
    if before.block_bytes:
        assert during.block_bytes - before.block_bytes > 10_000 * 56
        assert after.block_bytes - before.block_bytes < 10_000 * 56
    if before.malloc_bytes:  # only glibc tells
        assert during.malloc_bytes - before.malloc_bytes > 3_000_000
        assert after.malloc_bytes - before.malloc_bytes < 1_000_000


def test_a_soak_accuses_no_process_of_noise() -> None:
    assert not [*soak.grown({seed: held(0.0, seed=seed) for seed in range(100)})]


@pytest.mark.timeout(300)
def test_a_soak_sees_a_step_that_was_answered_and_not_written() -> None:
    def forgetful(disk: Disk, fd: int, raw: bytes) -> int:
        is_step = b'"op":"done"' in raw and b"agent07" in raw
        return len(raw) if is_step else os.write(fd, raw)

    with patch.object(Disk, "write", forgetful):
        row = soak.soaked(SEED, 5, think_seconds=0.1, kill_seconds=1, task_seconds=5)

    assert broken(row, "lost: ['done'")


# --- the runner -------------------------------------------------------------------------------


def test_a_harness_that_crashes_is_a_row_and_stops_nobody(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    there = run.Harness("there", pytest=(f"{tmp_path}/test_it.py",), of="tests")
    (tmp_path / "test_it.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    with patch.object(run, "HARNESSES", (run.Harness("is_not_there"), there)):
        code = run.main(["--short", "--seed", "1", "--results", str(tmp_path / "results.jsonl")])

    printed = capsys.readouterr().out
    assert code == 1
    assert "seed 1" in printed
    assert "BROKEN is_not_there" in printed
    rows = [Row.from_json(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [(row.harness, row.count, bool(row.violations)) for row in rows] == [
        ("is_not_there", 0, True),
        ("there", 2, False),
    ]
