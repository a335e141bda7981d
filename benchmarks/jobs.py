"""The work that is measured: each job is the same for every store, and gives plain figures.

Times are in microseconds. Ratios are taken within one run: to the probe, or to what stands beside.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import string
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.probe import (
    Probe,
    durable_write_seconds,
    median,
    now,
    percentile,
    read_and_parse_seconds,
    size_of,
    timed,
    undisturbed,
)
from benchmarks.store import LeftOut, State, Store, made

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """One job for one store."""

    name: str
    folder: Path
    is_quick: bool
    # Enough for everything to be seen, little enough for a slow store to come to an end.
    seconds: float

    async def opened(self, sub: str = "store") -> Store:
        """Open a store of this kind in a folder of its own."""
        store = made(self.name)
        folder = self.folder / sub
        folder.mkdir(parents=True, exist_ok=True)
        await store.open(folder)
        return store


def us(seconds: float) -> float:
    """Give microseconds that can be read."""
    return round(seconds * 1e6, 1)


# --- batch ------------------------------------------------------------------------------------

_WINDOW = 100


async def batch(setting: Setting) -> Figures:
    """Mark steps one after the other, and see what the last hundred cost against the first."""
    counts = [100, 1_000] if setting.is_quick else [100, 1_000, 10_000, 100_000]
    figures: Figures = {}
    for count in counts:
        found = await _batch_of(setting, count)
        figures[str(count)] = found
        if found["steps"] < count:
            break
    return figures


async def _batch_of(setting: Setting, count: int) -> Figures:
    probe = Probe(setting.folder / f"probe-{count}")
    store = await setting.opened(f"batch-{count}")
    empty = size_of(setting.folder / f"batch-{count}")
    steps: list[float] = []
    probes: list[float] = []
    until = now() + setting.seconds
    for number in range(count):
        steps.append(await timed(lambda number=number: store.step("batch", number)))  # type: ignore[misc]
        in_window = number < _WINDOW or number >= count - _WINDOW
        probes.append(probe.seconds() if in_window or number % 10 == 0 else 0.0)
        if now() > until:
            break
    await store.close()
    size = size_of(setting.folder / f"batch-{count}")
    sampled = [seconds for seconds in probes if seconds]
    first = undisturbed(steps[:_WINDOW]) / undisturbed(probes[:_WINDOW])
    last_probes = [seconds for seconds in probes[-_WINDOW:] if seconds]
    last = undisturbed(steps[-_WINDOW:]) / undisturbed(last_probes)
    return {
        "steps": len(steps),
        "p50_us": us(median(steps)),
        "p99_us": us(percentile(steps, 0.99)),
        "total_s": round(sum(steps), 3),
        "undisturbed_us": us(undisturbed(steps)),
        "probe_us": us(undisturbed(sampled)),
        "in_probes": round(undisturbed(steps) / undisturbed(sampled), 2),
        "first_100_in_probes": round(first, 2),
        "last_100_in_probes": round(last, 2),
        "last_over_first": round(last / first, 2),
        "bytes_a_step": round((size - empty) / len(steps)),
    }


# --- large ------------------------------------------------------------------------------------


async def large(setting: Setting) -> Figures:
    """Save and load states in which every value is new."""
    sizes = [10_000, 100_000, 1_000_000] + ([] if setting.is_quick else [10_000_000])
    figures: Figures = {}
    store = await setting.opened()
    # So long that what a store puts off, or makes ready once, is in it: SQLite's log is made in the
    # first 4 MB and written over from then on.
    # And so often that not every sample has the collector of Python's in it, which comes by now and then.
    fewest, most, in_all = (5, 30, 3_000_000) if setting.is_quick else (15, 1_200, 30_000_000)
    for size in sizes:
        rounds = max(fewest, min(most, in_all // size))
        try:
            figures[str(size)] = await _large_of(setting, store, size, rounds)
        except LeftOut as reason:
            figures[str(size)] = {"left_out": str(reason)}
    if hasattr(store, "merge"):
        figures["merge"] = await _merged(setting, store)
    await store.close()
    return figures


async def _large_of(setting: Setting, store: Store, size: int, rounds: int) -> Figures:
    saves: list[float] = []
    loads: list[float] = []
    writes: list[float] = []
    reads: list[float] = []
    task = f"state-{size}"
    until = now() + setting.seconds
    number = 0
    for number in range(rounds + 1):
        state = state_of(size, number)
        saved = await timed(lambda state=state: store.save(task, state))  # type: ignore[misc]
        written = durable_write_seconds(setting.folder, json.dumps(state).encode())
        # Whichever comes first finds everything as the flush before it left it: out of the caches.
        first_read = read_and_parse_seconds(setting.folder) if number % 2 else 0.0
        loaded = await timed(lambda: store.load(task))
        read = first_read or read_and_parse_seconds(setting.folder)
        if number:  # the first of all makes files that the others find
            saves.append(saved)
            writes.append(written)
            loads.append(loaded)
            reads.append(read)
        if now() > until and number >= 5:
            break
    if await store.load(task) != state_of(size, number):
        raise SystemExit(f"{setting.name} gives back another state than was saved")
    return {
        "saves": len(saves),
        "save_us": us(undisturbed(saves)),
        "save_mean_us": us(sum(saves) / len(saves)),
        "load_us": us(undisturbed(loads)),
        "save_in_durable_writes": round(undisturbed(saves) / undisturbed(writes), 2),
        "load_in_reads": round(undisturbed(loads) / undisturbed(reads), 2),
    }


async def _merged(setting: Setting, store: Any) -> Figures:
    probe = Probe(setting.folder / "probe-merge")
    await store.save("merge", state_of(1_000_000, 0))
    merges: list[float] = []
    probes: list[float] = []
    for number in range(100):
        patch = {"k3": {"note": "x" * 90 + str(number)}}
        merges.append(await timed(lambda patch=patch: store.merge("merge", patch)))  # type: ignore[misc]
        probes.append(probe.seconds())
    return {
        "us": us(undisturbed(merges)),
        "in_probes": round(undisturbed(merges) / undisturbed(probes), 2),
    }


def state_of(size: int, seed: int) -> State:
    """Make a state of about this many bytes, like notes on documents, the same for one seed."""
    rng = random.Random(seed)
    state: State = {}
    length = 0
    while length < size:
        note = {
            "title": "".join(rng.choices(string.ascii_letters, k=60)),
            "pages": rng.randint(1, 999),
            "score": rng.random(),
            "tags": ["read", str(rng.randint(1, 9)), str(rng.random())],
            "note": "".join(rng.choices(string.ascii_letters + " ", k=300)),
        }
        state[f"k{len(state)}"] = note
        length += 480
    return state


# --- list -------------------------------------------------------------------------------------


async def listing(setting: Setting) -> Figures:
    """List everything, and find the newest of one task, among many tasks."""
    # As many in the short form: what a list costs is for each checkpoint here, for each task there.
    tasks, checkpoints = 1_000, 10
    store = await setting.opened()
    most_seconds = max(60.0, 3 * setting.seconds)
    until = now() + most_seconds
    for task in range(tasks):
        for number in range(checkpoints):
            await store.save(f"task-{task:04d}", state_of(1_500, number))
        if now() > until:
            raise LeftOut(f"filling it took more than {most_seconds:.0f} s")
    await store.close()
    store = await setting.opened()
    items = await store.listed()
    lists = [await timed(store.listed) for _ in range(5)]
    newest = [
        await timed(lambda task=task: store.load(f"task-{task:04d}"))  # type: ignore[misc]
        for _ in range(5)
        for task in range(0, tasks, 10)
    ]
    await store.close()
    (setting.folder / "raw").write_bytes(b"x" * 2_000)
    reads = [_open_and_read(setting.folder / "raw") for _ in range(200)]
    return {
        "tasks": tasks,
        "items": items,
        "list_us": us(undisturbed(lists)),
        "newest_us": us(undisturbed(newest)),
        "newest_in_reads": round(undisturbed(newest) / undisturbed(reads), 2),
    }


def _open_and_read(file: Path) -> float:
    began = now()
    file.read_bytes()
    return now() - began


# --- resume -----------------------------------------------------------------------------------


async def resume(setting: Setting) -> Figures:
    """Start a process that loads a task of many steps, until it has the state in hand."""
    figures: Figures = {}
    for count in [1_000] if setting.is_quick else [1_000, 10_000]:
        store = await setting.opened(f"resume-{count}")
        await store.save("resumed", {"model": "small", "totals": {"pages": 812}})
        until = now() + 5 * setting.seconds
        for number in range(count):
            await store.step("resumed", number)
            if now() > until:
                await store.close()
                return figures
        await store.close()
        folder = setting.folder / f"resume-{count}"
        starts = [_cold_seconds(setting.name, folder) for _ in range(5)]
        bare = [_bare_seconds() for _ in range(5)]
        figures[str(count)] = {
            "ms": round(undisturbed(starts) * 1000, 1),
            "in_bare_pythons": round(undisturbed(starts) / undisturbed(bare), 1),
        }
    return figures


def _cold_seconds(name: str, folder: Path) -> float:
    began = now()
    done = subprocess.run(
        child(name, "resumed", str(folder)), check=False, capture_output=True, text=True
    )
    took = now() - began
    if done.returncode:
        raise LeftOut((done.stderr.splitlines() or ["a process failed"])[-1])
    return took


def _bare_seconds() -> float:
    began = now()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return now() - began


def child(name: str, what: str, *more: str) -> list[str]:
    """Give the command of a process that takes part in a job."""
    return [sys.executable, "-m", "benchmarks.measure", name, what, *more]


# --- together ---------------------------------------------------------------------------------

_PROCESSES, _STEPS_EACH = 8, 200
# A race takes half a second, and one differs from the next by a fifth.
_RACES = 5


async def together(setting: Setting) -> Figures:
    """Have eight processes mark steps at the same time, on one task and each on its own."""
    figures: Figures = {}
    for how in ("apart", "one task"):
        until = now() + setting.seconds / 4
        races: list[Figures] = []
        try:
            for number in range(1 if setting.is_quick else _RACES):
                folder = setting.folder / f"{how.replace(' ', '-')}-{number}"
                folder.mkdir()
                races.append(await _raced(setting, folder, how, _STEPS_EACH))
                if now() > until:
                    break
        except LeftOut as reason:
            figures[how] = {"left_out": str(reason)}
            continue
        speeds = [race["steps_a_second"] for race in races]
        figures[how] = {
            "races": len(races),
            "steps_a_second": median(speeds),
            "from_to": [min(speeds), max(speeds)],
            "acknowledged": races[0]["acknowledged"],
            "lost": max(race["lost"] for race in races),
        }
    return figures


async def _raced(setting: Setting, folder: Path, how: str, each: int) -> Figures:
    store = made(setting.name)
    await store.open(folder)
    await store.step("warm", 0)
    await store.close()
    tasks = [f"task-{n}" if how == "apart" else "task" for n in range(_PROCESSES)]
    racers = [
        _racer(child(setting.name, "race", str(folder), task, str(n * each), str(each)))
        for n, task in enumerate(tasks)
    ]
    _start_together(racers, "opened")
    began = _start_together(racers, "ready")
    acknowledged = sum(int(_said(racer, "done")) for racer in racers)
    seconds = now() - began
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
        racer.wait()
    store = made(setting.name)
    await store.open(folder)
    kept = sum([await store.kept(task) for task in sorted(set(tasks))])
    await store.close()
    return {
        # The first of each was marked before the start.
        "steps_a_second": round((acknowledged - _PROCESSES) / seconds),
        "acknowledged": acknowledged,
        "lost": acknowledged - kept,
    }


def _start_together(racers: list[subprocess.Popen[str]], word: str) -> float:
    """Let them go on when all have come so far; answers when that was."""
    for racer in racers:
        _said(racer, word)
    began = now()
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return began


def _racer(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _said(racer: subprocess.Popen[str], word: str) -> str:
    assert racer.stdout is not None
    line = racer.stdout.readline().split()
    if not line or line[0] != word:
        raise LeftOut(" ".join(line) or "a process failed")
    return line[-1]


async def race(name: str, folder: str, task: str, first: int, count: int) -> None:
    """Be one of those processes."""
    store = made(name)
    await store.open(Path(folder))
    print("opened", flush=True)
    sys.stdin.readline()
    acknowledged = 0
    try:
        # Some stores open their files only now, and how long that takes is not the question.
        await store.step(task, first)
        print("ready", flush=True)
        sys.stdin.readline()
        acknowledged += 1
        for number in range(first + 1, first + count):
            await store.step(task, number)
            acknowledged += 1
    except LeftOut as reason:
        print(reason, flush=True)
        os._exit(1)
    print("done", acknowledged, flush=True)
    sys.stdin.readline()
    await store.close()


# --- growth -----------------------------------------------------------------------------------


async def growth(setting: Setting) -> Figures:
    """Save a list that grows by 4 kB each time, and see how large the folder gets."""
    saves = 100 if setting.is_quick else 500
    store = await setting.opened()
    found: list[str] = []
    until = now() + 3 * setting.seconds
    for number in range(saves):
        found.append((f"{number:06d} {string.ascii_letters} " * 68)[:4_000])
        await store.save("growing", {"found": list(found)})
        if now() > until:
            break
    await store.close()
    content = len(json.dumps({"found": found}))
    return {
        "saves": len(found),
        "content_bytes": content,
        "folder_bytes": size_of(setting.folder / "store"),
        "times_the_content": round(size_of(setting.folder / "store") / content, 1),
    }


JOBS: dict[str, Callable[[Setting], Coroutine[Any, Any, Figures]]] = {
    "batch": batch,
    "large": large,
    "list": listing,
    "resume": resume,
    "together": together,
    "growth": growth,
}


async def resumed(name: str, folder: str) -> None:
    """Load a task in a new process."""
    store = made(name)
    await store.open(Path(folder))
    try:
        state = await store.load("resumed")
    except LeftOut as reason:
        print(reason, file=sys.stderr, flush=True)
        os._exit(1)
    assert state["totals"] == {"pages": 812}, state
    # What a store does to end is not part of having the state in hand.
    sys.stdout.flush()
    await asyncio.sleep(0)
    os._exit(0)
