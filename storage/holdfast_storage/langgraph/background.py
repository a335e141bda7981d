"""One event loop in a thread of its own, for whoever calls from elsewhere, with a loop or without."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """Runs coroutines one beside the other until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # It keeps no program from ending: what was answered is durable already.
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="holdfast-saver", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it, from a thread that may block."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this would wait for itself; use the async methods here")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it, from another event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def stop(self) -> None:
        """End the thread and close the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
