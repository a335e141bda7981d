"""Measure one store in this process: `python -m benchmarks.measure STORE JOB`, figures on stdout."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks import jobs
from benchmarks.store import LeftOut, made

_PACKAGES = (
    *("langgraph-checkpoint", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres"),
    *("dbos", "agent-framework-core", "agentcheckpoint", "mcp", "pydantic"),
)
# Nothing that is measured tells anybody.
_SILENT = {"LANGCHAIN_TRACING_V2": "false", "LANGSMITH_TRACING": "false", "DO_NOT_TRACK": "1"}


def versions() -> dict[str, str]:
    """Give the versions of what is measured, as far as it is installed here."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def measured(
    name: str, job: str, *, is_quick: bool, seconds: float, above: Path | None = None
) -> jobs.Figures:
    """Do one job with one store in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=above) as folder:
        setting = jobs.Setting(name, Path(folder), is_quick, seconds)
        try:
            found = _done(job, setting)
        except LeftOut as reason:
            return {"left_out": str(reason)}
    return {"figures": found, "flushes": made(name).flushes}


def _done(job: str, setting: jobs.Setting) -> jobs.Figures:
    if job == "wire":
        # Only here: the peers' environment has another MCP SDK.
        from benchmarks.wire import wire

        return wire(setting)
    return asyncio.run(jobs.JOBS[job](setting))


def main() -> None:
    """Measure, or be a process that takes part in a measurement."""
    os.environ.update(_SILENT)
    if sys.argv[2:3] == ["race"]:
        name, _, folder, task, first, count = sys.argv[1:]
        asyncio.run(jobs.race(name, folder, task, int(first), int(count)))
        return
    if sys.argv[2:3] == ["resumed"]:
        asyncio.run(jobs.resumed(sys.argv[1], sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("job", choices=[*jobs.JOBS, "wire"])
    parser.add_argument("--quick", action="store_true", help="the short form")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long one part may take")
    parser.add_argument("--folder", type=Path, help="where to measure (default: /tmp)")
    options = parser.parse_args()
    found = measured(
        options.store,
        options.job,
        is_quick=options.quick,
        seconds=options.seconds,
        above=options.folder,
    )
    print(json.dumps({**found, "versions": versions()}))


if __name__ == "__main__":
    main()
