"""The short form for programs: a loop that, killed anywhere and started again, goes on."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from typing import Any, TypeVar

from holdfast_storage.caller import Caller
from holdfast_storage.core.decide.context import idempotency_key
from holdfast_storage.core.errors import InDoubt
from holdfast_storage.core.fold import FINISHED, Fold
from holdfast_storage.core.strict_json import JsonObject, is_object
from holdfast_storage.desk import Author, Desk
from holdfast_storage.results import Begun, Brief, Finished, Marked, Saved

T = TypeVar("T")


class Task:
    """One task, as a program sees it."""

    def __init__(self, caller: Caller, desk: Desk, name: str) -> None:
        self._caller, self._desk, self.name = caller, desk, name

    async def remaining(
        self,
        items: Iterable[T] | AsyncIterable[T],
        key: Callable[[T], str] = str,
    ) -> AsyncIterator[T]:
        """Yield the items whose steps are not done or skipped, failed ones again.

        Raises InDoubt before an item whose effect may have happened. Records no plan. After a run
        that was finished, all of them remain: the next one starts fresh.
        """
        if await self._desk.ask(self.name, lambda fold: fold.is_closed):
            await self._caller.load(self.name, max_tokens=0)
        async for item in _each(items):
            if await self._is_left(key(item)):
                yield item

    async def _is_left(self, step: str) -> bool:
        def of(fold: Fold) -> tuple[str, str]:
            if fold.is_closed:
                return "pending", ""
            context = self._desk.context(fold, Author(self._caller.by))
            status = fold.status_of(step, context.now, context.gone)
            return status, idempotency_key(context, fold, fold.run, step)

        status, idempotency = await self._desk.ask(self.name, of)
        if status == "in_doubt":
            raise InDoubt(self.name, step, idempotency)
        return status not in FINISHED

    async def done(self, step: str, result: Any = None, **more: Any) -> Marked:
        """Mark a step done; it is durable when this returns."""
        return await self._caller.mark(self.name, step, result, **more)

    async def failed(self, step: str, result: Any = None, **more: Any) -> Marked:
        """Mark a step failed; `remaining` yields it again."""
        return await self._caller.mark(self.name, step, result, outcome="failed", **more)

    async def skip(self, step: str, **more: Any) -> Marked:
        """Mark a step as not needed."""
        return await self._caller.mark(self.name, step, outcome="skipped", **more)

    async def begin(self, step: str, *, claim: str = "", retry: bool = False) -> Begun:
        """Claim a step before its effect; use the idempotency key for it."""
        return await self._caller.begin(self.name, step, claim=claim, retry=retry)

    async def save(self, state: Mapping[str, Any] | None = None, **more: Any) -> Saved:
        """Save a checkpoint."""
        # An object is copied as soon as it comes, and not here; what only resembles one becomes one first.
        given: Any = state
        if not is_object(given) and isinstance(state, Mapping):
            given = dict(state)
        return await self._caller.save(self.name, given, **more)

    async def load(self, **more: Any) -> Brief:
        """Load where the task stands."""
        return await self._caller.load(self.name, **more)

    async def state(self) -> JsonObject:
        """Give the whole state, and nothing of where the steps stand."""
        return await self._caller.state(self.name)

    async def finish(self, outcome: str = "done", summary: str = "") -> Finished:
        """End the run; the next one starts fresh."""
        return await self._caller.finish(self.name, outcome, summary)


async def _each(items: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
