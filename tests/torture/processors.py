"""Give every processor its share of many small tries, and hear what each of them found."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def findings(tries: Sequence[T], tried: Callable[[T], list[str]]) -> Iterator[str]:
    """Try each of them in some process that may fork; whatever goes wrong in a try is a finding."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    runners = [_Runner(tries[number::cores], tried) for number in range(cores)]
    for runner in runners:
        yield from runner.told()


class _Runner:
    """A process with neither threads nor an event loop of its own."""

    def __init__(self, tries: Sequence[T], tried: Callable[[T], list[str]]) -> None:
        self._count = len(tries)
        self._reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._reading)
            _run(tries, tried, writing)
        os.close(writing)

    def told(self) -> Iterator[str]:
        """Give what was found; that it ended too early is a finding too."""
        count = 0
        with os.fdopen(self._reading) as lines:
            for line in lines:
                count += 1
                yield from json.loads(line)
        os.waitpid(self._pid, 0)
        if count < self._count:
            yield f"a process ended after {count} of {self._count} tries"


def _run(tries: Sequence[T], tried: Callable[[T], list[str]], writing: int) -> None:
    try:
        with os.fdopen(writing, "w") as out:
            for each in tries:
                try:
                    found = tried(each)
                except Exception:  # noqa: BLE001 - a harness that breaks has found something too
                    found = [f"{each}: {traceback.format_exc()}"]
                out.write(json.dumps(found) + "\n")
    finally:
        os._exit(0)
