"""What the suite asks of an engine's author, and the few words its tests are written in."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import pytest
import pytest_asyncio

from holdfast_storage.core.records import DamagedLine, Draft, Entry, Record
from holdfast_storage.core.seal import seal
from holdfast_storage.engines.base import Engine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

OpenEngine = Callable[[], Awaitable[Engine]]
Choose = Callable[[Sequence[Entry]], Draft | None]


@asynccontextmanager
async def closing_all(
    open_one: Callable[[], Engine | Awaitable[Engine]],
) -> AsyncGenerator[OpenEngine, None]:
    """Give the `open_engine` that tests ask for; whatever it opened is closed at the end.

    A test may have closed an engine itself: closing it once more must do no harm.
    """
    opened: list[Engine] = []

    async def open_engine() -> Engine:
        found = open_one()
        opened.append(await found if inspect.isawaitable(found) else found)
        return opened[-1]

    try:
        yield open_engine
    finally:
        for engine in opened:
            await engine.close()


class Conformance:
    """The hooks: the fixture `open_engine` must be given, the rest as far as the engine goes.

    Each call of `open_engine` opens the same workspace once more, as another process would. The
    fixture may leave on `self` what the hooks need.
    """

    pytestmark: ClassVar[Any] = pytest.mark.asyncio

    @pytest_asyncio.fixture
    async def engine(self, open_engine: OpenEngine) -> Engine:
        """Give the one engine that most tests need."""
        return await open_engine()

    def save_as_person(self, engine: Engine, task: str, raw: bytes) -> None:
        """Save the view as an editor would, behind the engine's back."""
        raise NotImplementedError("say how a person saves: this engine is editable")

    def leave_over(self, engine: Engine, task: str, number: int, raw: bytes, mtime_ns: int) -> None:
        """Leave bytes where a rendering leaves what it displaced; one file for each number."""
        _skip("how a displaced file is left over")

    def spoil_line(self, engine: Engine, task: str, seq: int) -> None:
        """Damage a line of the log so that it is complete and not to be believed."""
        _skip("how a line is damaged")

    def failing(self, engine: Engine) -> AbstractContextManager[None]:
        """While this lasts, nothing that the engine writes can be made durable."""
        _skip("how writing is made to fail")

    def write_settings(self, engine: Engine, raw: bytes) -> None:
        """Write the workspace's settings as a person would."""
        _skip("how a person writes settings")


def _skip(what: str) -> NoReturn:
    pytest.skip(f"the suite was not told {what}")


def needs(engine: Engine, capability: str) -> None:
    """Skip the test if the engine says that it lacks this."""
    if not getattr(engine.capabilities, capability):
        pytest.skip(f"{engine.capabilities.name} is not made for this: {capability}=False")


# --- operations -------------------------------------------------------------------------------


def drafted(id: str, op: str = "done", *, opens: bool = False, **body: Any) -> Draft:
    """Give a draft with this id; the suite looks at no clock."""
    return Draft(id, "2026-01-02T03:04:05.678Z", "an agent", op, body, opens)


class Recording:
    """An operation that remembers how the engine went about it.

    It records the draft given, or the one chosen by the function given.
    """

    def __init__(self, draft: Draft | Choose | None, known: int = 0) -> None:
        self._draft = draft
        self._known = known
        self.shown: list[list[Entry]] = []
        self.accepted: list[Record | None] = []

    @property
    def known(self) -> int:
        """The seq up to which this operation need not be shown anything."""
        return self._known

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        """Choose, and remember what was shown."""
        self.shown.append(list(entries))
        return self._draft(entries) if callable(self._draft) else self._draft

    def accept(self, record: Record | None) -> None:
        """Remember what was accepted."""
        self.accepted.append(record)


async def recorded(engine: Engine, task: str, *drafts: Draft) -> list[Record]:
    """Record these one after the other."""
    operations = [Recording(draft) for draft in drafts]
    for operation in operations:
        await engine.commit(task, operation)
    return [record for operation in operations for record in operation.accepted if record]


async def log_of(engine: Engine, task: str, after: int = 0) -> list[Entry]:
    """Read everything after `after`."""
    return [entry async for portion in engine.read(task, after) for entry in portion]


async def records_of(engine: Engine, task: str) -> list[Record]:
    """Read everything, and insist that none of it is damaged."""
    entries = await log_of(engine, task)
    assert [entry for entry in entries if isinstance(entry, DamagedLine)] == []
    return [entry for entry in entries if isinstance(entry, Record)]


async def ids_of(engine: Engine, task: str) -> list[str]:
    """Give the ids of all records in their order."""
    return [record.id for record in await records_of(engine, task)]


# --- views ------------------------------------------------------------------------------------


def rendered(task: str, revision: int, **state: Any) -> bytes:
    """Give a view as Holdfast would render it."""
    return seal({"task": task, "state": state, "read_only": {"revision": revision}})


async def view_itself(engine: Engine, task: str) -> bytes:
    """Give the bytes that are in place now."""
    return (await engine.view(task))[-1].raw


async def see_through(engine: Engine, task: str) -> None:
    """Take care of everything there is, as a Workspace does after ingesting it."""
    for sighting in await engine.view(task):
        await engine.seen(task, sighting)
