"""Measure Holdfast beside its peers, and say which targets are met.

    python -m benchmarks                          everything, for an hour
    python -m benchmarks --quick                  the short form, within three minutes
    python -m benchmarks --job large --store holdfast --store langgraph_sqlite

Each job of each store runs in a process of its own, its figures replace those of the last time in the
result file, and the verdicts are worked out from what the file holds. Peers run in the environment
that `make peers` makes; without it they are left out, and the report says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import targets
from benchmarks.store import OURS, STORES
from holdfast_storage.core.strict_json import is_object

_ROOT = Path(__file__).parents[1]
_PEERS = _ROOT / ".venv-peers" / "bin" / "python"
_JOBS = ("batch", "large", "list", "resume", "together", "growth", "wire")
_ENGINE_ONLY = {"holdfast_engine": ("batch",), "limit": ("batch", "together")}
# The short form leaves out what takes long for what it shows: who wants it asks for it.
_QUICK = {
    "large": {"holdfast", "langgraph_sqlite"},
    "list": {"holdfast", "langgraph_sqlite"},
    "resume": {"holdfast", "langgraph_sqlite"},
    "growth": {"holdfast", "langgraph_sqlite"},
    "together": {"holdfast", "limit", "langgraph_sqlite"},
}


# What is held against SqliteSaver's there is measured with it in turn so many times, and the median of each
# figure counts: a processor may be slower by half a few seconds later.
_IN_TURN = {"large": 3, "resume": 3}
_TAKE_TURNS = {"holdfast", "langgraph_sqlite"}


def main() -> int:
    """Run the jobs, keep their figures, print the verdicts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the short form")
    parser.add_argument("--job", action="append", choices=_JOBS, help="only this one (repeatable)")
    parser.add_argument(
        "--store", action="append", choices=STORES, help="only this one (repeatable)"
    )
    parser.add_argument("--seconds", type=float, default=0, help="how long one part may take")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where to measure, which is to say on which disk (default: /tmp)",
    )
    parser.add_argument(
        "--results", type=Path, default=_ROOT / "build" / "benchmarks.json", help="the result file"
    )
    options = parser.parse_args()
    results = Results(options.results)
    for job in options.job or _JOBS:
        stores = [store for store in options.store or STORES if _is_wanted(job, store, options)]
        found: dict[str, list[dict[str, Any]]] = {store: [] for store in stores}
        for number in range(_IN_TURN.get(job, 1)):
            for store in stores:
                if number == 0 or store in _TAKE_TURNS:
                    found[store].append(_measured(job, store, options))
        for store in stores:
            results.keep(job, store, medians(found[store]))
    print(targets.table(results.figures))
    return 0 if targets.all_met(results.figures) else 1


def _is_wanted(job: str, store: str, options: argparse.Namespace) -> bool:
    if job == "wire":
        return store == "holdfast"
    if job not in _ENGINE_ONLY.get(store, _JOBS):
        return False
    is_chosen = options.job or options.store
    return not options.quick or bool(is_chosen) or store in _QUICK.get(job, STORES)


def _measured(job: str, store: str, options: argparse.Namespace) -> dict[str, Any]:
    python = Path(sys.executable) if store in OURS else _PEERS
    if not python.exists():
        return {"left_out": "its environment is not there (make peers)"}
    seconds = options.seconds or (3 if options.quick else 40)
    command = [str(python), "-m", "benchmarks.measure", store, job, f"--seconds={seconds}"]
    if options.quick:
        command.append("--quick")
    if options.folder:
        command.append(f"--folder={options.folder.absolute()}")
    began = time.monotonic()
    done = subprocess.run(
        command,
        check=False,
        cwd=_ROOT,
        env={"HOLDFAST_PEERS_NPM": str(_ROOT / "build" / "peers"), **os.environ},
        capture_output=True,
        text=True,
    )
    print(f"{job} {store}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["?"])[-1].replace(f"{_ROOT}/", "")
        return {"left_out": f"it failed: {said[:200]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    form = "quick" if options.quick else "full"
    return {**found, "form": form, "at": datetime.now(UTC).isoformat(timespec="minutes")}


def medians(found: list[Any]) -> Any:
    """Give the median of each figure; what is no number is that of the last time."""
    last = found[-1]
    if is_object(last):
        objects = list(filter(is_object, found))
        return {key: medians([each[key] for each in objects if key in each]) for key in last}
    numbers = [each for each in found if type(each) in (int, float)]
    return statistics.median_low(numbers) if type(last) in (int, float) else last


class Results:
    """The result file: the newest figures of every job and store."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._all: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}

    def keep(self, job: str, store: str, found: dict[str, Any]) -> None:
        """Put new figures in the place of old ones."""
        self._all["machine"] = {
            "python": platform.python_version(),
            "kernel": ".".join(platform.release().split(".")[:2]),
            "cores": os.cpu_count(),
        }
        self._all.setdefault("results", {}).setdefault(job, {})[store] = found
        self._all["verdicts"] = targets.verdicts(self.figures)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._all, indent=1) + "\n")

    @property
    def figures(self) -> targets.Results:
        """What was measured, by job and store."""
        found: targets.Results = self._all.get("results", {})
        return found


if __name__ == "__main__":
    raise SystemExit(main())
