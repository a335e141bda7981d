"""Counts for Prometheus: how often each tool was called, how it ended, how long it took."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import accumulate

PROMETHEUS = "text/plain; version=0.0.4"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """What was counted since the start."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str]] = Counter()
        # For each tool how many calls ended between one limit and the next; the last are beyond all.
        self._between: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKETS) + 1))
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def called(self, tool: str, outcome: str, seconds: float) -> None:
        """Count one call; `outcome` is ok or an error's code."""
        self._calls[tool, outcome] += 1
        self._seconds[tool] += seconds
        self._between[tool][bisect_left(_BUCKETS, seconds)] += 1

    def text(self, tasks: dict[str, int]) -> str:
        """Write everything in Prometheus' text form, with the number of tasks by status."""
        lines = _heading("holdfast_calls_total", "counter", "Calls by tool and how they ended.")
        lines += [
            f'holdfast_calls_total{{tool="{tool}",outcome="{outcome}"}} {count}'
            for (tool, outcome), count in sorted(self._calls.items())
        ]
        lines += _heading("holdfast_call_seconds", "histogram", "How long calls took.")
        for tool in sorted(self._seconds):
            *within, count = accumulate(self._between[tool])
            lines += [
                f'holdfast_call_seconds_bucket{{tool="{tool}",le="{limit:g}"}} {calls}'
                for limit, calls in zip(_BUCKETS, within, strict=True)
            ]
            lines.append(f'holdfast_call_seconds_bucket{{tool="{tool}",le="+Inf"}} {count}')
            lines.append(f'holdfast_call_seconds_sum{{tool="{tool}"}} {self._seconds[tool]:.6f}')
            lines.append(f'holdfast_call_seconds_count{{tool="{tool}"}} {count}')
        lines += _heading("holdfast_tasks", "gauge", "Tasks by status.")
        lines += [
            f'holdfast_tasks{{status="{status}"}} {count}'
            for status, count in sorted(tasks.items())
        ]
        return "\n".join(lines) + "\n"


def _heading(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
