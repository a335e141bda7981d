"""Processes that cost little to start and are killed at any moment; what they said before is known.

They are forked from a parent that has imported everything and runs neither threads nor an event loop.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import selectors
import signal
import traceback
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

Said = list[Any]
Say = Callable[..., None]
Act = Callable[[Say], Awaitable[None]]

# Read ends of all pipes, which a new child has no use for.
_heard_by_parent: set[int] = set()


class Forked:
    """One process that runs an async function, which may `say` things at any time."""

    def __init__(self, act: Act) -> None:
        gc.collect()
        # What is there now will not be walked through again in each child, which would copy it.
        gc.freeze()
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _live(act, writing, {*_heard_by_parent, self._reading})
        os.close(writing)
        os.set_blocking(self._reading, False)
        _heard_by_parent.add(self._reading)
        self._rest = b""
        self.is_over = self.was_killed = False

    def fileno(self) -> int:
        """Wait for this to be readable."""
        return self._reading

    def heard(self) -> list[Said]:
        """Give what was said since; `is_over` when there will be no more."""
        while not self.is_over:
            try:
                raw = os.read(self._reading, 1 << 16)
            except BlockingIOError:
                break
            self._rest += raw
            self.is_over = not raw
        *whole, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in whole]

    def signal(self, number: int) -> None:
        """Send a signal; it may have ended already."""
        os.kill(self.pid, number)

    def end(self) -> list[Said]:
        """Kill it wherever it is, wait until it is gone, and give what it had still said."""
        self.signal(signal.SIGKILL)
        return self.joined()

    def joined(self) -> list[Said]:
        """Wait until it has ended by itself, and give what it said."""
        said: list[Said] = []
        while not self.is_over:
            wait_for([self], None)
            said += self.heard()
        _, status = os.waitpid(self.pid, 0)
        self.was_killed = os.WIFSIGNALED(status)
        os.close(self._reading)
        _heard_by_parent.discard(self._reading)
        return said


def wait_for(children: Iterable[Forked], seconds: float | None) -> list[Forked]:
    """Wait until one of them says something or ends, but no longer than that."""
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child, selectors.EVENT_READ, child)
        return [key.data for key, _ in selector.select(seconds)]


def done(act: Act) -> list[Said]:
    """Run something in a process of its own and give what it said; raises if it failed."""
    said = Forked(act).joined()
    for word, *about in said:
        if word == "failed":
            raise AssertionError(about[0])
    return said


def _live(act: Act, writing: int, not_ours: set[int]) -> None:
    """Be the child. Never returns: what the parent had open and meant to do is not ours."""

    def say(*words: Any) -> None:
        os.write(writing, json.dumps(words).encode() + b"\n")

    code = 1
    try:
        for fd in not_ours:
            os.close(fd)
        asyncio.run(_acted(act, say))
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent tells of it
        say("failed", traceback.format_exc())
    finally:
        os._exit(code)


async def _acted(act: Act, say: Say) -> None:
    await act(say)
