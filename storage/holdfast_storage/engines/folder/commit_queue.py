"""Group commit: everything that waits for one task goes into its next write and flush."""

from __future__ import annotations

import asyncio
from collections import deque
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

from holdfast_storage.engines.folder.workers import settle, settle_badly, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast_storage.engines.base import Operation
    from holdfast_storage.engines.folder.limits import Limits
    from holdfast_storage.engines.folder.task_folder import TaskFolder
    from holdfast_storage.engines.folder.workers import Workers

    # For each operation None, or why it was not accepted.
    Outcomes = Sequence[BaseException | None]
    Commit = Callable[[TaskFolder], Outcomes]

# So one batch is a bounded amount of memory, and of time under the lock.
_LARGEST = 256
# So many quick commits in a row show that the next one will be quick as well.
_CONVINCING = 8
# After so much in the event loop's thread timers and sockets are looked at in any case.
_TURNS_IN_A_ROW = 16
# A lock that was kept is let go of when nothing came for so many turns of the loop.
_IDLE_TURNS = 3


class Turns:
    """Sees to it that the event loop comes to its timers, however much is done in its own thread."""

    def __init__(self) -> None:
        self._taken = 0

    def is_due(self) -> bool:
        """Say whether the loop is to turn before the next commit."""
        self._taken = (self._taken + 1) % _TURNS_IN_A_ROW
        return self._taken == 0


_Waiting = tuple["Operation", "asyncio.Future[None]", asyncio.AbstractEventLoop]


