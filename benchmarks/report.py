"""Put the figures of the result file into docs/performance.md, between two marks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.charts import NAMES
from benchmarks.targets import Absent, Results, figure, verdicts

_ROOT = Path(__file__).parents[1]
_BEGIN, _END = "<!-- figures: begin -->", "<!-- figures: end -->"
_WORDS = {True: "met", False: "**missed**", None: "not measured"}

Column = tuple[str, Callable[[Results, str], float], str]
_COLUMNS: tuple[Column, ...] = (
    ("step, probes", lambda r, s: figure(r, "batch", s, "1000", "in_probes"), "{:.2f}"),
    ("bytes a step", lambda r, s: figure(r, "batch", s, "1000", "bytes_a_step"), "{:,.0f}"),
    ("save 1 MB, ms", lambda r, s: figure(r, "large", s, "1000000", "save_us") / 1e3, "{:.1f}"),
    ("in the mean", lambda r, s: figure(r, "large", s, "1000000", "save_mean_us") / 1e3, "{:.1f}"),
    ("load 1 MB, ms", lambda r, s: figure(r, "large", s, "1000000", "load_us") / 1e3, "{:.1f}"),
    ("list, ms", lambda r, s: figure(r, "list", s, "list_us") / 1e3, "{:.1f}"),
    ("cold start, ms", lambda r, s: figure(r, "resume", s, "1000", "ms"), "{:,.0f}"),
    ("8 on one task: lost", lambda r, s: figure(r, "together", s, "one task", "lost"), "{:,.0f}"),
    ("growth, times", lambda r, s: figure(r, "growth", s, "times_the_content"), "{:.1f}"),
)


def written(document: dict[str, Any], journaled: dict[str, Any] | None = None) -> str:
    """Write the tables; beside the verdicts those of another run, on a disk with a journal."""
    results: Results = document["results"]
    runs = [("measured", results)]
    if journaled:
        runs.append(("on a disk with a journal", journaled["results"]))
    heads = ["target", "wanted", *(word for name, _ in runs for word in (name, ""))]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for same in zip(*(verdicts(run) for _, run in runs), strict=True):
        cells = [word for each in same for word in (_shown(each["measured"]), _WORDS[each["met"]])]
        lines.append(f"| {same[0]['what']} | {same[0]['target']} | {' | '.join(cells)} |")
    heads = [name for name, _, _ in _COLUMNS]
    lines += ["", f"| | {' | '.join(heads)} | what is flushed |", "|---" * (len(heads) + 2) + "|"]
    lines += [_row(results, store) for store in NAMES if _flushes(results, store)]
    lines += ["", *_left_out(results), "", _versions(document)]
    return "\n".join(lines)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _row(results: Results, store: str) -> str:
    cells: list[str] = []
    for _, value, form in _COLUMNS:
        try:
            cells.append(form.format(value(results, store)))
        except Absent:
            cells.append("")
    return f"| {NAMES[store]} | {' | '.join(cells)} | {_flushes(results, store)} |"


def _flushes(results: Results, store: str) -> str:
    said = (found.get(store, {}).get("flushes", "") for found in results.values())
    return next((words for words in said if words), "")


def _left_out(results: Results) -> list[str]:
    """Say what is not there and why; a dash without a reason is a guess."""
    return [
        f"- {NAMES[store]}, {job}: {found['left_out']}."
        for job, stores in results.items()
        for store, found in stores.items()
        if "left_out" in found
    ]


def _versions(document: dict[str, Any]) -> str:
    found: dict[str, str] = {}
    dates: set[str] = set()
    for stores in document["results"].values():
        for each in stores.values():
            found |= each.get("versions", {}) if "at" in each else {}
            dates.add(each.get("at", "")[:10])
    machine = document["machine"]
    named = ", ".join(f"{name} {number}" for name, number in sorted(found.items()))
    return (
        f"Measured {max(dates)}; Python {machine['python']}, kernel {machine['kernel']}, "
        f"{machine['cores']} cores. {named}."
    )


def main() -> None:
    """Replace what stands between the marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=_ROOT / "build" / "benchmarks.json")
    parser.add_argument("--page", type=Path, default=_ROOT / "docs" / "performance.md")
    parser.add_argument("--journaled", type=Path, help="the result file of a disk with a journal")
    options = parser.parse_args()
    journaled = json.loads(options.journaled.read_text()) if options.journaled else None
    before, _, rest = options.page.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    figures = written(json.loads(options.results.read_text()), journaled)
    options.page.write_text(f"{before}{_BEGIN}\n\n{figures}\n\n{_END}{after}")


if __name__ == "__main__":
    main()
