"""Tell open pages which tasks changed, as it happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from holdfast_server.observe import LOG

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from starlette.requests import Request

    from holdfast_storage import Workspace

# A proxy or a sleeping laptop ends a silent stream without a word.
_HEARTBEAT_SECONDS = 15
_WATCH_AGAIN_SECONDS = 1.0
_HELLO = "retry: 1000\nevent: hello\ndata: {}\n\n"
_LOOK = "event: look\ndata: {}\n\n"
_STILL_HERE = ": still here\n\n"
# Nobody can tell when a watch has really begun, so a new page is told to look again a few times.
_SETTLING_SECONDS = (1.0, 2.0, 7.0)


class _Listener:
    """One page: which tasks changed since it was last told."""

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self.news = asyncio.Event()


class Live:
    """Watches the workspace for as long as a page is open."""

    def __init__(
        self,
        workspace: Workspace,
        settling_seconds: Sequence[float] = _SETTLING_SECONDS,
        heartbeat_seconds: float = _HEARTBEAT_SECONDS,
    ) -> None:
        self._workspace = workspace
        self._settling, self._heartbeat = settling_seconds, heartbeat_seconds
        self._listeners: set[_Listener] = set()
        self._watching: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody listens, so that nothing is watched."""
        return self._watching is None

    async def stream(self, _: Request) -> StreamingResponse:
        """Answer server-sent events for as long as somebody listens."""
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncGenerator[str]:
        with self._listening() as listener:
            yield _HELLO
            for seconds, otherwise in self._silences():
                try:
                    async with asyncio.timeout(seconds):
                        await listener.news.wait()
                except TimeoutError:
                    yield otherwise
                    continue
                listener.news.clear()
                changed, listener.changed = sorted(listener.changed), set()
                yield f"event: changed\ndata: {json.dumps(changed)}\n\n"

    def _silences(self) -> Iterator[tuple[float, str]]:
        """Say how long to wait for news each time, and what to say if none come."""
        for seconds in self._settling:
            yield seconds, _LOOK
        while True:
            yield self._heartbeat, _STILL_HERE

    @contextmanager
    def _listening(self) -> Generator[_Listener]:
        listener = _Listener()
        self._listeners.add(listener)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                self._watching.cancel()
                self._watching = None

    async def _watch(self) -> None:
        while True:
            try:
                async for tasks in self._workspace.watch():
                    for listener in self._listeners:
                        listener.changed |= tasks
                        listener.news.set()
                return
            except Exception:  # noqa: BLE001 - whatever it was, the page is worth another try
                LOG.exception("watching for the page failed")
            await asyncio.sleep(_WATCH_AGAIN_SECONDS)
