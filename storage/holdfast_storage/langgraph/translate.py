"""Between LangGraph's checkpoints, configs and writes, and what lies in a task as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME

from holdfast_storage.core import strict_json
from holdfast_storage.core.strict_json import JsonObject, is_array, is_object
from holdfast_storage.langgraph.decide import Ask, PutRequest, WriteRequest
from holdfast_storage.langgraph.thread import Put
from holdfast_storage.langgraph.threads import Found
from holdfast_storage.langgraph.values import MARK, Values

# Channels of the graph's own machinery: of no use to people, who might break it by an edit.
_MACHINERY = ("__", "branch:", "join:", "$")
_DELTA_COUNTERS = "counters_since_delta_snapshot"
_MOST_OPTIONS = 20

# Which node's write, and its place among them: (path, task id, index).
_Slot = tuple[str, str, int]


# --- what stands in a config ------------------------------------------------------------------


def _configurable(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable", {})


def thread_id(config: RunnableConfig) -> str:
    """Give the thread, which is the task."""
    return str(_configurable(config)["thread_id"])


def namespace(config: RunnableConfig) -> str:
    """Give the subgraph; the graph itself is empty."""
    return _configurable(config).get("checkpoint_ns") or ""


def checkpoint_id(config: RunnableConfig) -> str:
    """Give the checkpoint's id; empty where none is named."""
    return _configurable(config).get("checkpoint_id") or ""


def config_of(thread: str, ns: str, checkpoint: str) -> RunnableConfig:
    """Name a checkpoint as LangGraph does."""
    named = {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint}
    return {"configurable": named}


# --- into JSON --------------------------------------------------------------------------------


def put_request(
    values: Values, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
) -> PutRequest:
    """Take a checkpoint apart: what people may see and edit, and what only the graph needs."""
    rest: dict[str, Any] = dict(checkpoint)
    channels = values.encode_all(rest.pop("channel_values"), "state")
    about = dict[str, Any](get_checkpoint_metadata(config, metadata))
    counters: Mapping[str, Sequence[int]] | None = about.get(_DELTA_COUNTERS)
    if counters:
        about[_DELTA_COUNTERS] = {name: list(counts) for name, counts in counters.items()}
    ns, parent = namespace(config), checkpoint_id(config)
    graph: JsonObject = {
        "id": rest.pop("id"),
        **({"ns": ns} if ns else {}),
        **({"parent": parent} if parent else {}),
        "metadata": values.encode_all(about, "metadata"),
        "checkpoint": values.encode_all(rest, "checkpoint"),
        "channels": {name: it for name, it in channels.items() if name.startswith(_MACHINERY)},
    }
    return PutRequest(
        ns=ns,
        values={name: it for name, it in channels.items() if not name.startswith(_MACHINERY)},
        graph=graph,
        label=label_of(about),
        # By age alone the only memory of a lasting subgraph could go, or a delta channel's beginning.
        pinned=bool(counters or (ns and ":" not in ns)),
    )


def label_of(metadata: Mapping[str, Any]) -> str:
    """Name a checkpoint for people, as "loop 3"."""
    return f"{metadata.get('source', 'put')} {metadata.get('step', '')}".strip()