class CommitQueue:
    """The operations that wait for one task; at most one thread works on them at a time.

    Handing an operation to a thread and back costs as much as a flush of 0.2 ms. So one that comes
    alone, and is light, is committed in the thread of the event loop, as long as the disk is quick
    and nobody else has the task's lock. As soon as several wait they go to a thread, together.
    What only asks waits for no flush: if the one before it was quick, so is this one.
    """

    def __init__(
        self,
        workers: Workers,
        folder: Callable[[], TaskFolder],
        using: Callable[[TaskFolder, Commit], Outcomes],
        limits: Limits,
        turns: Turns,
    ) -> None:
        self._workers, self._folder, self._using = workers, folder, using
        self._at_once_seconds, self._stint_seconds = limits.at_once_seconds, limits.stint_seconds
        self._mutex = Lock()
        self._waiting: deque[_Waiting] = deque()
        self._is_draining = False
        self._quick_in_a_row = 0
        self._turns = turns
        # How many operations were put so far, and the loop in which a callback looks after a stint.
        self._put_so_far = 0
        self._watching: asyncio.AbstractEventLoop | None = None
        # The last commit, or the last question, took less than the event loop can be held up for.
        self._was_quick = False

    async def put(self, operation: Operation, *, is_light: bool = False) -> None:
        """Wait until the operation is accepted, or raise why not.

        A caller that stops waiting stops nothing: the operation is committed all the same.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._mutex:
            self._waiting.append((operation, future, loop))
            self._put_so_far += 1
            begins = not self._is_draining
            self._is_draining = True
        if begins and is_light and self._quick_in_a_row >= _CONVINCING:
            try:
                if self._is_somebodys_turn(loop):
                    # Not now: what others are about to put belongs into the same flush.
                    await asyncio.sleep(0)
            except BaseException:
                # Cancelled: whoever waited is gone, and the operation goes on.
                self._workers.put(self._drain)
                raise
            self._commit_here()
        elif begins:
            self._workers.put(self._drain)
        try:
            await future
        finally:
            # An error in it has this frame in its traceback: neither is to keep the other.
            del future

    def _is_somebodys_turn(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Say whether others are about to run; at times they are to be let, whoever they are."""
        # Asyncio does not tell who is ready, but its own loop lets it be seen.
        ready = getattr(loop, "_ready", None)
        own = 1 if self._watching is loop else 0
        return self._turns.is_due() or ready is None or len(ready) > own

    def is_answered_here(self, operation: Operation) -> bool:
        """Let an operation that only asks be accepted at once, or raise why not.

        It shares no flush with others and waits for none. False if it would have to wait for anything
        else: for those who came before it, for another process, to read on very far, or for a disk that was
        slow the last time.
        """
        with self._mutex:
            if self._is_draining or not self._was_quick:
                return False
            self._is_draining = True
        began = perf_counter()
        try:
            folder = self._folder()
            outcomes = folder.answer_at_once(operation) or self._commit_at_once(folder, operation)
        finally:
            self._was_quick = perf_counter() - began < self._at_once_seconds
            self._rest()
        if outcomes and outcomes[0] is not None:
            raise outcomes[0]
        return bool(outcomes)

    def _rest(self) -> None:
        """Leave what came meanwhile to a thread."""
        with self._mutex:
            self._is_draining = goes_on = bool(self._waiting)
        if goes_on:
            self._workers.put(self._drain)

    def _commit_here(self) -> None:
        """Commit what came alone in the event loop's thread; anything else is for another one."""
        if len(self._waiting) > 1:
            self._workers.put(self._drain)
            return
        operation, future, _ = self._waiting[0]
        began = perf_counter()
        try:
            outcomes = self._commit_at_once(self._folder(), operation)
        except BaseException as error:  # noqa: BLE001 - a bug must not leave callers waiting
            outcomes = [error]
        if not outcomes:
            self._workers.put(self._drain)
            return
        self._note_time(perf_counter() - began)
        self._waiting.popleft()
        self._rest()
        self._settle_all([(future, outcomes[0])])

    def _commit_at_once(self, folder: TaskFolder, operation: Operation) -> Outcomes:
        return self._using(folder, lambda folder: folder.commit_at_once(operation))

    def _commit(self, folder: TaskFolder, operations: Sequence[Operation]) -> Outcomes:
        seconds = self._stint_seconds
        return self._using(folder, lambda folder: folder.commit(operations, stint_seconds=seconds))

    def _drain(self) -> None:
        batch = self._next()
        while batch:
            began = perf_counter()
            waited_seconds = 0.0
            try:
                folder = self._folder()
                outcomes = self._commit(folder, [operation for operation, _, _ in batch])
                waited_seconds = folder.waited_seconds
            except BaseException as error:  # noqa: BLE001 - a bug must not leave callers waiting
                outcomes = [error] * len(batch)
            # Waiting for others does not make the disk a slow one.
            self._note_time(perf_counter() - began - waited_seconds)
            # Before anybody is told: whoever is woken and comes again finds the queue at rest.
            following = self._next()
            self._deliver(batch, outcomes)
            batch = following

    def _next(self) -> list[_Waiting]:
        with self._mutex:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _LARGEST))]
            self._is_draining = bool(batch)
            return batch

    def _note_time(self, seconds: float) -> None:
        self._was_quick = seconds < self._at_once_seconds
        self._quick_in_a_row = self._quick_in_a_row + 1 if self._was_quick else 0

    # --- answers ------------------------------------------------------------------------------

    def _deliver(self, batch: list[_Waiting], outcomes: Outcomes) -> None:
        """Wake each loop once, however many of its callers waited."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Result]] = {}
        for (_, future, loop), outcome in zip(batch, outcomes, strict=True):
            by_loop.setdefault(loop, []).append((future, outcome))
        for loop, results in by_loop.items():
            tell(loop, self._settle_all, results)

    def _settle_all(self, results: list[_Result]) -> None:
        for future, outcome in results:
            if outcome is None:
                settle(future, None)
            else:
                settle_badly(future, outcome)
        if self._folder().has_stint and not self._is_watched():
            self._look_again(asyncio.get_running_loop(), self._put_so_far, _IDLE_TURNS)

    # --- a lock that was kept for what comes next -----------------------------------------------

    def _is_watched(self) -> bool:
        """Say whether a callback of ours looks after a stint, in a loop that still turns."""
        return self._watching is not None and not self._watching.is_closed()

    def _look_again(
        self, loop: asyncio.AbstractEventLoop, put_so_far: int, turns_left: int
    ) -> None:
        self._watching = loop
        loop.call_soon(self._end_idle_stint, loop, put_so_far, turns_left)

    def _end_idle_stint(
        self, loop: asyncio.AbstractEventLoop, put_so_far: int, turns_left: int
    ) -> None:
        """Keep the lock as long as operations come, and let go of it when the loop goes to rest."""
        self._watching = None
        if not self._folder().has_stint or self._is_draining:
            # What is on its way is answered in a loop, and looked after there.
            return
        if self._put_so_far != put_so_far:
            self._look_again(loop, self._put_so_far, _IDLE_TURNS)
        elif turns_left:
            self._look_again(loop, put_so_far, turns_left - 1)
        else:
            self._folder().end_stint()


_Result = tuple["asyncio.Future[None]", "BaseException | None"]
