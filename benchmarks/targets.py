"""What Holdfast has to reach, and whether it does, as ratios within one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Results = dict[str, dict[str, dict[str, Any]]]


class Absent(Exception):
    """Nobody measured that."""


def figure(results: Results, job: str, store: str, *path: str) -> float:
    """Find one figure."""
    found: Any = results.get(job, {}).get(store, {}).get("figures", {})
    try:
        for key in path:
            found = found[key]
    except KeyError:
        raise Absent(f"{job} {store}") from None
    return float(found)


@dataclass(frozen=True, slots=True)
class Target:
    """One line of the table: a figure of ours, and what it may be."""

    what: str
    limit: float
    value: Callable[[Results], float]
    at_least: bool = False

    def verdict(self, results: Results) -> dict[str, Any]:
        """Say whether it is met, or that it was not measured."""
        wanted = f"at {'least' if self.at_least else 'most'} {self.limit:g}"
        try:
            value = self.value(results)
        except (Absent, ZeroDivisionError):
            return {"what": self.what, "target": wanted, "measured": None, "met": None}
        is_met = value >= self.limit if self.at_least else value <= self.limit
        return {"what": self.what, "target": wanted, "measured": round(value, 2), "met": is_met}


def _largest(results: Results, store: str, key: str) -> float:
    """Give a figure of the longest batch that was measured."""
    found = results.get("batch", {}).get(store, {}).get("figures", {})
    if not found:
        raise Absent(store)
    return float(found[max(found, key=int)][key])


def _over_sqlite(job: str, *path: str) -> Callable[[Results], float]:
    return lambda results: (
        figure(results, job, "holdfast", *path) / figure(results, job, "langgraph_sqlite", *path)
    )


def _of(job: str, store: str, *path: str) -> Callable[[Results], float]:
    return lambda results: figure(results, job, store, *path)


def _of_locked_appends(how: str) -> Callable[[Results], float]:
    return lambda results: (
        figure(results, "together", "holdfast", how, "steps_a_second")
        / figure(results, "together", "limit", how, "steps_a_second")
    )


TARGETS = (
    Target("step: the engine's commit, in probes", 1.2, lambda r: _batch(r, "holdfast_engine")),
    Target(
        "step: through the asynchronous workspace, in probes", 1.8, lambda r: _batch(r, "holdfast")
    ),
    *(
        Target(
            f"step {count:,} over the first hundred",
            limit,
            _of("batch", "holdfast", str(count), "last_over_first"),
        )
        for count, limit in ((10_000, 1.1), (100_000, 1.2))
    ),
    Target(
        "step over stdio, against nothing plus a probe",
        1.3,
        _of("wire", "holdfast", "step", "against_nothing_and_probe"),
    ),
    Target("bytes on disk a step", 400, lambda r: _largest(r, "holdfast", "bytes_a_step")),
    *(
        Target(
            f"save of {size:,} bytes over SqliteSaver's",
            1.0,
            _over_sqlite("large", str(size), "save_us"),
        )
        for size in (10_000, 100_000, 1_000_000, 10_000_000)
    ),
    Target(
        "100 bytes merged into 1 MB, in probes", 3.0, _of("large", "holdfast", "merge", "in_probes")
    ),
    *(
        Target(
            f"load of {size:,} bytes, against reading and parsing them",
            1.2,
            _of("large", "holdfast", str(size), "load_in_reads"),
        )
        for size in (10_000, 1_000_000, 10_000_000)
    ),
    Target("list of all tasks over SqliteSaver's", 0.33, _over_sqlite("list", "list_us")),
    Target(
        "newest of one task, in reads of a 2 kB file",
        3.0,
        _of("list", "holdfast", "newest_in_reads"),
    ),
    Target(
        "cold process to state, 1,000 steps, over SqliteSaver's",
        1.0,
        _over_sqlite("resume", "1000", "ms"),
    ),
    *(
        Target(
            f"8 processes, {how}: part of locked appends",
            0.6,
            _of_locked_appends(how),
            at_least=True,
        )
        for how in ("one task", "apart")
    ),
    *(
        Target(f"8 processes, {how}: steps lost", 0, _of("together", "holdfast", how, "lost"))
        for how in ("one task", "apart")
    ),
    Target(
        "saves of a growing list, folder over content",
        5.0,
        _of("growth", "holdfast", "times_the_content"),
    ),
    Target(
        "CPU time to the first answer, against a bare server",
        1.15,
        _of("wire", "holdfast", "first answer", "against_bare"),
    ),
)


def _batch(results: Results, store: str) -> float:
    return figure(results, "batch", store, "1000", "in_probes")


def verdicts(results: Results) -> list[dict[str, Any]]:
    """Judge every target."""
    return [target.verdict(results) for target in TARGETS]


def all_met(results: Results) -> bool:
    """Say whether no target that was measured is missed."""
    return all(verdict["met"] is not False for verdict in verdicts(results))


def table(results: Results) -> str:
    """Write the verdicts for a terminal."""
    words = {True: "met", False: "MISSED", None: "not measured"}
    return "\n".join(
        f"{each['what']:<58} {each['target']:>12} {each['measured'] if each['measured'] is not None else '-':>8}"
        f"  {words[each['met']]}"
        for each in verdicts(results)
    )
