"""Run every harness, each in a process of its own, and print one table of what was tried and what broke.

make torture SHORT=1                                     what CI runs, minutes
make torture                                             the long form, hours
python -m tests.torture.run --only kills soak            some of them
python -m tests.torture.run --results results.jsonl      appends seeds and counts, part by part
python -m tests.torture.run --sum results.jsonl          adds the parts up
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.torture.harness import Row

_AT_ONCE = 2
_SHOWN_VIOLATIONS = 5
# None takes nearly as long, but a machine may be busy; one that hangs must not hold up the others.
_SHORT_PATIENCE_SECONDS = 900


@dataclass(frozen=True)
class Harness:
    """One harness: a module with a command line, or tests that pytest runs."""

    name: str
    long: tuple[str, ...] = ()  # what makes the long form of it
    is_long_only: bool = False
    pytest: tuple[str, ...] = ()
    of: str = ""
    edits: tuple[int, int] = (0, 0)  # HOLDFAST_EDITS in the short and the long form

    def command(self, seed: int, results: Path, *, is_short: bool) -> list[str]:
        """Give the command that runs it."""
        if self.pytest:
            return [sys.executable, "-m", "pytest", "-q", "-rs", "--timeout=3600", *self.pytest]
        where = ("--seed", str(seed), "--json", str(results))
        if is_short:
            return [sys.executable, "-m", "tests.torture.short_form", self.name, *where]
        return [sys.executable, "-m", f"tests.torture.{self.name}", *self.long, *where]


# The longest first: what begins last should not be what everybody then waits for.
HARNESSES = (
    Harness("soak", ("--hours", "1")),
    Harness("crash_points", ("--count", "100000")),
    Harness("syscalls", ("--count", "100000")),
    Harness("kills", ("--count", "20000")),
    Harness("mutants", pytest=("tests/torture/test_mutants.py",), of="planted bugs"),
    # The checkers themselves: histories, files and calls that are wrong, and must be found to be.
    Harness(
        "planted",
        pytest=(
            *("tests/torture/test_linearizability.py", "tests/torture/test_hostile_files.py"),
            *("tests/torture/test_model.py", "-k", "not planted_bug_is_found"),
        ),
        of="wrong histories and files",
    ),
    Harness("io_errors", ("--count", "100000")),
    Harness("small_disk", ("--count", "100")),
    Harness("linearizability", ("--count", "10000")),
    Harness("hostile_files", ("--count", "100000")),
    Harness("model", ("--count", "10000")),
    Harness(
        "editors",
        pytest=("tests/storage/test_editors.py", "-k", "while_agents_save"),
        of="ways to save",
        edits=(25, 500),
    ),
    Harness("peers", ("--count", "1"), is_long_only=True),
)


@dataclass(frozen=True)
class Outcome:
    """A row and how long it took."""

    row: Row
    seconds: float


def run(harness: Harness, seed: int, *, is_short: bool) -> Outcome:
    """Run one harness. However it ends, it ends in a row: its crash is a promise not shown."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-torture-") as folder:
        results = Path(folder) / "row.json"
        try:
            done = _done(harness, seed, results, is_short=is_short)
        except subprocess.TimeoutExpired as late:
            row = Row(harness.name, 0, harness.of, seed, (f"it did not end: {late}",), "hung")
            return Outcome(row, time.monotonic() - began)
        if harness.pytest:
            row = _row_of_tests(harness, seed, done)
        elif results.exists():
            row = Row.from_json(results.read_text().splitlines()[-1])
        else:
            row = _crashed(harness, seed, done)
    return Outcome(row, time.monotonic() - began)


