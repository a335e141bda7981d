"""What agents and people do while the power may go: single operations, and stories made of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from tests.torture.direct_engine import open_workspace, run
from tests.torture.interleaving import Interleaving
from tests.torture.ledger import Broken, Copied, Ledger, WatchedEngine
from tests.torture.memory_disk import File, FileSystem, Folder, Killed, MemoryDisk

from holdfast_storage.caller import Caller
from holdfast_storage.core.errors import LoadFirst, Unavailable
from holdfast_storage.core.records import Place, Record, decode_line
from holdfast_storage.engines.folder.disk import FOLDER
from holdfast_storage.engines.folder.limits import Limits
from holdfast_storage.results import Brief
from holdfast_storage.workspace import Workspace

PROJECT = "/project"
ROOT = Path(PROJECT) / ".holdfast"
TASK = "t"
TASK_PATH = f"{ROOT}/tasks/{TASK}"


class World:
    """One machine, what was promised on it, and a source of names that are never used twice."""

    def __init__(self, fs: FileSystem, ledger: Ledger, seed: int, limits: Limits) -> None:
        self.fs, self.ledger, self.limits = fs, ledger, limits
        self.random = Random(seed)
        self.make_disk = MemoryDisk
        self._ids = 0

    @classmethod
    def empty(cls, seed: int, limits: Limits) -> World:
        """Give a machine on which nobody has used Holdfast yet."""
        fs = FileSystem()
        fs.make_path(PROJECT)
        return cls(fs, Ledger(), seed, limits)

    def after(self, fs: FileSystem, seed: int) -> World:
        """Give the same machine when it has started again."""
        world = World(fs, self.ledger.copy(), seed, self.limits)
        world._ids = self._ids + 1_000_000 * fs.boot
        return world

    def new_id(self) -> str:
        """Give an id."""
        self._ids += 1
        return f"{self._ids:020x}"

    def disk(self, *, dies_at: int = 0) -> MemoryDisk:
        """Give the calls of one more process."""
        return self.make_disk(self.fs, self.random.getrandbits(32), dies_at=dies_at)

    def node(self, path: str) -> File | Folder | None:
        """Find what lies at a path, with no process looking."""
        node: Any = self.fs.root
        for name in path.strip("/").split("/"):
            node = node.entries.get(name) if isinstance(node, Folder) else None
        return node if isinstance(node, (File, Folder)) else None

    def spoil(self) -> None:
        """Be a disk that changes a byte of a line written long ago."""
        ledger = self.ledger
        for step, result in ledger.results.items():
            for seq, (_, op, _, body) in ledger.records.items():
                is_it = op == "done" and body["step"] == step[1] and body["result"] == result
                if is_it and self._spoil(seq):
                    ledger.spoiled[seq] = step[1]
                    del ledger.results[step]
                    ledger.version += 1
                    return

    def _spoil(self, seq: int) -> bool:
        journal = self.node(f"{TASK_PATH}/journal")
        assert isinstance(journal, Folder)
        for file in journal.entries.values():
            assert isinstance(file, File)
            for line in file.saved.split(b"\n")[:-1]:
                entry = decode_line(line, Place(0, 0, 0))
                if isinstance(entry, Record) and entry.seq == seq and not file.writes:
                    # Whose line it was can still be made out.
                    spoilt = line.replace(b'"result"', b'"rexult"')
                    file.data = file.saved = file.saved.replace(line, spoilt)
                    return True
        return False


class Agent:
    """A process with one caller, which is started again when it was killed."""

    def __init__(self, world: World, name: str, *, dies_at: int = 0) -> None:
        self.world, self.name = world, name
        self._dies_at = dies_at
        self._count = 0
        self.trashed: list[str] = []
        self.disk: MemoryDisk
        self.workspace: Workspace
        self.caller: Caller

    @property
    def ledger(self) -> Ledger:
        return self.world.ledger

    def start(self) -> Brief:
        """Begin as a new process that resumes the task."""
        self.disk = self.world.disk(dies_at=self._dies_at)
        self._dies_at = 0
        ledger = self.ledger
        self.workspace, self.engine = open_workspace(
            self.disk,
            self.name,
            self.world.new_id,
            lambda: WatchedEngine(ROOT, self.disk, self.world.limits, ledger),
        )
        self.caller = self.workspace.caller(self.name)
        return run(self.caller.load(TASK))

    def perform(self, operations: Sequence[str]) -> None:
        """Do one after the other; what was interrupted by a kill is tried again."""
        self._restarting(self.start)
        for operation in operations:
            self._restarting(getattr(self, operation))
        self._restarting(self.leave)

    def _restarting(self, call: Callable[[], object]) -> None:
        try:
            call()
        except LoadFirst:
            # Somebody else began the task since.
            self._restarting(self.load)
            self._restarting(call)
        except Killed:
            if self.world.fs.is_over:
                raise
            self.start()
            if call not in (self.start, self.leave):
                # Others may have begun the task since it was found to be new.
                self._restarting(call)

    def leave(self) -> None:
        """End in good order."""
        run(self.workspace.close())
        if self.disk.open_files:
            raise Broken(f"{self.disk.open_files} descriptors are left open")

    # --- what was promised --------------------------------------------------------------------

    def _remember_state(self) -> None:
        seq, run_number, state = run(
            self.workspace._desk.ask(  # pyright: ignore[reportPrivateUsage]
                TASK, lambda fold: (fold.seq, fold.run, fold.state)
            )
        )
        if seq >= self.ledger.state[0]:
            self.ledger.state = (seq, state)
        self._run = run_number

    def _next(self) -> int:
        self._count += 1
        return self._count

    # --- saves --------------------------------------------------------------------------------

    def save(self) -> None:
        """Save a little."""
        self._save({self.name: self._next()})

    def save_pages(self) -> None:
        """Save more than fits on a page."""
        number = self._next()
        self._save({self.name: number, f"{self.name}-pad": f"{number} " * 2500})

    def _save(self, state: dict[str, Any]) -> None:
        saved = run(self.caller.save(TASK, state, goal="all of it"))
        if saved.conflicts:
            raise Broken(f"never lost between agents: {saved.conflicts}")
        self._remember_state()
        self.ledger.checkpoints[saved.checkpoint] = run(
            self.workspace.state_at(TASK, saved.checkpoint)
        )

    def append(self) -> None:
        """Add to a list that others add to as well."""
        item = f"{self.name}-{self._next()}"
        run(self.caller.save(TASK, append={"list": [item]}))
        self.ledger.appended.add(item)
        self._remember_state()

    # --- steps --------------------------------------------------------------------------------

    def mark(self) -> None:
        """Mark a step of one's own."""
        self._mark(f"{self.name}-{self._next()}")

    def mark_shared(self) -> None:
        """Mark a step that others mark as well."""
        self._mark(f"shared-{self.world.random.randrange(3)}")

    def _mark(self, step: str) -> None:
        marked = run(self.caller.mark(TASK, step, {"by": self.name, "n": self._next()}))
        self._remember_state()
        self.ledger.result((self._run, step), marked.result)

    def mark_many(self) -> None:
        """Mark steps of several callers that ask at once."""
        steps = [f"{self.name}-{self._next()}" for _ in range(4)]
        callers = [self.workspace.caller(step) for step in steps]
        for caller in callers:
            run(caller.load(TASK))
        calls = [
            caller.mark(TASK, step, {"of": step, "note": step * 40})
            for caller, step in zip(callers, steps, strict=True)
        ]
        marked = self.engine.together(TASK, calls)
        self._remember_state()
        for step, each in zip(steps, marked, strict=True):
            self.ledger.result((self._run, step), each.result)

    def begin(self) -> None:
        """Begin a step, and never say how it ended."""
        self._begin(f"{self.name}-begun-{self._next()}")

    def begin_shared(self) -> None:
        """Begin a step that others begin as well."""
        self._begin(f"claimed-{self.world.random.randrange(2)}")

    def _begin(self, step: str) -> bool:
        begun = run(self.caller.begin(TASK, step))
        self._remember_state()
        self.ledger.key((self._run, step), begun.idempotency_key, go=begun.go)
        return begun.go

    def begin_and_mark(self) -> None:
        """Begin a step and say that it is done."""
        step = f"{self.name}-whole-{self._next()}"
        if self._begin(step):
            self._mark(step)

    def spoil(self) -> None:
        """Work on a disk that forgets."""
        self.world.spoil()

    # --- the whole task -----------------------------------------------------------------------

    def render(self) -> None:
        """Publish the view, taking in first what people saved."""
        run(self.workspace.render(TASK))

    def load(self) -> None:
        """Look where the task stands: after all that anybody was told before."""
        before = max(self.ledger.records, default=0)
        shown = run(self.caller.load(TASK)).revision
        if shown < before:
            raise Broken(f"never lost between agents: {before} was told, and then {shown} shown")

    def finish(self) -> None:
        """End the run, and begin the next one."""
        # The next run begins with nothing.
        self.ledger.human = {0} | self.ledger.human
        self.ledger.appended.clear()
        run(self.caller.finish(TASK, "abandoned"))
        run(self.caller.load(TASK))
        self.save()
        self.ledger.human = {0}

    def prune(self) -> None:
        """Let go of all checkpoints but the newest."""
        self.ledger.may_rewrite = True
        self.ledger.going |= set(self.ledger.checkpoints)
        pruned = run(self.caller.prune(TASK, keep_last=1, older_than_hours=0))
        self.trashed += pruned.trash
        self.ledger.going -= {line.checkpoint for line in pruned.kept}
        self.ledger.version += 1

    def restore(self) -> None:
        """Bring back what was pruned last."""
        if not self.trashed:
            return
        name = self.trashed[-1]
        if name in [each.name for each in run(self.workspace.trash())]:
            brought_back = run(self.workspace.restore(name))
            self.ledger.going -= set(brought_back.checkpoints)
            self.ledger.version += 1
        self.trashed.pop()

    def fork(self) -> None:
        """Copy the task as it is to a new one."""
        new = f"copy-{self.name}-{self._next()}"
        copied = self._copied(TASK)
        # From now on it may be there, but only whole.
        self.ledger.copies[new] = (copied, False)
        self.ledger.version += 1
        run(self.workspace.fork(TASK, 0, new))
        self.ledger.copies[new] = (copied, True)
        self.ledger.version += 1

    def _copied(self, task: str) -> Copied:
        desk = self.workspace._desk  # pyright: ignore[reportPrivateUsage]
        return run(desk.ask(task, lambda fold: (fold.state, fold.count("done"))))

    def rewind(self) -> None:
        """Go back to the oldest checkpoint there is."""
        there = [number for number in self.ledger.checkpoints if number not in self.ledger.going]
        if not there:
            return
        number = min(there)
        then = self.ledger.checkpoints[number]
        self.ledger.human = {*self.ledger.human, then.get("human", 0)}
        self.ledger.appended &= set(then.get("list", ()))
        try:
            run(self.workspace.rewind(TASK, number))
        except Unavailable as error:
            raise Broken(
                f"durable: checkpoint {number} cannot be gone back to ({error})"
            ) from error
        self._remember_state()
        self.ledger.human = {then.get("human", 0)}
        run(self.caller.load(TASK))


