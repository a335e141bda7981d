"""Look for an order in which calls that overlapped could have happened one after the other.

After Wing and Gong: of the calls that could be next, try each whose answer the specification gives; a call
with unknown outcome may come at any time after it began, or never. What was tried is not tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.torture.specification import Answer, Call, TaskState, agree, apply

# Far more than a history that can be ordered ever takes.
_MOST_TRIED = 200_000


class Undecided(Exception):
    """There are too many orders to try."""


class Search:
    """One history and the way through it."""

    def __init__(self, calls: Sequence[Call], start: TaskState) -> None:
        self._calls = sorted(calls, key=lambda call: (call.answer is None, call.ended, call.began))
        self._start = start
        self._all = sum(
            1 << number for number, call in enumerate(self._calls) if call.answer is not None
        )
        self._tried: set[tuple[int, int]] = set()
        # The longest way, and what stood at its end: where to look when there is none.
        self._furthest: tuple[int, list[int], list[tuple[int, Answer]]] = (-1, [], [])

    def order(self) -> list[Call] | None:
        """Give the calls in an order that explains every answer, None if there is none."""
        way: list[int] = []
        found = self._go(0, self._start, way)
        return [self._calls[number] for number in way] if found else None

    def _go(self, done: int, state: TaskState, way: list[int]) -> bool:
        if done & self._all == self._all:
            return True
        key = done, hash(repr(state))
        if key in self._tried:
            return False
        if len(self._tried) > _MOST_TRIED:
            raise Undecided
        self._tried.add(key)
        refused: list[tuple[int, Answer]] = []
        possible: list[tuple[int, TaskState]] = []
        for number in self._next(done):
            told = self._calls[number].answer
            due, after = apply(state, self._calls[number])
            if not agree(due, told):
                refused.append((number, due))
            elif after != state:
                possible.append((number, after))
            elif told is not None:
                # It changes nothing, so it may as well come now: every order with it later is one
                # with it here. A call without answer may do something another time.
                possible = [(number, after)]
                break
        for number, after in possible:
            way.append(number)
            if self._go(done | 1 << number, after, way):
                return True
            way.pop()
        if len(way) > self._furthest[0]:
            self._furthest = len(way), list(way), refused
        return False

    def _next(self, done: int) -> list[int]:
        """Give the calls that began before any of the others had ended, those without answer last."""
        waiting = [n for n in range(len(self._calls)) if not done >> n & 1]
        first_end = min(self._calls[n].ended for n in waiting)
        return [n for n in waiting if self._calls[n].began <= first_end]

    def explanation(self) -> str:
        """Tell how far it went and what would have been due there."""
        _, way, refused = self._furthest
        lines = ["the longest order that explains its answers:"]
        lines += [f"  {_told(self._calls[number])}" for number in way]
        lines += ["and there none of these fits:"]
        lines += [f"  {_told(self._calls[number])}\n    due: {due}" for number, due in refused]
        return "\n".join(lines)


def _told(call: Call) -> str:
    who = f"{call.caller}: " if call.caller else ""
    return f"{who}{call.name}({dict(call.arguments)}) -> {call.answer}"
