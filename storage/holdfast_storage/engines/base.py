"""What Workspace needs of a place that keeps tasks: a log that only grows, and a view people edit.

Every sentence of these docstrings has a test in `holdfast_storage.conformance`; what an engine may
lack is said in its `Capabilities`, never found out by calling it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from holdfast_storage.core.records import Draft, Entry, Place, Record


class Operation(Protocol):
    """One thing that somebody wants done: decided under the lock, answered after the flush.

    An engine calls these three from one thread at a time for any one task, never holds a lock
    across an await while doing so, and may call `decide` again with more entries.
    """

    @property
    def known(self) -> int:
        """The seq of the last entry that the decider has seen."""
        ...

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        """After seeing every entry since `known`, choose one record, or None; or raise a refusal."""
        ...

    def accept(self, record: Record | None) -> None:
        """Learn that the record, and everything the decision rested on, is durable."""
        ...


class Foreseeing:
    """An operation that shares its memory of the task with the others of a write.

    An engine that lets several decide before it writes calls `foresee` in between, and `abandon` in
    the place of `accept` where nothing was written. Engines ask at each commit whether an operation
    is one of these, which an abstract class would make slower.
    """

    def foresee(self, record: Record | None) -> None:
        """Make up the answer before others decide: the record comes next, if it becomes durable."""
        raise NotImplementedError("an operation that foresees says how")

    def abandon(self) -> None:
        """Forget what was foreseen: it did not become durable."""
        raise NotImplementedError("an operation that foresees says how it forgets")


class Following:
    """An operation that can take in entries before it is its turn to decide.

    They are durable. An engine may tell of what others wrote while it waits for them; what it told of
    counts as known.
    """

    def follow(self, entries: Sequence[Entry]) -> None:
        """Take in every entry since `known`, and decide nothing."""
        raise NotImplementedError("an operation that follows says how")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What differs between engines, as data."""

    name: str
    durable: bool  # what was accepted survives the process
    shared: bool  # several processes may use one workspace at once
    editable: bool  # people can change the view behind our back
    watch: bool  # changes are announced; otherwise they are found by looking
    # `commit` may begin in one task and go on in another: whatever it waits for, it does so in no scope
    # that belongs to a task (a timeout, a task group), and it lets the event loop turn by itself.
    begins_anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """The machine we run on, since it was last started."""

    boot: str  # a word of its own for each start; records carry it, never the machine's name
    up_since: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Sighting:
    """A file that may be a person's work: the view, or one that a rendering displaced."""

    raw: bytes
    mtime_ns: int
    name: str  # "state.json", or the name of the leftover
    token: Any = None  # what the engine needs to know it again


Kind = Literal["conflicts", "quarantine", "checkpoints"]


@dataclass(frozen=True, slots=True)
class Beside:
    """What belongs to a task besides its log: files kept for people, and who resumed when."""

    kept: Mapping[tuple[Kind, str], bytes]  # by kind and name
    loads: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Head:
    """One task in a listing. `summary` is None where it must be folded from the journal."""

    task: str
    summary: Mapping[str, Any] | None
    problem: str = ""  # why the task cannot be read at all


