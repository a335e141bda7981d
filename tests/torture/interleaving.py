"""Several processes in one thread, each stopped and resumed between any two of its calls to the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]
from tests.torture.memory_disk import FileSystem, Killed

_CHANCE_TO_SWITCH = 0.4


class Interleaving:
    """Lets chance decide, by seed, which process makes the next call."""

    def __init__(self, fs: FileSystem, random: Random) -> None:
        self._fs, self._random = fs, random
        self._main = getcurrent()
        self._waiting: set[greenlet] = set()
        # Somebody did something since it was last looked at who waits.
        self._has_moved = False
        fs.before_call, fs.wait = self._perhaps_switch, self._wait

    def _perhaps_switch(self) -> None:
        self._has_moved = True
        if getcurrent() is not self._main and self._random.random() < _CHANCE_TO_SWITCH:
            self._main.switch()

    def _wait(self) -> bool:
        """Let others go first; False if all of them wait, and so nobody would ever be served."""
        if getcurrent() is self._main:
            return False
        self._waiting.add(getcurrent())
        return bool(self._main.switch(True))

    def run(self, scripts: Sequence[Callable[[], None]]) -> None:
        """Run all of them to their ends."""
        living = [greenlet(script, parent=self._main) for script in scripts]
        try:
            self._run(living)
        finally:
            # Whoever is still on the way is stopped here, and not whenever memory is tidied.
            self._fs.is_over = bool(living)
            for one in living:
                with suppress(Killed):
                    one.throw()

    def _run(self, living: list[greenlet]) -> None:
        while living:
            ready = [one for one in living if one not in self._waiting]
            # If everybody waits, the first is told that it does so in vain.
            one = self._random.choice(ready) if ready else living[0]
            self._has_moved = False
            has_waited = one.switch() if one.gr_frame is None else one.switch(bool(ready))
            if self._has_moved or has_waited is not True:
                # What the others wait for may have come.
                self._waiting = {one} if has_waited is True else set()
            living[:] = [one for one in living if not one.dead]
