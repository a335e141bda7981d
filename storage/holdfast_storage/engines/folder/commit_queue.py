"""Group commit: everything that waits for one task goes into its next write and flush."""

from __future__ import annotations

import asyncio
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING

from holdfast_storage.engines.folder.workers import settle, settle_badly, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast_storage.engines.base import Operation
    from holdfast_storage.engines.folder.workers import Workers

# So one batch is a bounded amount of memory, and of time under the lock.
_LARGEST = 256

_Waiting = tuple["Operation", "asyncio.Future[None]", asyncio.AbstractEventLoop]


class CommitQueue:
    """The operations that wait for one task; at most one thread works on them at a time."""

    def __init__(
        self,
        workers: Workers,
        commit: Callable[[Sequence[Operation]], Sequence[BaseException | None]],
    ) -> None:
        self._workers, self._commit = workers, commit
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
            self._workers.put(self._drain)
        await future

    def _drain(self) -> None:
        while batch := self._next():
            try:
                outcomes = self._commit([operation for operation, _, _ in batch])
            except BaseException as error:  # noqa: BLE001 - a bug must not leave callers waiting
                outcomes = [error] * len(batch)
            _deliver(batch, outcomes)

    def _next(self) -> list[_Waiting]:
        with self._mutex:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _LARGEST))]
            self._is_draining = bool(batch)
            return batch


def _deliver(batch: list[_Waiting], outcomes: Sequence[BaseException | None]) -> None:
    """Wake each loop once, however many of its callers waited."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Result]] = {}
    for (_, future, loop), outcome in zip(batch, outcomes, strict=True):
        by_loop.setdefault(loop, []).append((future, outcome))
    for loop, results in by_loop.items():
        tell(loop, _settle_all, results)


_Result = tuple["asyncio.Future[None]", "BaseException | None"]


def _settle_all(results: list[_Result]) -> None:
    for future, outcome in results:
        if outcome is None:
            settle(future, None)
        else:
            settle_badly(future, outcome)
