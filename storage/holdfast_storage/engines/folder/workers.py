"""A few threads for calls that block, so that the event loop never does."""

from __future__ import annotations

import asyncio
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Workers:
    """Does what it is given, first come first served, in up to so many threads.

    Not a ThreadPoolExecutor: handing over one commit costs 90 us with this and 120 with that, beside a
    flush of 250. The threads keep no process from ending: what they do may end at any moment anyway.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._mutex = threading.Lock()
        self._threads: list[threading.Thread] = []

    def put(self, work: Callable[[], None]) -> None:
        """Have something done that raises nothing."""
        self._waiting.put(work)
        if not self._idle.acquire(blocking=False):
            self._begin_one_more()

    def _begin_one_more(self) -> None:
        with self._mutex:
            if len(self._threads) < self._count:
                thread = threading.Thread(target=self._work, name="holdfast", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            work()
            self._idle.release()

    async def run(self, call: Callable[[], T]) -> T:
        """Wait for something that may raise. A caller that stops waiting stops nothing."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def work(future: asyncio.Future[T] = future) -> None:
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                tell(loop, settle_badly, future, error)
            else:
                tell(loop, settle, future, result)

        self.put(work)
        try:
            return await future
        finally:
            # An error in it has this frame in its traceback: each would keep the other, and all that
            # the frames of the failed call hold, until the collector comes by.
            del future, work

    def close(self) -> None:
        """Wait until everything is done."""
        with self._mutex:
            for _ in self._threads:
                self._waiting.put(None)
        for thread in self._threads:
            thread.join()


def tell(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: object) -> None:
    """Call something in a loop's own thread; one that was closed has nobody left to tell."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


def settle(future: asyncio.Future[T], result: T) -> None:
    """Give a result to whoever still waits."""
    if not future.done():
        future.set_result(result)


def settle_badly(future: asyncio.Future[T], error: BaseException) -> None:
    """Give an error to whoever still waits."""
    if not future.done():
        future.set_exception(error)
