"""What it costs to type `holdfast ls`, in CPU time and against a bare `import pydantic`."""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from holdfast_storage import Workspace

_AT_ONCE = 50
_MOST = 3.0  # times the bare import


async def fill(root: Path, tasks: int, checkpoints: int) -> None:
    """Make tasks as agents would leave them."""

    async def one(workspace: Workspace, number: int) -> None:
        agent = workspace.caller("benchmark")
        for each in range(checkpoints):
            state = {"page": each, "notes": "x" * 200}
            await agent.save(f"task-{number:04d}", state, goal="One of many", next=f"page {each}")

    async with Workspace.open(root) as workspace:
        for first in range(0, tasks, _AT_ONCE):
            some = range(first, min(tasks, first + _AT_ONCE))
            await asyncio.gather(*(one(workspace, number) for number in some))


def cpu_seconds(command: list[str]) -> float:
    """Run a program and give the CPU time it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratio_of(listing: list[str], rounds: int) -> tuple[float, float]:
    """Take turns, so that whatever else the machine does falls on both; give both medians."""
    bare = [sys.executable, "-c", "import pydantic"]
    for command in (bare, listing):
        cpu_seconds(command)
    pairs = [(cpu_seconds(bare), cpu_seconds(listing)) for _ in range(rounds)]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


def main() -> int:
    """Measure; the status is 1 if it takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer tasks and rounds")
    options = parser.parse_args()
    tasks, checkpoints, rounds = (200, 2, 5) if options.quick else (1000, 10, 11)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / ".holdfast"
        asyncio.run(fill(root, tasks, checkpoints))
        listing = [sys.executable, "-m", "holdfast_server", "ls", "--workspace", str(root)]
        bare, listed = ratio_of(listing, rounds)
    ratio = listed / bare
    print(f"import pydantic                      {bare * 1000:6.0f} ms of CPU")
    print(
        f"holdfast ls, {tasks:5,} x {checkpoints:2} checkpoints    {listed * 1000:6.0f} ms of CPU"
    )
    print(f"ratio                                {ratio:6.2f} (at most {_MOST:g})")
    return 0 if ratio <= _MOST else 1


if __name__ == "__main__":
    sys.exit(main())