@dataclass(frozen=True, slots=True)
class Trashed:
    """Something that prune took and that can still be brought back."""

    name: str
    task: str
    at: str
    checkpoints: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `check` saw. `repair` says what --repair would do, empty if nothing."""

    file: str
    problem: str
    repair: str = ""
    task: str = ""
    line: int = 0


class Engine(Protocol):
    """Keeps, for each task, a log that only grows and a view that people may edit."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def workspace_id(self) -> str:
        """A random word that is this workspace's for ever."""
        ...

    @property
    def process(self) -> str:
        """A random word that is this process's; `is_alive` tells of it to others."""
        ...

    @property
    def host(self) -> Host:
        """The machine, to tell records of other machines apart."""
        ...

    def when_forgotten(self, call: Callable[[str], object]) -> None:
        """Have this called with each task of which the engine can no longer tell a replaced journal.

        A fold of it is to be forgotten too. It may be called in any thread; there is one to be told.
        """
        ...

    async def prepare(self) -> None:
        """Make the place, if it is not there; otherwise the first record makes it."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of everything held."""
        ...

    # --- the log ------------------------------------------------------------------------------

    async def commit(self, task: str, operation: Operation, *, is_light: bool = False) -> None:
        """Append the one record that `operation` decides on after seeing everything before it.

        Of several operations racing for one task each sees the others' records or is seen by them.
        When this returns, the record survives a power cut, and so does every entry it was decided
        on. A refusal raised by `decide` comes out of here and leaves nothing behind. If the record
        cannot be made durable, NotSaved is raised and no reader ever sees it acknowledged.
        A task exists from its first record on. `is_light` says that deciding takes next to no time
        and the record is small; whoever does not wait for the disk is then not kept waiting either.
        """
        ...

    def answers_at_once(self, task: str, operation: Operation) -> bool:
        """Let an operation that records nothing be accepted here and now, or raise why not.

        It is as good as a commit. False, if that would mean to wait for anything: then commit it.
        """
        ...

    def read(self, task: str, after: int) -> AsyncIterator[list[Entry]]:
        """Give the durable entries after seq `after`, in order and in portions.

        Lines that cannot be believed come as DamagedLine in their place. An unknown task has none.
        """
        ...

    async def opening(self, task: str) -> int:
        """Give the seq before the first record of the open run: reading after it is enough to go on."""
        ...

    async def fetch(self, task: str, places: Sequence[Place]) -> list[Entry]:
        """Read entries again at places learnt before; a place that was rewritten is a DamagedLine."""
        ...

    async def heads(self, cursor: str, limit: int) -> tuple[list[Head], str]:
        """List tasks in a fixed order from `cursor` on, without folding journals; the next cursor or ""."""
        ...

    async def note_head(self, task: str, revision: int, summary: Mapping[str, Any]) -> None:
        """Remember a summary for `heads`; it counts only while the task's log ends at `revision`."""
        ...

    async def rewrite(self, task: str, lines: Mapping[int, Draft], label: str) -> str:
        """Put other records in the place of those with these seqs; what was there goes to the trash.

        The seq and order of records stay; all other lines stay byte for byte. Answers the name
        under which `restore` brings the old ones back, and loses nothing if it is interrupted.
        """
        ...

    async def plant(
        self, task: str, portions: AsyncIterator[Sequence[Draft]], beside: Beside
    ) -> bool:
        """Make a task of these records, with the seqs 1, 2, 3, …; False if there is one already.

        All of it is there, durably, or nothing: also where `portions` raises, which comes out of
        here, and where this is interrupted.
        """
        ...

    async def trash(self) -> list[Trashed]:
        """List what can be brought back, newest first."""
        ...

    async def restore(self, name: str) -> Trashed:
        """Bring back what `rewrite` put into the trash under this name."""
        ...

    async def empty_trash(self, older_than_seconds: float) -> None:
        """Remove for good what has lain in the trash for longer than that."""
        ...

    # --- the view -----------------------------------------------------------------------------

    def may_have_changed(self, task: str) -> bool:
        """Say at little cost whether the view may differ from what was last seen through."""
        ...

    async def view(self, task: str) -> list[Sighting]:
        """Give every file that may be a person's work, the oldest first and the view itself last.

        A file that somebody may still be writing is waited for until it holds still. A missing
        view gives no sighting; an empty one gives an empty one.
        """
        ...

    async def seen(self, task: str, sighting: Sighting) -> None:
        """Learn that the sighting was taken care of.

        A leftover is then removed as soon as nobody has it open, unless it has changed since.
        The view's stamp is remembered for `may_have_changed`.
        """
        ...

    async def swap_view(self, task: str, raw: bytes, revision: int) -> bool:
        """Publish a view; True if a view as new as `revision` is in place now.

        A file that is not Holdfast's own and was not seen through is never lost: it stays in place
        (False), or it was displaced in the same moment and is the next `view`'s first sighting
        (also False: take care of it, then publish again). An empty or unparseable file stays.
        """
        ...

    def view_rest(self, task: str) -> float:
        """Give how many seconds the view should be left alone: it is young, or an editor has it open."""
        ...

    async def keep(self, task: str, kind: Kind, name: str, raw: bytes) -> str:
        """Keep a file beside the task, durably, under this name; answers its path in the workspace.

        Another content under a name already there gets a name of its own, except for "checkpoints",
        which are renderings: they are replaced, and where there is no task any more they are not kept,
        and the path is "".
        """
        ...

    async def kept(self, task: str, kind: Kind, but: Container[str] = ()) -> dict[str, bytes]:
        """Give what was kept, except what lies under the names in `but`."""
        ...

    async def drop_checkpoint_view(self, task: str, name: str) -> None:
        """Remove a checkpoint's rendering that is no longer wanted; the journal has it."""
        ...

    # --- the surroundings ---------------------------------------------------------------------

    async def log_load(self, task: str, line: Mapping[str, Any]) -> None:
        """Note who resumed when; may be lost in a power cut."""
        ...

    async def loads(self, task: str) -> list[Mapping[str, Any]]:
        """Give the noted loads, oldest first, as far back as they are kept."""
        ...

    def is_alive(self, process: str) -> bool:
        """Say whether that process still holds the workspace open."""
        ...

    def watch(self) -> AsyncIterator[set[str]]:
        """Announce tasks in which something may have changed: a hint to look, never the truth."""
        ...

    async def check(self, repair: bool) -> list[Finding]:
        """Verify everything the engine itself is answerable for; with `repair`, move, never delete."""
        ...

    async def settings(self) -> Mapping[str, Any]:
        """Give the workspace's settings as people wrote them; Unreadable says where they are broken."""
        ...
