"""Wait for a lock, in turn and not for ever."""

from __future__ import annotations

import _thread
import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, NamedTuple

# Whoever gave up leaves a thread behind until its turn comes, which is never while a stopped process
# holds the lock. Beyond these many, waiting is no longer in turn.
_MOST_WAITING = 64
_turns = threading.BoundedSemaphore(_MOST_WAITING)


class _Waiter:
    """A thread that waits, for one thing after the other: to begin one for each costs 30 us and more."""

    # Those that wait for nothing now.
    idle: ClassVar[list[_Waiter]] = []

    def __init__(self) -> None:
        self._given: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        # Not threading.Thread, whose start waits for the thread to run: this is the contended path.
        _thread.start_new_thread(self._serve, ())

    @classmethod
    def one(cls) -> _Waiter | None:
        """Give one that is idle, or one more if the system has a thread to spare."""
        with suppress(IndexError):
            return cls.idle.pop()
        with suppress(RuntimeError):
            return cls()
        return None

    def begin(self, call: Callable[[], None]) -> None:
        """Have something done that raises nothing."""
        self._given.put(call)

    def _serve(self) -> None:
        while True:
            self._given.get()()
            self.idle.append(self)


def _begin_anew() -> None:
    """Be a child: it has the list and the count, and none of the threads."""
    global _turns
    _Waiter.idle.clear()
    _turns = threading.BoundedSemaphore(_MOST_WAITING)


os.register_at_fork(after_in_child=_begin_anew)


def in_a_waiting_thread(call: Callable[[], None]) -> bool:
    """Have something done that waits and raises nothing; False if there is no thread for it."""
    waiter = _Waiter.one()
    if waiter is not None:
        waiter.begin(call)
    return waiter is not None


class WhileWaiting(NamedTuple):
    """What to do again and again while waiting."""

    every_seconds: float
    do: Callable[[], None]


def wait_in_turn(
    gate: int, fd: int, wait_seconds: float, while_waiting: WhileWaiting | None = None
) -> bool:
    """Block in the kernel, whose queue is fair, in a thread that can be given up on.

    A call that blocks cannot be told to stop, and asking again and again starves somebody: with 8 busy
    processes the longest wait was 0.9 to 1.9 s.
    """
    if not _turns.acquire(blocking=False):
        return _ask_again_and_again(gate, fd, wait_seconds)
    # Second descriptors of the same open files: what is locked through one is locked through the
    # other, and stays so until both are closed.
    own = _second(gate, fd)
    waiter = _Waiter.one() if own else None
    if own is None or waiter is None:
        for each in own or ():
            os.close(each)
        _turns.release()
        return _ask_again_and_again(gate, fd, wait_seconds)
    own_gate, own_fd = own
    has_lock: list[bool] = []
    is_over = threading.Lock()
    is_over.acquire()

    def wait() -> None:
        # An error is as if it had been in vain.
        with suppress(OSError):
            fcntl.flock(own_gate, fcntl.LOCK_EX)
            fcntl.flock(own_fd, fcntl.LOCK_EX)
            has_lock.append(True)
        # Whoever comes next waits for the lock while this one works.
        fcntl.flock(own_gate, fcntl.LOCK_UN)
        # Before anything is tidied up: everybody waits for whoever has the lock.
        is_over.release()
        os.close(own_gate)
        os.close(own_fd)
        _turns.release()

    waiter.begin(wait)
    _acquire(is_over, wait_seconds, while_waiting)
    # If the turn comes right now, it ends when the caller closes its descriptors.
    return bool(has_lock)


def _acquire(
    is_over: threading.Lock, wait_seconds: float, while_waiting: WhileWaiting | None
) -> None:
    until = time.monotonic() + wait_seconds
    if while_waiting is not None:
        while (left := until - time.monotonic()) > 0:
            if is_over.acquire(timeout=min(left, while_waiting.every_seconds)):
                return
            while_waiting.do()
    is_over.acquire(timeout=max(0.0, until - time.monotonic()))


def _second(gate: int, fd: int) -> tuple[int, int] | None:
    """Give another descriptor of each; None if there are none to be had."""
    try:
        own_gate = os.dup(gate)
    except OSError:
        return None
    try:
        return own_gate, os.dup(fd)
    except OSError:
        os.close(own_gate)
        return None


def _ask_again_and_again(gate: int, fd: int, wait_seconds: float) -> bool:
    until = time.monotonic() + wait_seconds
    while time.monotonic() < until:
        time.sleep(0.01)
        with suppress(BlockingIOError):
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False
