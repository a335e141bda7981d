"""Counts for Prometheus: how often each tool was called, how it ended, how long it took."""

from __future__ import annotations

from collections import Counter, defaultdict

PROMETHEUS = "text/plain; version=0.0.4"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """What was counted since the start."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str]] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def called(self, tool: str, outcome: str, seconds: float) -> None:
        """Count one call; `outcome` is ok or an error's code."""
        self._calls[tool, outcome] += 1
        self._seconds[tool] += seconds
        for limit in _BUCKETS:
            if seconds <= limit:
                self._buckets[tool, limit] += 1

    def text(self, tasks: dict[str, int]) -> str:
        """Write everything in Prometheus' text form, with the number of tasks by status."""
        lines = _heading("holdfast_calls_total", "counter", "Calls by tool and how they ended.")
        lines += [
            f'holdfast_calls_total{{tool="{tool}",outcome="{outcome}"}} {count}'
            for (tool, outcome), count in sorted(self._calls.items())
        ]
        lines += _heading("holdfast_call_seconds", "histogram", "How long calls took.")
        for tool in sorted(self._seconds):
            count = sum(n for (name, _), n in self._calls.items() if name == tool)
            lines += [
                f'holdfast_call_seconds_bucket{{tool="{tool}",le="{limit:g}"}} '
                f"{self._buckets[tool, limit]}"
                for limit in _BUCKETS
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
