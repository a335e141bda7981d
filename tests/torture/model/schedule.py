"""Let several processes take turns at the seam, one at a time, in an order drawn by the seed.

Each runs in a thread of its own only because its stack must be kept while others go on; never do two
of them run at once, so the same seed gives the same history.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random


class Killed(BaseException):
    """The process was killed here: nothing it would still have done happens."""


class _Turn:
    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work
        self.go = threading.Semaphore(0)
        self.is_over = False
        self.waits_for: Callable[[], bool] | None = None
        self.has_waited_in_vain = False
        self.error: BaseException | None = None


class Schedule:
    """Whose turn it is."""

    def __init__(self, random: Random, switching: float = 0.3) -> None:
        self._random, self._switching = random, switching
        self._turns: list[_Turn] = []
        self._now: _Turn | None = None
        self._back = threading.Semaphore(0)
        self.is_stopped = False

    def run(self, *works: Callable[[], None]) -> None:
        """Run them to their ends; raises what one of them raised."""
        self._turns = [_Turn(work) for work in works]
        threads = [
            threading.Thread(target=self._work, args=(turn,), daemon=True) for turn in self._turns
        ]
        for thread in threads:
            thread.start()
        while waiting := [turn for turn in self._turns if not turn.is_over]:
            self._let_one_go_on(waiting)
        for thread in threads:
            thread.join()
        self._now = None
        for turn in self._turns:
            if turn.error is not None:
                raise turn.error

    def _let_one_go_on(self, waiting: list[_Turn]) -> None:
        ready = [turn for turn in waiting if turn.waits_for is None or turn.waits_for()]
        if ready and not self.is_stopped:
            turn = self._random.choice(ready)
        else:
            # Everybody waits for somebody: the first one's patience ends.
            turn = waiting[0]
            turn.has_waited_in_vain = True
        turn.waits_for = None
        self._now = turn
        turn.go.release()
        self._back.acquire()

    def _work(self, turn: _Turn) -> None:
        turn.go.acquire()
        try:
            turn.work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again by `run`
            turn.error = error
            self.is_stopped = True
        turn.is_over = True
        self._back.release()

    def pause(self) -> None:
        """Perhaps let somebody else go on."""
        if self._now is not None and self._random.random() < self._switching:
            self._hand_over()
        if self.is_stopped:
            raise Killed

    def wait(self, is_free: Callable[[], bool]) -> bool:
        """Wait until something is free; False if nobody is left who could free it."""
        turn = self._now
        if turn is None:
            return is_free()
        while not is_free():
            turn.waits_for = is_free
            self._hand_over()
            if self.is_stopped:
                raise Killed
            if turn.has_waited_in_vain:
                turn.has_waited_in_vain = False
                return is_free()
        return True

    def _hand_over(self) -> None:
        turn = self._now
        assert turn is not None
        self._back.release()
        turn.go.acquire()
