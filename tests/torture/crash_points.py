"""Cut the power at every call of every story, and see whether the promises hold in every state left.

    python -m tests.torture.crash_points --count 100000 --seed 1

The engine is the real one; under it stands a file system in memory that knows what was flushed
(`memory_disk`). After each call that changes anything, every state that a power cut may leave
(`power_cut`) is started again with the real code, looked at, worked on and cut once more (`promises`).
A seed replays its story: `--seed 17 --count 1`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from random import Random

from tests.torture import power_cut, promises
from tests.torture.direct_engine import no_event_loop
from tests.torture.harness import Row, main
from tests.torture.ledger import Broken
from tests.torture.workloads import Story, World, random_story, short_stories

_STATES_AT_A_CALL = 12
_STATES_OF_A_STORY = 600


class _Enough(BaseException):
    """As many states were looked at as were asked for."""


class Cutter:
    """Looks at every state that a power cut may leave, after each change of one story."""

    def __init__(
        self, story: Story, seed: int, *, at_most: int, at_a_call: int = _STATES_AT_A_CALL
    ) -> None:
        self._story, self._seed = story, seed
        self._at_most, self._at_a_call = at_most, at_a_call
        self._random = Random(seed)
        self._seen: set[tuple[int, int]] = set()
        self._ended_by: BaseException | None = None
        self.count = 0

    def run(self) -> str:
        """Play the story; answers which promise was broken and how, or nothing."""
        world = World.empty(self._seed, self._story.limits)
        try:
            self._story.begin(world)
            world.fs.after_change = lambda: self._cut(world)
            self._story.play(world)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told or raised again
            # What was on its way when the story ended may end otherwise.
            return self._told(self._ended_by or error)
        return ""

    def _told(self, error: BaseException) -> str:
        if isinstance(error, _Enough):
            return ""
        if not isinstance(error, Exception):
            raise error
        what = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
        return f"seed {self._seed}, state {self.count}: {what} [{self._story}]"

    def _cut(self, world: World) -> None:
        try:
            self._look_at_all(world)
        except BaseException as error:
            self._ended_by, world.fs.is_over = error, True
            raise

    def _look_at_all(self, world: World) -> None:
        for cut in power_cut.cuts(world.fs, self._random, self._at_a_call):
            fs, mark = power_cut.after(world.fs, cut, self._random.choice((0.2, 5, 7200)))
            case = mark, world.ledger.version
            if case in self._seen:
                continue
            self._seen.add(case)
            if self.count == self._at_most:
                raise _Enough
            self.count += 1
            promises.hold(world, fs, self._seed * 1000 + self.count)


def stories(seed: int) -> Iterator[tuple[int, Story]]:
    """Give stories for ever: first the short ones, then made-up ones; each with its seed."""
    short = short_stories()
    for number in count(seed):
        if number - 1 < len(short):
            yield number, short[number - 1]
        else:
            yield number, random_story(Random(number))


def tortured(seed: int, at_least: int, *, of_a_story: int = _STATES_OF_A_STORY) -> Row:
    """Look at so many states, story after story."""
    began = time.monotonic()
    states = played = 0
    violations: list[str] = []
    with no_event_loop():
        for number, story in stories(seed):
            if states >= at_least:
                break
            cutter = Cutter(story, number, at_most=of_a_story)
            violation = cutter.run()
            if violation:
                violations.append(violation)
            states += cutter.count
            played += 1
    seconds = time.monotonic() - began
    remark = f"{played} stories, {states / seconds:.0f} states a second"
    return Row("crash points", states, "states after a power cut", seed, tuple(violations), remark)


def short(seed: int) -> Row:
    """Give the short form: a little of every kind of story."""
    return tortured(seed, 2500, of_a_story=15)


def long(seed: int, count: int) -> Row:
    """Look at so many states."""
    return tortured(seed, count)


if __name__ == "__main__":
    main(short, by_count=long)
