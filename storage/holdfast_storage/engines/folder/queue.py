"""Group commit: everything that waits for one task goes into its next write and flush."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from holdfast_storage.engines.base import Operation

# So one batch is a bounded amount of memory and of time under the lock.
_LARGEST = 256

Commit = "Callable[[Sequence[Operation]], list[Exception | None]]"
_Waiting = tuple["Operation", "asyncio.Future[None]", asyncio.AbstractEventLoop]


class CommitQueue:
    """The operations that wait for one task; at most one thread works on them at a time."""

    def __init__(
        self,
        pool: Executor,
        commit: Callable[[Sequence[Operation]], list[Exception | None]],
    ) -> None:
        self._pool, self._commit = pool, commit
        self._mutex = Lock()
        self._waiting: deque[_Waiting] = deque()
        self._is_draining = False

    async def put(self, operation: Operation) -> None:
        """Wait until the operation is accepted, or raise why not.

        A caller that stops waiting stops nothing: the operation is committed all the same.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._mutex:
            self._waiting.append((operation, future, loop))
            begins = not self._is_draining
            self._is_draining = True
        if begins:
            self._pool.submit(self._drain)
        await future

    def _drain(self) -> None:
        while batch := self._next():
            try:
                outcomes = self._commit([operation for operation, _, _ in batch])
            except BaseException as error:
                _deliver(batch, [error] * len(batch))
                raise
            _deliver(batch, outcomes)

    def _next(self) -> list[_Waiting]:
        with self._mutex:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _LARGEST))]
            self._is_draining = bool(batch)
            return batch


def _deliver(batch: list[_Waiting], outcomes: Sequence[BaseException | None]) -> None:
    """Wake each caller in its own loop, once per loop."""
    by_loop: dict[
        asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], BaseException | None]]
    ] = {}
    for (_, future, loop), outcome in zip(batch, outcomes, strict=True):
        by_loop.setdefault(loop, []).append((future, outcome))
    for loop, results in by_loop.items():
        # A loop that was closed has nobody left to tell.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, results)


def _settle(results: list[tuple[asyncio.Future[None], BaseException | None]]) -> None:
    for future, outcome in results:
        if future.done():
            continue  # its caller stopped waiting
        if outcome is None:
            future.set_result(None)
        else:
            future.set_exception(outcome)
