"""What one caller remembers of each task it has met; of those met long ago it must load anew."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Self

from holdfast_storage.core.decide.context import Belief
from holdfast_storage.results import Saved

_TASKS_KEPT = 256


class InLine:
    """A call's place among its caller's own, which come before the engine in the order they were made.

    It is left when the call has come there, not when it is answered: many of them share one flush.
    """

    __slots__ = ("_before", "_left")

    def __init__(self, before: InLine | None) -> None:
        self._before = before._left if before is not None else None
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def reached(self) -> None:
        """Wait until those before have left."""
        if self._before is not None and not self._before.done():
            # Not awaited itself: a call that is cancelled here must not cancel it for others.
            await asyncio.wait([self._before])
        self._before = None

    @property
    def is_left(self) -> bool:
        """Say whether it has come before the engine, or will not."""
        return self._left.done()

    def leave(self) -> None:
        """Let the next one come."""
        if not self._left.done():
            self._left.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        # However it ended, and wherever: nobody waits for ever.
        self.leave()


@dataclass(slots=True)
class Remembered:
    """What is remembered of one task."""

    belief: Belief = field(default_factory=Belief)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    # The arguments of the newest save, as a digest, and what it answered or will answer.
    last_save: tuple[str, asyncio.Future[Saved]] | None = None
    last_in_line: InLine | None = None

    def line_up(self) -> InLine:
        """Take a place behind all calls that were made before."""
        self.last_in_line = InLine(self.last_in_line)
        return self.last_in_line

    @property
    def is_in_use(self) -> bool:
        """Say whether a call is on its way."""
        is_in_line = self.last_in_line is not None and not self.last_in_line.is_left
        is_saving = self.last_save is not None and not self.last_save[1].done()
        return is_in_line or is_saving or self.turn.locked()


class Memory:
    """The tasks a caller has met, the least recently met one forgotten first."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[str, Remembered] = OrderedDict()

    def of(self, task: str) -> Remembered:
        """Give what is remembered of a task; workers ask too, so nothing is forgotten here."""
        found = self._tasks.get(task)
        return found or self._tasks.setdefault(task, Remembered())

    def meet(self, task: str) -> Remembered:
        """Give the same at the beginning of a call, which makes it the last to be forgotten."""
        met = self.of(task)
        self._tasks.move_to_end(task)
        while len(self._tasks) > _TASKS_KEPT:
            oldest, remembered = next(iter(self._tasks.items()))
            if remembered.is_in_use:
                self._tasks.move_to_end(oldest)
                break
            del self._tasks[oldest]
        return met
