"""What one caller remembers of each task it has met; of those met long ago it must load anew."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast_storage.core.decide.context import Belief
from holdfast_storage.core.snapshot import Snapshot
from holdfast_storage.results import Saved
from holdfast_storage.sent import Known

_TASKS_KEPT = 256


class Taken(NamedTuple):
    """A state by itself, and where it stands; no run is 0."""

    state: Snapshot
    run: int
    seq: int
    is_closed: bool


class Turn:
    """Lets those of one caller who save or load do so one after the other, in the order they came."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        # A lock that was let go of seems free until whoever waited for it is woken.
        self._users = 0

    @property
    def is_free(self) -> bool:
        """Say whether nobody has it and nobody waits for it."""
        return self._users == 0

    async def __aenter__(self) -> None:
        self._users += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self._users -= 1
            raise

    async def __aexit__(self, *error: object) -> None:
        self._users -= 1
        self._lock.release()


@dataclass(slots=True)
class Remembered:
    """What is remembered of one task."""

    belief: Belief = field(default_factory=Belief)
    turn: Turn = field(default_factory=Turn)
    # What the newest save is known by, if it can be, and what it answered or will answer.
    last_save: tuple[Known | None, asyncio.Future[Saved]] | None = None

    @property
    def is_in_use(self) -> bool:
        """Say whether a save is on its way, or a load."""
        is_saved = self.last_save is None or self.last_save[1].done()
        return not (is_saved and self.turn.is_free)

    def has_moved_on(self, before: Belief) -> bool:
        """Say whether a step of this caller's has opened another run since it believed that."""
        return self.belief is not before and self.belief.run != before.run

    def learn_load(self, loaded: Belief) -> None:
        """Believe what was loaded."""
        loaded.own = self.belief.own
        self.belief, self.last_save = loaded, None

    def learn_state(self, taken: Taken) -> None:
        """Believe a state that was taken alone, if there is a run that it is of."""
        if taken.run:
            self.belief.take(taken.state, taken.run, taken.seq, is_closed=taken.is_closed)
            self.last_save = None

    def forget_if_failed(self, saving: asyncio.Future[Saved]) -> None:
        """Let a save that failed be made again, and its error, with all that it holds, go."""
        has_failed = saving.cancelled() or saving.exception() is not None
        if has_failed and self.last_save is not None and self.last_save[1] is saving:
            self.last_save = None


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
