"""Checkpoints put and found without a graph, which costs a second to import."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint

from holdfast_storage.core import strict_json
from holdfast_storage.langgraph import HoldfastSaver

THREAD: RunnableConfig = {"configurable": {"thread_id": "report"}}


@contextmanager
def saver_in(folder: Path, **more: Any) -> Generator[HoldfastSaver]:
    with HoldfastSaver(folder / ".holdfast", **more) as saver:
        yield saver


def task_folder(folder: Path, task: str = "report") -> Path:
    return folder / ".holdfast" / "tasks" / task


def edit(folder: Path, change: Callable[[dict[str, Any]], None], task: str = "report") -> None:
    """Change state.json as a person would: all of it is read, changed and written back."""
    view = task_folder(folder, task) / "state.json"
    document = strict_json.parse_object(view.read_bytes())
    change(document)
    view.write_bytes(strict_json.pretty(document))


def put(
    saver: BaseCheckpointSaver[Any],
    values: dict[str, Any],
    config: RunnableConfig = THREAD,
    **metadata: Any,
) -> RunnableConfig:
    """Put a checkpoint with these values after the one that the config names."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = dict.fromkeys(values, 1)
    named: RunnableConfig = {
        "configurable": {"checkpoint_ns": "", **config.get("configurable", {})}
    }
    return saver.put(named, checkpoint, {"source": "loop", "step": 1, **metadata}, {})  # type: ignore[typeddict-item]


def found(saver: BaseCheckpointSaver[Any], config: RunnableConfig = THREAD) -> CheckpointTuple:
    """Get a checkpoint that must be there."""
    tuple_ = saver.get_tuple(config)
    assert tuple_ is not None
    return tuple_


def values_of(saver: BaseCheckpointSaver[Any], config: RunnableConfig = THREAD) -> dict[str, Any]:
    return found(saver, config).checkpoint["channel_values"]


def id_of(config: RunnableConfig) -> str:
    """Give the checkpoint that a config names."""
    named: str = config.get("configurable", {})["checkpoint_id"]
    return named
