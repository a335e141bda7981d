"""Real processes for tests: held at a barrier, told to go on, killed in the middle of something."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import inspect
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from holdfast_storage.core import strict_json, view
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.workspace import Workspace

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

P = ParamSpec("P")

# Nothing here takes nearly as long: a test that waits in vain says so before pytest ends it.
PATIENCE_SECONDS = 50.0

_CONTEXT = multiprocessing.get_context("forkserver")


@functools.cache
def _prepare_to_fork() -> None:
    """Start the process that children are forked from: it has imported what they need.

    Importing costs half a second of processor each time. That process runs nothing else, least of
    all threads.
    """
    _CONTEXT.set_forkserver_preload(["pytest", "holdfast_storage.workspace", opened.__module__])
    before = os.environ.get("PYTHONPATH")
    # Or it would import what is installed, which may be another checkout.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def opened(root: Path, by: str = "", **times: Any) -> Workspace:
    """Open a workspace in a folder; `times` are limits of the folder engine."""
    if not times:
        return Workspace.open(root, by=by)
    engine = FolderEngine.open(root, schema=strict_json.pretty(view.schema()), **times)
    return Workspace(engine, by=by)


# --- the child's side -------------------------------------------------------------------------


class Parent:
    """The test, as its child sees it."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection

    def say(self, message: Any) -> None:
        """Tell the test something; it learns of it even if the next thing is a kill."""
        self._connection.send(("said", message))

    def hear(self) -> Any:
        """Wait for a word from the test."""
        return self._connection.recv()

    def has_spoken(self) -> bool:
        """Say whether the test has said something, without waiting for it."""
        return self._connection.poll()

    def wait_for_go(self) -> None:
        """Stand at the barrier."""
        self.say("ready")
        assert self.hear() == "go"

    def wait_to_be_killed(self) -> None:
        """Never go on from here."""
        while True:
            signal.pause()


Act = Callable[Concatenate[Parent, P], Awaitable[Any]]


def _run(
    path: str, name: str, connection: Connection[Any, Any], arguments: tuple[Any, ...]
) -> None:
    try:
        act = getattr(_module_at(path), name)
        connection.send(("ended", asyncio.run(act(Parent(connection), *arguments))))
    except BaseException:  # noqa: BLE001 - whatever it is, the test shows it
        connection.send(("failed", traceback.format_exc()))


def _module_at(path: str) -> Any:
    """Load the file a test stands in: there is no other name for it that both sides know."""
    name = f"child_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# --- the test's side --------------------------------------------------------------------------


class Child:
    """A process that runs one async function of a test file, which must stand at its top level."""

    def __init__(self, act: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        _prepare_to_fork()
        self._connection, theirs = _CONTEXT.Pipe()
        path, name = inspect.getfile(act), act.__name__
        self._process = _CONTEXT.Process(
            target=_run, args=(path, name, theirs, arguments), daemon=True
        )
        self._process.start()
        theirs.close()
        self._has_ended = False
        self.answer: Any = None

    def tell(self, message: Any) -> None:
        """Say something to the child."""
        self._connection.send(message)

    def hear(self) -> Any:
        """Wait for the next thing the child says."""
        heard = self._receive()
        assert heard is not None, "the child ended before it said what was waited for"
        return heard[0]

    def expect(self, message: Any) -> None:
        """Wait for exactly this."""
        assert self.hear() == message

    def all_heard(self) -> list[Any]:
        """Give everything else the child says until it has ended, in whatever way."""
        heard: list[Any] = []
        while (message := self._receive()) is not None:
            heard.append(message[0])
        return heard

    def ended(self) -> Any:
        """Wait until the function has returned, and give what it returned."""
        self.all_heard()
        self._process.join(PATIENCE_SECONDS)
        return self.answer

    def kill(self) -> list[Any]:
        """Kill it as the kernel does, in the middle of anything; gives what it had still said."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(PATIENCE_SECONDS)
        return self.all_heard()

    def _receive(self) -> tuple[Any] | None:
        if self._has_ended:
            return None
        try:
            assert self._connection.poll(PATIENCE_SECONDS), "the child says nothing"
            kind, message = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._has_ended = True
            return None
        if kind == "said":
            return (message,)
        self._has_ended = True
        assert kind == "ended", f"the child failed:\n{message}"
        self.answer = message
        return None

    def close(self) -> None:
        """End it, if it has not ended, and let go of it."""
        self._process.kill()
        self._process.join(PATIENCE_SECONDS)
        self._connection.close()
        self._process.close()


@contextmanager
def child(act: Act[P], *arguments: P.args, **_: P.kwargs) -> Generator[Child, None, None]:
    """Have a process run `act(parent, *arguments)`."""
    with children(act, [arguments]) as [one]:
        yield one


@contextmanager
def children(
    act: Callable[..., Awaitable[Any]], arguments: Iterable[tuple[Any, ...]]
) -> Generator[list[Child], None, None]:
    """Have several processes run the same with different arguments."""
    started: list[Child] = []
    try:
        started.extend(Child(act, *each) for each in arguments)
        yield started
    finally:
        for one in started:
            one.close()


def let_go(waiting: Iterable[Child]) -> None:
    """Wait until all stand at the barrier, then let all of them go at once."""
    held = list(waiting)
    for one in held:
        one.expect("ready")
    for one in held:
        one.tell("go")


def all_at_once(
    act: Callable[..., Awaitable[Any]], arguments: Iterable[tuple[Any, ...]]
) -> list[Any]:
    """Run processes that truly overlap; gives what each of them returned."""
    with children(act, arguments) as started:
        let_go(started)
        return [one.ended() for one in started]