class Person:
    """Somebody with an editor that flushes what it saves and the folder it saves into."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._count = 0

    def perform(self, operations: Sequence[str]) -> None:
        """Do one after the other."""
        self._disk = self.world.disk()
        for operation in operations:
            self._think()
            getattr(self, operation)()

    def _think(self) -> None:
        """Let others work for a while."""
        if self.world.fs.before_call:
            for _ in range(self.world.random.randrange(150)):
                self.world.fs.before_call()

    def edit(self) -> None:
        """Save under another name and rename, as careful editors do."""
        self._edit(self._renamed, in_place=False)

    def edit_in_place(self) -> None:
        """Cut the file off and write it anew, as most editors do."""
        self._edit(self._in_place, in_place=True)

    def _edit(self, put: Callable[[int, bytes], None], *, in_place: bool) -> None:
        if not isinstance(self.world.node(f"{TASK_PATH}/state.json"), File):
            return
        disk, ledger = self._disk, self.world.ledger
        folder = disk.open(TASK_PATH, FOLDER, at=None)
        try:
            fd = disk.open("state.json", os.O_RDONLY, at=folder)
            raw = disk.pread(fd, 1 << 20, 0)
            disk.close(fd)
            document = json.loads(raw)
        except (FileNotFoundError, ValueError):
            disk.close(folder)
            return
        self._count += 1
        value = 100 * (1 + self.world.fs.boot) + self._count
        document["state"]["human"] = value
        # Whoever cuts the file off has lost what was in it, taken in or not.
        ledger.human = set(range(value + 1)) if in_place else {*ledger.human, value}
        ledger.is_half_saved = in_place
        ledger.version += 1
        put(folder, json.dumps(document, indent=1).encode())
        disk.flush(folder)
        ledger.human, ledger.is_half_saved = {value}, False
        ledger.version += 1
        disk.close(folder)

    def _renamed(self, folder: int, raw: bytes) -> None:
        disk = self._disk
        name = f"state.json.{self._count}.tmp"
        fd = disk.open(name, os.O_RDWR | os.O_CREAT, at=folder)
        disk.write(fd, raw)
        disk.flush(fd)
        disk.close(fd)
        disk.rename(name, "state.json", at=folder)

    def _in_place(self, folder: int, raw: bytes) -> None:
        disk = self._disk
        fd = disk.open("state.json", os.O_RDWR | os.O_TRUNC, at=folder)
        disk.write(fd, raw)
        disk.flush(fd)
        disk.close(fd)


# --- stories ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Story:
    """Who does what. `kills` says at which change each agent is killed (0: never).

    What happens `before` is over and flushed when the power may first be cut.
    """

    agents: tuple[tuple[str, ...], ...]
    before: tuple[str, ...] = ()
    person: tuple[str, ...] = ()
    kills: tuple[int, ...] = ()
    segment_bytes: int = 4 << 20
    room_after_writes: int = 8

    @property
    def limits(self) -> Limits:
        """Sizes for it."""
        # Those who only wait for time to pass must not make those who wait for a lock give up.
        return Limits(
            segment_bytes=self.segment_bytes,
            room_after_writes=self.room_after_writes,
            lock_wait_seconds=1e9,
        )

    def begin(self, world: World) -> None:
        """Let happen what happened before."""
        if self.before:
            Agent(world, "p").perform(self.before)

    def play(self, world: World) -> None:
        """Let it happen, all of them at once."""
        kills = (*self.kills, *(0 for _ in self.agents))
        scripts: list[Callable[[], None]] = [
            lambda name=name, does=does, dies_at=dies_at: Agent(  # type: ignore[misc]
                world, name, dies_at=dies_at
            ).perform(does)
            for name, does, dies_at in zip("abc", self.agents, kills, strict=False)
        ]
        if self.person:
            scripts.append(lambda: Person(world).perform(self.person))
        if len(scripts) == 1:
            scripts[0]()
        else:
            Interleaving(world.fs, world.random).run(scripts)


ALONE = (
    *("save", "save_pages", "append", "mark", "mark_many", "begin", "begin_and_mark", "render"),
    *("prune", "restore", "rewind", "finish", "fork"),
)
_TOGETHER = (
    *("save", "save_pages", "append", "mark", "mark_many", "mark_shared", "begin_shared"),
    *("begin_and_mark", "render", "render", "load", "prune"),
)
_PERSON = ("edit", "edit", "edit_in_place")


def short_stories() -> list[Story]:
    """Give every story of one or two operations of one agent, after a little work."""
    before = ("save", "mark", "render")
    singles = [
        Story(agents=((*before, one),), room_after_writes=room) for one in ALONE for room in (8, 0)
    ]
    pairs = [
        Story(
            agents=((*before, "save", one, other, "render"),),
            segment_bytes=700,
            room_after_writes=number % 2,
        )
        for number, (one, other) in enumerate(product(ALONE, repeat=2))
    ]
    return [*singles, *pairs]


def random_story(random: Random) -> Story:
    """Make up a story of one to three agents, perhaps with a person and with kills."""
    count = random.choice((1, 1, 2, 2, 3))
    does = ALONE if count == 1 else _TOGETHER
    lengths = [random.randint(3, 8 if count == 1 else 5) for _ in range(count)]
    has_person = random.random() < 0.6
    person = tuple(random.choices(_PERSON, k=random.randint(1, 3))) if has_person else ()
    agents: list[tuple[str, ...]] = [
        ("save", "render", *random.choices(does, k=length)) for length in lengths
    ]
    if person and count == 1:
        # Who edits while somebody goes back to an old state cannot say what should be there.
        agents = [tuple(one for one in agents[0] if one not in ("rewind", "finish"))]
    if random.random() < 0.15:
        agents = [(*agents[0], "spoil", "mark"), *agents[1:]]
    return Story(
        agents=tuple(agents),
        before=random.choice(((), ("save", "render"), ("save", "mark", "render"))),
        person=person,
        kills=tuple(random.choice((0, 0, random.randint(1, 60))) for _ in range(count)),
        segment_bytes=random.choice((4 << 20, 2000, 600)),
        room_after_writes=random.choice((0, 1, 8)),
    )