def write_request(
    values: Values,
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> WriteRequest:
    """Take a node's writes, and find what it asks a person and which answer it went on with."""
    ns = namespace(config)
    encoded = [[channel, values.encode(it, f"writes/{channel}")] for channel, it in writes]
    asks = [ask for channel, it in encoded if channel == INTERRUPT for ask in _asks(it)]
    told = [it for channel, it in encoded if channel == RESUME]
    graph: JsonObject = {
        "checkpoint": checkpoint_id(config),
        **({"ns": ns} if ns else {}),
        "task": task_id,
        **({"path": task_path} if task_path else {}),
        **({"interrupts": [ask.interrupt for ask in asks]} if asks else {}),
        "writes": encoded,
    }
    return WriteRequest(graph, asks, _newest_answer(told))


def _asks(interrupts: Any) -> Iterator[Ask]:
    """Give the questions in an INTERRUPT write; what is no interrupt asks nothing."""
    found = interrupts.get("items") if is_object(interrupts) else interrupts
    for each in found if is_array(found) else ():
        if is_object(each) and each.get(MARK) == "Interrupt" and "id" in each:
            yield _ask(each["id"], each.get("value"))


def _ask(interrupt: str, value: Any) -> Ask:
    if isinstance(value, str):
        return Ask(interrupt, value)
    said: JsonObject = value if is_object(value) else {}
    question, options = said.get("question"), said.get("options")
    if not isinstance(question, str):
        question = strict_json.encode(value).decode()
    if not is_array(options) or not all(isinstance(option, str) for option in options):
        options = []
    return Ask(interrupt, question, options[:_MOST_OPTIONS])


def _newest_answer(told: Sequence[Any]) -> Any:
    if not told:
        return None
    newest = told[-1]
    return newest[-1] if is_array(newest) and newest else newest


def wanted(
    values: Values, config: RunnableConfig | None, filter: Mapping[str, Any], before: str
) -> Callable[[Put], bool]:
    """Give the test that a checkpoint must pass to be listed."""
    asked = _configurable(config) if config else {}
    ns, only = asked.get("checkpoint_ns"), asked.get("checkpoint_id")
    told = values.encode_all(filter, "filter")

    def is_wanted(put: Put) -> bool:
        return (
            (ns is None or put.ns == ns)
            and (not only or put.id == only)
            and (not before or put.id < before)
            and all(strict_json.same(put.metadata.get(key), it) for key, it in told.items())
        )

    return is_wanted


# --- out of JSON ------------------------------------------------------------------------------


def tuple_of(
    values: Values, found: Found, next_version: Callable[[Any, None], Any]
) -> CheckpointTuple:
    """Make a checkpoint again of what lies in the task, with what people changed since."""
    graph, put = found.graph, found.put
    checkpoint: dict[str, Any] = {
        **values.decode(graph["checkpoint"], "checkpoint"),
        "id": put.id,
        "channel_values": values.decode({**graph["channels"], **found.values}, "state"),
    }
    if found.edited:
        versions = checkpoint["channel_versions"]
        # What somebody changed is news to the nodes that wait for it.
        newer = next_version(max(versions.values(), default=None), None)
        checkpoint["channel_versions"] = versions | dict.fromkeys(found.edited, newer)
    return CheckpointTuple(
        config=config_of(found.thread, put.ns, put.id),
        checkpoint=cast("Checkpoint", checkpoint),
        metadata=values.decode(put.metadata, "metadata"),
        parent_config=config_of(found.thread, put.ns, put.parent) if put.parent else None,
        pending_writes=_pending(values, found),
    )


def _pending(values: Values, found: Found) -> list[PendingWrite]:
    """Give each node's writes: of the graph's own signals the last counts, of all else the first."""
    there: dict[_Slot, tuple[str, Any]] = {}
    for written in found.writes:
        for number, (channel, value) in enumerate(written["writes"]):
            slot = _slot(written, WRITES_IDX_MAP.get(channel, number))
            if slot[2] < 0 or slot not in there:
                there[slot] = (channel, value)
    _tell_answers(found, there)
    return [
        (slot[1], channel, values.decode(value, f"writes/{channel}"))
        for slot, (channel, value) in sorted(there.items(), key=lambda item: item[0])
    ]


def _slot(written: JsonObject, index: int) -> _Slot:
    return writes_sort_key(written.get("path", ""), written["task"], index)


def _tell_answers(found: Found, there: dict[_Slot, tuple[str, Any]]) -> None:
    """Let a node that waits for a person go on with the answer that lies in state.json."""
    for written in found.writes:
        waiting = [name for name in written.get("interrupts", ()) if name in found.answers]
        if len(waiting) != 1:
            continue
        slot = _slot(written, WRITES_IDX_MAP[RESUME])
        told: list[Any] = there[slot][1] if slot in there else []
        told_then: list[Any] = [it for channel, it in written["writes"] if channel == RESUME]
        # As many answers as when it stopped: it has not gone on since.
        if len(told) == len(told_then[-1] if told_then else ()):
            there[slot] = (RESUME, [*told, found.answers[waiting[0]]])
