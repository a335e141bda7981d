"""Streams that a client listens on have no end of their own; this gives them one."""

from __future__ import annotations

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Streams:
    """Lets everything through, and remembers who listens."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[anyio.CancelScope] = set()

    def end(self) -> None:
        """End all streams; calls are left to come to their answer."""
        for scope in self._open:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and finish its answer if it is a stream that was ended."""
        if scope["type"] != "http" or not _is_listening(scope):
            await self._app(scope, receive, send)
            return
        is_begun = is_complete = False

        async def noted(message: Message) -> None:
            nonlocal is_begun, is_complete
            await send(message)
            is_begun = True
            is_complete = message["type"] == "http.response.body" and not message.get("more_body")

        with anyio.CancelScope() as listening:
            self._open.add(listening)
            try:
                await self._app(scope, receive, noted)
            finally:
                self._open.discard(listening)
        if listening.cancelled_caught and not is_complete:
            if not is_begun:
                await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body"})


def _is_listening(scope: Scope) -> bool:
    called = Headers(scope=scope).get("mcp-method", "")
    return scope["method"] == "GET" or called == "subscriptions/listen"
