"""Wait until something may have changed: at once where that is announced, by and by everywhere."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from holdfast_storage import Workspace

# Watching takes a moment to begin, and what happens in that moment is announced by nobody. So the
# first looks are taken soon, and later ones in case that an announcement is lost.
_FIRST_SECONDS = 0.25
_MOST_SECONDS = 5.0


class News:
    """Announcements of one workspace, while this is open."""

    def __init__(self, workspace: Workspace) -> None:
        self._watching = workspace.watch()
        self._rest_seconds = _FIRST_SECONDS

    async def __aenter__(self) -> Self:
        self._listen()
        return self

    def _listen(self) -> None:
        self._announced = asyncio.ensure_future(anext(self._watching))

    async def __aexit__(self, *exception: object) -> None:
        self._announced.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration):
            await self._announced

    async def come(self, within_seconds: float = _MOST_SECONDS) -> bool:
        """Wait for news, or until it is time to look again; False if only the time given is over."""
        rest = min(within_seconds, self._rest_seconds)
        await asyncio.wait({self._announced}, timeout=rest)
        if self._announced.done():
            self._listen()
            return True
        if rest < self._rest_seconds:
            self._rest_seconds -= rest
            return False
        self._rest_seconds = min(_MOST_SECONDS, 2 * rest + _FIRST_SECONDS)
        return True
