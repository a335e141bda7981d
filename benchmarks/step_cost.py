"""What a step costs at the beginning of a run and after a hundred thousand others.

Machines are noisy, so nothing here is an absolute time: each measured step is paired with a probe (an
append of 300 bytes and a flush on the same disk), and the figures are ratios within one run.

    python -m benchmarks.step_cost            at 10, 1,000, 10,000 and 100,000 steps
    python -m benchmarks.step_cost --quick    at 10, 1,000 and 10,000
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from holdfast_storage import Task, Workspace

RESULT = "r" * 200
MEASURED = 300
AT_ONCE = 200


class Probe:
    """The limit of the disk: append and flush."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(folder / "probe", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def seconds(self) -> float:
        """Time one append of 300 bytes with its flush."""
        began = time.perf_counter()
        os.write(self._fd, b"x" * 300)
        os.fdatasync(self._fd)
        return time.perf_counter() - began


@dataclass
class Window:
    """Steps measured at one point of a run, each beside a probe."""

    after: int
    steps: list[float] = field(default_factory=list[float])
    probes: list[float] = field(default_factory=list[float])

    @property
    def in_probes(self) -> float:
        """The median step in median probes."""
        return statistics.median(self.steps) / statistics.median(self.probes)


async def fill(task: Task, first: int, last: int) -> None:
    """Mark steps many at a time, which group commit makes quick."""
    for begin in range(first, last, AT_ONCE):
        names = range(begin, min(begin + AT_ONCE, last))
        await asyncio.gather(*(task.done(f"step-{name}", RESULT) for name in names))


async def measure(task: Task, probe: Probe, after: int) -> Window:
    """Mark steps one by one."""
    window = Window(after)
    for name in range(after, after + MEASURED):
        window.probes.append(probe.seconds())
        began = time.perf_counter()
        await task.done(f"step-{name}", RESULT)
        window.steps.append(time.perf_counter() - began)
    return window


async def run(points: list[int], folder: Path) -> list[Window]:
    """Work through one long run, measuring at each point."""
    windows: list[Window] = []
    probe = Probe(folder)
    reached = 0
    async with Workspace.open(folder / ".holdfast", by="benchmark") as workspace:
        task = workspace.task("long")
        for point in points:
            await fill(task, reached, point)
            windows.append(await measure(task, probe, point))
            reached = point + MEASURED
    return windows


def main() -> int:
    """Print the table; fail if a late step costs more than 1.5 times an early one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="up to 10,000 steps")
    options = parser.parse_args()
    points = [10, 1_000, 10_000] if options.quick else [10, 1_000, 10_000, 100_000]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        windows = asyncio.run(run(points, Path(folder)))
        journal = sum(
            file.stat().st_size for file in Path(folder).rglob("*.jsonl") if file.is_file()
        )
    print(f"{'after steps':>12} {'step p50 in probes':>20} {'against the first':>18}")
    for window in windows:
        against = window.in_probes / windows[0].in_probes
        print(f"{window.after:>12,} {window.in_probes:>20.2f} {against:>18.2f}")
    print(f"journal bytes a step (200-byte results): {journal / (points[-1] + MEASURED):.0f}")
    worst = max(window.in_probes for window in windows) / windows[0].in_probes
    return 0 if worst <= 1.5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
