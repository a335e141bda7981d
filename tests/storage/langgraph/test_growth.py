"""Storage grows with what changed, not with the size of the state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.storage.langgraph.puts import put, saver_in, task_folder, values_of

from holdfast_storage.langgraph import threads

ITEM = "x" * 4096


def put_a_growing_list(saver: BaseCheckpointSaver[Any], count: int) -> None:
    config: RunnableConfig = {"configurable": {"thread_id": "report", "checkpoint_ns": ""}}
    items: list[str] = []
    for number in range(count):
        items = [*items, f"{number} {ITEM}"]
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"items": items}
        checkpoint["channel_versions"] = {"items": number + 1}
        metadata: Any = {"source": "loop", "step": number}
        config = saver.put(config, checkpoint, metadata, {"items": number + 1})


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_five_hundred_checkpoints_of_a_growing_list_stay_under_12_mb(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        put_a_growing_list(saver, 500)
        assert len(values_of(saver)["items"]) == 500

    assert size_of(tmp_path) < 12_000_000


def test_a_tenth_of_that_costs_the_stock_saver_many_times_more(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "stock.sqlite")) as stock:
        put_a_growing_list(stock, 100)
    with saver_in(tmp_path) as saver:
        put_a_growing_list(saver, 100)

    stock_bytes = size_of(tmp_path) - size_of(tmp_path / ".holdfast")
    assert stock_bytes > 5 * size_of(task_folder(tmp_path))


def test_listing_reads_each_checkpoint_once_and_gives_each_as_it_was(tmp_path: Path) -> None:
    with saver_in(tmp_path) as saver:
        put_a_growing_list(saver, 60)

    with saver_in(tmp_path) as saver:
        lengths = [
            len(each.checkpoint["channel_values"]["items"])
            for each in saver.list({"configurable": {"thread_id": "report"}})
        ]

    assert lengths == list(range(60, 0, -1))


def test_a_saver_remembers_the_threads_that_were_used_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_THREADS_KEPT", 3)
    configs: list[RunnableConfig] = [
        {"configurable": {"thread_id": f"thread-{number}"}} for number in range(8)
    ]
    with saver_in(tmp_path) as saver:
        for number, config in enumerate(configs):
            put(saver, {"n": number}, config)
            assert values_of(saver, config) == {"n": number}

        remembered = saver._threads._threads  # pyright: ignore[reportPrivateUsage]
        assert list(remembered) == ["thread-5", "thread-6", "thread-7"]
        assert values_of(saver, configs[0]) == {"n": 0}
        put(saver, {"n": -1}, configs[0])
        assert values_of(saver, configs[0]) == {"n": -1}
