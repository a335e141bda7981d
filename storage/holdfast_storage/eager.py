"""Begin what must not be cancelled at once, and make a task of it only if it has to wait for something."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def begun(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Run it until it waits; whoever stops waiting for the answer does not stop it.

    A task begins with the next turn of the event loop and is heard of with the one after that, which
    takes longer than a small save. Python has tasks that begin at once from 3.12 on.
    """
    loop = asyncio.get_running_loop()
    try:
        waits_for = work.send(None)
    except StopIteration as end:
        ended: asyncio.Future[T] = loop.create_future()
        ended.set_result(end.value)
        return ended
    except BaseException as error:  # noqa: BLE001 - whatever it is, whoever waits is to hear of it
        failed: asyncio.Future[T] = loop.create_future()
        failed.set_exception(error)
        return failed
    return loop.create_task(_gone_on(work, waits_for))


async def _gone_on(work: Coroutine[Any, Any, T], waits_for: object) -> T:
    return await _rest_of(work, waits_for)


@coroutine
def _rest_of(work: Coroutine[Any, Any, T], waits_for: object) -> Generator[object, Any, T]:
    while True:
        try:
            try:
                told = yield waits_for
            except BaseException as error:  # noqa: BLE001 - and so is the work
                # Its error has this frame in its traceback: neither is to keep the other.
                waits_for = None
                waits_for = work.throw(error)
            else:
                waits_for = work.send(told)
        except StopIteration as end:
            result: T = end.value
            return result
