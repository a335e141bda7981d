"""HoldfastSaver: a LangGraph checkpointer whose threads are tasks that people can read and edit."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from holdfast_storage.core.errors import InvalidValue
from holdfast_storage.langgraph import translate
from holdfast_storage.langgraph.background import Background
from holdfast_storage.langgraph.threads import Threads
from holdfast_storage.langgraph.translate import checkpoint_id, config_of, namespace, thread_id
from holdfast_storage.langgraph.values import Values
from holdfast_storage.workspace import Workspace


class HoldfastSaver(BaseCheckpointSaver[int]):
    """Keeps a graph's checkpoints in a Holdfast workspace. A thread is a task of the same name.

    `allow` names classes of your own that may stand in the graph's state: pydantic models,
    dataclasses, enums and named tuples. Use it as a context manager, or call `close`, so that
    state.json is up to date when the program ends; what was put is durable in any case.
    """

    def __init__(
        self,
        workspace: str | Path | None = None,
        *,
        allow: Iterable[type[Any]] = (),
        by: str = "langgraph",
    ) -> None:
        super().__init__()
        self._values = Values(allow)
        self._background = Background()
        try:
            opened = self._background.run(_open(workspace, by))
        except BaseException:
            self._background.stop()
            raise
        self._threads = Threads(opened, by)
        self._close = weakref.finalize(self, _close, self._background, opened)

    def close(self) -> None:
        """Bring state.json up to date and let go of the workspace; a second time does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- putting ------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        request = translate.put_request(self._values, config, checkpoint, metadata)
        self._background.run(self._threads.put(thread_id(config), request))
        return config_of(thread_id(config), namespace(config), checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        request = translate.put_request(self._values, config, checkpoint, metadata)
        await self._background.arun(self._threads.put(thread_id(config), request))
        return config_of(thread_id(config), namespace(config), checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        request = translate.write_request(self._values, config, writes, task_id, task_path)
        self._background.run(self._threads.write(thread_id(config), request))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        request = translate.write_request(self._values, config, writes, task_id, task_path)
        await self._background.arun(self._threads.write(thread_id(config), request))

    # --- finding ------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._background.run(self._get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._background.arun(self._get_tuple(config))

    async def _get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = await self._threads.get(thread_id(config), namespace(config), checkpoint_id(config))
        return translate.tuple_of(self._values, found, self.get_next_version) if found else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        found = self._list(config, filter, before)
        for _ in range(limit) if limit is not None else itertools.count():
            each = self._background.run(_next(found))
            if each is None:
                return
            yield each

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self._list(config, filter, before)
        for _ in range(limit) if limit is not None else itertools.count():
            each = await self._background.arun(_next(found))
            if each is None:
                return
            yield each

    async def _list(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
    ) -> AsyncIterator[CheckpointTuple]:
        not_after = checkpoint_id(before) if before else ""
        wanted = translate.wanted(self._values, config, filter or {}, not_after)
        for task in [thread_id(config)] if config else await self._threads.all():
            async for found in self._threads.each(task, wanted):
                yield translate.tuple_of(self._values, found, self.get_next_version)

    # --- removing and copying -----------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        self._background.run(self._threads.delete(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._background.arun(self._threads.delete(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._background.run(self._threads.delete_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._background.arun(self._threads.delete_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._background.run(self._threads.copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._background.arun(self._threads.copy(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._background.run(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._background.arun(self._prune(thread_ids, strategy))

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise InvalidValue("strategy", "it must be keep_latest or delete")
        for task in thread_ids:
            if strategy == "delete":
                await self._threads.delete(task)
            else:
                await self._threads.keep_latest(task)


async def _open(workspace: str | Path | None, by: str) -> Workspace:
    return await Workspace.open(workspace, by=by).__aenter__()


def _close(background: Background, workspace: Workspace) -> None:
    try:
        background.run(workspace.close())
    finally:
        background.stop()


async def _next(found: AsyncIterator[CheckpointTuple]) -> CheckpointTuple | None:
    return await anext(found, None)