def _done(
    harness: Harness, seed: int, results: Path, *, is_short: bool
) -> subprocess.CompletedProcess[str]:
    edits = harness.edits[0] if is_short else harness.edits[1]
    return subprocess.run(
        harness.command(seed, results, is_short=is_short),
        env=os.environ | ({"HOLDFAST_EDITS": str(edits)} if edits else {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_SHORT_PATIENCE_SECONDS if is_short else None,
    )


def _crashed(harness: Harness, seed: int, done: subprocess.CompletedProcess[str]) -> Row:
    said = done.stdout.strip()[-2000:]
    violation = f"the harness itself ended with {done.returncode}: {said}"
    return Row(harness.name, 0, harness.of, seed, (violation,), "crashed")


def _row_of_tests(harness: Harness, seed: int, done: subprocess.CompletedProcess[str]) -> Row:
    *_, summary = done.stdout.strip().splitlines() or [""]
    passed = re.search(r"(\d+) passed", summary)
    if not passed and done.returncode:
        return _crashed(harness, seed, done)
    failed = tuple(
        line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))
    )
    skipped = re.search(r"\d+ skipped", summary)
    if done.returncode and not failed:
        failed = (summary,)
    count = int(passed[1]) if passed else 0
    return Row(harness.name, count, harness.of, seed, failed, skipped[0] if skipped else "")


# --- the table --------------------------------------------------------------------------------


def table(outcomes: Sequence[Outcome]) -> str:
    """Give one line for each harness, and below it what broke."""
    rows = [("harness", "count", "of", "violations", "seconds", "remark")]
    rows += [
        (
            outcome.row.harness,
            str(outcome.row.count),
            outcome.row.of,
            str(len(outcome.row.violations)),
            f"{outcome.seconds:.0f}",
            outcome.row.remark,
        )
        for outcome in outcomes
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]])
        for row in rows
    ]
    lines += [
        f"BROKEN {outcome.row.harness} (seed {outcome.row.seed}): {violation}"
        for outcome in outcomes
        for violation in outcome.row.violations[:_SHOWN_VIOLATIONS]
    ]
    return "\n".join(line.rstrip() for line in lines)


def summed(results: Path) -> str:
    """Add up the parts that a results file holds, as a table for people to read."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for line in results.read_text().splitlines():
        told: dict[str, Any] = json.loads(line)
        parts.setdefault(told["harness"], []).append(told)
    lines = ["| harness | count | of | violations | seconds | until |", "|---|---|---|---|---|---|"]
    for name, of_one in sorted(parts.items()):
        count = sum(part["count"] for part in of_one)
        broken = sum(len(part["violations"]) for part in of_one)
        seconds = sum(part["seconds"] for part in of_one)
        of, at = of_one[-1]["of"], of_one[-1]["at"][:10]
        lines.append(f"| {name} | {count:,} | {of} | {broken} | {seconds:,.0f} | {at} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, two at a time."""
    said = _parser().parse_args(arguments)
    if said.sum:
        print(summed(said.sum))
        return 0
    chosen = [
        harness
        for harness in HARNESSES
        if (harness.name in said.only if said.only else not (said.short and harness.is_long_only))
    ]
    print(f"seed {said.seed}", flush=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [pool.submit(run, each, said.seed, is_short=said.short) for each in chosen]
        outcomes: list[Outcome] = []
        for one in running:
            outcomes.append(one.result())
            if said.results:
                _note(outcomes[-1], said.results)
    print(table(outcomes))
    return 1 if any(outcome.row.violations for outcome in outcomes) else 0


def _note(outcome: Outcome, results: Path) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    told = {**asdict(outcome.row), "seconds": round(outcome.seconds, 1), "at": at}
    with results.open("a") as file:
        file.write(json.dumps(told) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [harness.name for harness in HARNESSES]
    parser.add_argument("--short", action="store_true", help="minutes instead of hours")
    parser.add_argument("--only", nargs="+", choices=names, default=[], help="these and no others")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="to replay a run")
    parser.add_argument("--results", type=Path, help="append a line for each harness to this file")
    parser.add_argument("--sum", type=Path, help="run nothing; add up what such a file holds")
    return parser


if __name__ == "__main__":
    sys.exit(main())
