"""The verdicts and the charts say what the result file says, and nothing that it does not."""

from __future__ import annotations

from typing import Any

from benchmarks import charts, report, targets
from benchmarks.__main__ import medians
from benchmarks.store import STORES

LARGE = {"figures": {"1000000": {"save_us": 4_000.0}}}
RESULTS: dict[str, dict[str, Any]] = {
    "batch": {
        "holdfast": {"figures": {"1000": {"in_probes": 1.7, "bytes_a_step": 358}}},
        "holdfast_engine": {"figures": {"1000": {"in_probes": 1.5}}},
        "langgraph_sqlite": {"left_out": "its environment is not there (make peers)"},
    },
    "large": {
        "holdfast": LARGE,
        "langgraph_sqlite": {"figures": {"1000000": {"save_us": 5_000.0}}},
    },
    "together": {
        "holdfast": {"figures": {"apart": {"steps_a_second": 700, "lost": 0}}},
        "limit": {"figures": {"apart": {"steps_a_second": 1_000, "lost": 0}}},
    },
}


def test_of_several_runs_the_median_of_each_figure_counts() -> None:
    runs = [
        {"figures": {"1000": {"ms": ms, "saves": 5}}, "form": "full", "met": True}
        for ms in (30.0, 10.0, 20.0)
    ]

    assert medians(runs) == {
        "figures": {"1000": {"ms": 20.0, "saves": 5}},
        "form": "full",
        "met": True,
    }
    assert medians([{"left_out": "a reason"}]) == {"left_out": "a reason"}


def verdict_on(what: str) -> tuple[float | None, bool | None]:
    [found] = [each for each in targets.verdicts(RESULTS) if each["what"].startswith(what)]
    return found["measured"], found["met"]


def test_a_target_is_met_missed_or_not_measured() -> None:
    assert verdict_on("step: through the asynchronous") == (1.7, True)
    assert verdict_on("step: the engine's commit") == (1.5, False)
    assert verdict_on("step over stdio") == (None, None)
    assert verdict_on("save of 1,000,000") == (0.8, True)
    assert verdict_on("8 processes, apart: part") == (0.7, True)
    assert verdict_on("8 processes, apart: steps lost") == (0, True)
    assert not targets.all_met(RESULTS)


def test_a_chart_has_a_bar_for_whoever_has_the_figure() -> None:
    drawn = charts.drawn(RESULTS, charts.CHARTS[0])

    assert drawn.count("<rect") == 1 + 2
    assert "Holdfast, engine only" in drawn
    assert "SqliteSaver" not in drawn


def test_every_store_has_a_name_in_the_charts() -> None:
    for chart in charts.CHARTS:
        assert charts.bars({}, chart) == []
    assert set(charts.NAMES) == set(STORES)


def test_a_report_has_the_verdicts_of_both_disks_side_by_side() -> None:
    machine = {"python": "3.11", "kernel": "6.1", "cores": 2}
    journaled = {
        "batch": {"holdfast": {"figures": {"1000": {"in_probes": 1.9, "bytes_a_step": 358}}}}
    }

    written = report.written({"results": RESULTS, "machine": machine}, {"results": journaled})

    lines = written.splitlines()
    assert lines[0] == "| target | wanted | measured |  | on a disk with a journal |  |"
    [step] = [line for line in lines if line.startswith("| step: through the asynchronous")]
    assert step.endswith("| at most 1.8 | 1.7 | met | 1.9 | **missed** |")
    [save] = [line for line in lines if line.startswith("| save of 1,000,000")]
    assert save.endswith("| 0.8 | met |  | not measured |")
