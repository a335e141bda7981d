"""Real processes on one thread: nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from tests.storage.langgraph.puts import (
    THREAD,
    found,
    id_of,
    put,
    saver_in,
    task_folder,
    values_of,
)
from tests.storage.processes import Parent, all_at_once

from holdfast_storage.engines.folder import engine
from holdfast_storage.langgraph import HoldfastSaver
from holdfast_storage.langgraph.threads import Threads

PUTS = 12


async def put_and_write(parent: Parent, folder: Path, name: str) -> list[tuple[str, str]]:
    """Put checkpoints and writes as fast as possible; answers those that were acknowledged."""

    def work() -> list[tuple[str, str]]:
        acknowledged: list[tuple[str, str]] = []
        with saver_in(folder) as saver:
            parent.wait_for_go()
            for number in range(PUTS):
                config = put(saver, {"by": name, "number": number}, run_id=name)
                saver.put_writes(config, [("by", name)], f"{name}-{number}")
                acknowledged.append((id_of(config), f"{name}-{number}"))
        return acknowledged

    return await asyncio.to_thread(work)


def test_processes_on_one_thread_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    names = ["ann", "bob", "cleo"]

    answers = all_at_once(put_and_write, [(tmp_path, name) for name in names])

    with saver_in(tmp_path) as saver:
        there = {each.checkpoint["id"]: each for each in saver.list(THREAD)}
    acknowledged = {id_: task for answer in answers for id_, task in answer}
    assert len(acknowledged) == len(names) * PUTS
    assert there.keys() == acknowledged.keys()
    for id_, task in acknowledged.items():
        name, number = task.split("-")
        values = there[id_].checkpoint["channel_values"]
        assert values == {"by": name, "number": int(number)}
        assert there[id_].pending_writes == [(task, "by", name)]


def test_a_thread_may_have_any_name(tmp_path: Path) -> None:
    config: RunnableConfig = {"configurable": {"thread_id": "Über/../user:42"}}
    with saver_in(tmp_path) as saver:
        put(saver, {"a": 1}, config)

        assert found(saver, config).checkpoint["channel_values"] == {"a": 1}
    assert len(list((tmp_path / ".holdfast" / "tasks").iterdir())) == 1


def test_many_who_look_at_once_read_on_and_not_all_of_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    fresh = Threads._fresh  # pyright: ignore[reportPrivateUsage]

    async def counted(self: Threads, task: str) -> Any:
        begun.append(task)
        return await fresh(self, task)

    async def looked_at_by_all(saver: HoldfastSaver) -> list[Any]:
        return list(await asyncio.gather(*(saver.aget_tuple(THREAD) for _ in range(10))))

    with saver_in(tmp_path) as saver, saver_in(tmp_path) as other:
        put(saver, {"n": 0})
        found(saver)
        put(other, {"n": 1})
        monkeypatch.setattr(Threads, "_fresh", counted)

        told = asyncio.run(looked_at_by_all(saver))

    assert [each.checkpoint["channel_values"] for each in told] == [{"n": 1}] * 10
    assert begun == []


def listed(saver: BaseCheckpointSaver[Any]) -> list[tuple[str, Any]]:
    return [
        (each.checkpoint["id"], each.checkpoint["channel_values"]) for each in saver.list(THREAD)
    ]


@pytest.mark.parametrize("looks_first", ["get", "list", "put"])
@pytest.mark.parametrize("forgotten_kept", [1024, 0], ids=["known", "forgotten"])
@pytest.mark.parametrize("count", [2, 3, 6], ids=["shorter", "as long", "longer"])
def test_a_journal_that_was_put_in_place_of_the_old_one_is_what_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    forgotten_kept: int,
    looks_first: str,
) -> None:
    """Somebody restores a backup while the program runs."""
    monkeypatch.setattr(engine, "_FORGOTTEN_KEPT", forgotten_kept)
    with saver_in(tmp_path / "backup") as backup:
        for number in range(count):
            put(backup, {"them": number})
        theirs = listed(backup)
    with saver_in(tmp_path) as saver:
        for number in range(3):
            put(saver, {"ours": number})
        assert values_of(saver) == {"ours": 2}

        journal = task_folder(tmp_path) / "journal"
        shutil.rmtree(journal)
        shutil.copytree(task_folder(tmp_path / "backup") / "journal", journal)

        if looks_first == "get":
            assert found(saver).checkpoint["id"] == theirs[0][0]
        if looks_first == "put":
            id_ = id_of(put(saver, {"them": -1}))
            theirs = [(id_, {"them": -1}), *theirs]
        assert listed(saver) == theirs
        assert values_of(saver) == theirs[0][1]
