"""Draw one chart for each job from the result file, as plain SVG: `python -m benchmarks.charts`."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.targets import Absent, Results, figure

_ROOT = Path(__file__).parents[1]
NAMES = {
    "holdfast": "Holdfast",
    "holdfast_engine": "Holdfast, engine only",
    "limit": "limit: locked append + flush",
    "langgraph_sqlite": "LangGraph SqliteSaver",
    "langgraph_sqlite_async": "LangGraph AsyncSqliteSaver",
    "langgraph_postgres": "LangGraph PostgresSaver",
    "dbos_sqlite": "DBOS on SQLite",
    "agent_framework": "Agent Framework files",
    "server_memory": "server-memory over MCP",
    "agentcheckpoint": "agentcheckpoint over MCP",
}
_WIDTH, _LEFT, _RIGHT, _BAR, _TOP = 760, 230, 90, 22, 56
_FONT = 'font-family="system-ui, sans-serif" font-size="13" role="img"'
_OURS, _THEIRS = "#1f6feb", "#9aa4b2"


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of one job for every store that has it."""

    job: str
    title: str
    unit: str
    value: Callable[[Results, str], float]
    file: str


def _at(job: str, *path: str) -> Callable[[Results, str], float]:
    return lambda results, store: figure(results, job, store, *path)


CHARTS = (
    Chart("batch", "One step, in probes (append 300 bytes and flush)", "probes", _at("batch", "1000", "in_probes"), "batch"),
    Chart("large", "Saving a state of 1 MB in which everything is new", "ms", lambda r, s: figure(r, "large", s, "1000000", "save_us") / 1000, "large"),
    Chart("list", "Listing everything among many tasks", "ms", lambda r, s: figure(r, "list", s, "list_us") / 1000, "list"),
    Chart("resume", "Cold process to state in hand, after 1,000 steps", "ms", _at("resume", "1000", "ms"), "resume"),
    Chart("together", "Eight processes on one task: acknowledged steps a second", "steps/s", _at("together", "one task", "steps_a_second"), "together"),
    Chart("together", "Eight processes on one task: acknowledged steps lost", "steps", _at("together", "one task", "lost"), "lost"),
    Chart("growth", "Folder after saves of a growing list, in times its content", "times", _at("growth", "times_the_content"), "growth"),
)  # fmt: skip


def bars(results: Results, chart: Chart) -> list[tuple[str, float]]:
    """Give the stores that have the figure, in the order of the table."""
    found: list[tuple[str, float]] = []
    for store in NAMES:
        try:
            found.append((store, chart.value(results, store)))
        except Absent:
            continue
    return found


def drawn(results: Results, chart: Chart) -> str:
    """Draw horizontal bars on a logarithmic scale, each with its figure."""
    return _svg(
        chart.title,
        chart.unit,
        [(NAMES[s], v, s.startswith("holdfast")) for s, v in bars(results, chart)],
    )


def wire_drawn(results: Results) -> str:
    """Draw the round trips of the tools."""
    tools: dict[str, Any] = results["wire"]["holdfast"]["figures"]["tools"]
    rows = [(tool, float(found["in_nothings"]), True) for tool, found in tools.items()]
    title = "Round trip over stdio, in those of a tool that does nothing"
    return _svg(title, "times", [("a tool that does nothing", 1.0, False), *rows])


def _svg(title: str, unit: str, rows: list[tuple[str, float, bool]]) -> str:
    height = _TOP + len(rows) * (_BAR + 8) + 10
    positive = [value for _, value, _ in rows if value > 0] or [1.0]
    low, high = math.log10(min(positive)) - 0.3, math.log10(max(positive))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="22" font-size="15" font-weight="600" fill="#1b1f24">{escape(title)}</text>',
        f'<text x="12" y="40" fill="#57606a">{escape(unit)}, logarithmic scale</text>',
    ]
    for number, (name, value, is_ours) in enumerate(rows):
        y = _TOP + number * (_BAR + 8)
        part = (math.log10(value) - low) / ((high - low) or 1) if value > 0 else 0
        width = max(2, round(part * (_WIDTH - _LEFT - _RIGHT)))
        colour = _OURS if is_ours else _THEIRS
        lines += [
            f'<text x="{_LEFT - 8}" y="{y + 16}" text-anchor="end" fill="#1b1f24">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_BAR}" fill="{colour}"/>',
            f'<text x="{_LEFT + width + 6}" y="{y + 16}" fill="#1b1f24">{_number(value)}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _number(value: float) -> str:
    if value == int(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if value >= 10 else f"{value:,.2f}"


def main() -> None:
    """Draw every chart whose figures are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=_ROOT / "build" / "benchmarks.json")
    parser.add_argument("--into", type=Path, default=_ROOT / "build" / "charts", help="the folder")
    options = parser.parse_args()
    results: Results = json.loads(options.results.read_text())["results"]
    options.into.mkdir(parents=True, exist_ok=True)
    for chart in CHARTS:
        if bars(results, chart):
            (options.into / f"{chart.file}.svg").write_text(drawn(results, chart))
    if "figures" in results.get("wire", {}).get("holdfast", {}):
        (options.into / "wire.svg").write_text(wire_drawn(results))


if __name__ == "__main__":
    main()
