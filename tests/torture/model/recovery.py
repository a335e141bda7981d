"""After the power cut: open what is left with the real engine, hold it against what was promised, go on."""

from __future__ import annotations

from random import Random

from tests.torture.model.actors import TASK, Agent, edits_in
from tests.torture.model.disk import World
from tests.torture.model.images import Image, images
from tests.torture.model.ledger import (
    ANSWERS,
    ATOMIC,
    BROKEN_FILES,
    DURABLE,
    EDITS,
    NEVER_EMPTY,
    Broken,
    Ledger,
)
from tests.torture.model.nodes import Tree
from tests.torture.model.schedule import Killed

from holdfast_storage.core import strict_json
from holdfast_storage.core.advance import advance
from holdfast_storage.core.errors import Unreadable
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.records import Entry, Record
from holdfast_storage.engines.folder import heads
from holdfast_storage.engines.folder.names import is_leftover


class Recovery:
    """Recovers from images, counting them."""

    def __init__(self, random: Random, *, again: float = 0.0, **times: object) -> None:
        self._random, self._again, self._times = random, again, times
        self.states = 0

    def check(self, image: Image, ledger: Ledger, now_ns: int) -> None:
        """Raise Broken if a promise was not kept."""
        self.states += 1
        self._check_saves(image, ledger)
        world = World.after(image.tree, self._random, now_ns)
        # What comes to be after the cut is promised to others than those before it.
        ledger = ledger.copy()
        try:
            self._recover(world, image, ledger)
        except (Broken, Killed):
            raise
        except Exception as error:
            raise Broken(ANSWERS, f"recovery: {type(error).__name__}: {error}") from error

    # --- before anybody looks -----------------------------------------------------------------

    def _check_saves(self, image: Image, ledger: Ledger) -> None:
        """What a person saved lies somewhere, as a file or as a record."""
        for person, save in ledger.saves.items():
            if not (save.is_flushed or image.is_whole):
                continue
            if save.raw not in _files(image.tree) and not _mentions(image.tree, save.digest):
                raise Broken(EDITS, f"what {person} saved is neither a file nor in the journal")

    # --- the first one to come back -----------------------------------------------------------

    def _recover(self, world: World, image: Image, ledger: Ledger) -> None:
        agent = self._agent(world, ledger, f"after-{len(ledger.attempted)}")
        if ledger.workspace_id and agent.workspace.workspace_id != ledger.workspace_id:
            raise Broken(DURABLE, "the workspace has another id now")
        entries = self._read(agent, ledger, image)
        self._check_listed(agent, entries)
        for kind in ("conflicts", "quarantine", "checkpoints"):
            kept = agent.folder.kept(kind)
            for (its_kind, name), raw in ledger.kept.items():
                if its_kind == kind and kept.get(name) not in raw:
                    raise Broken(DURABLE, f"{kind}/{name} was kept and is not there")
        self._check_trash(agent, ledger)
        self._go_on(agent, world, image, ledger, entries)

    def _agent(self, world: World, ledger: Ledger, name: str) -> Agent:
        times: dict[str, object] = {"missing_view_seconds": 0.0, **self._times}
        return Agent(world, ledger, name, boot=f"boot {name}", **times)

    def _read(self, agent: Agent, ledger: Ledger, image: Image) -> list[Entry]:
        entries = [entry for portion in agent.folder.read(0) for entry in portion]
        ledger.check_entries(entries, is_garbled=image.is_garbled)
        fold = Fold(TASK)
        advance(fold, entries)
        if fold.is_damaged and not image.is_garbled:
            raise Broken(ATOMIC, f"damaged: {fold.problems}")
        for entry in entries:
            is_done = (
                isinstance(entry, Record) and entry.op == "done" and entry.seq > fold.opened_seq
            )
            if is_done and fold.steps[entry.body["step"]].status != "done":
                raise Broken(DURABLE, f"step {entry.body['step']} is not done any more")
        return entries

    def _check_listed(self, agent: Agent, entries: list[Entry]) -> None:
        tasks = agent.workspace.tasks_folder()
        listed = heads.listed(agent.disk, tasks, "", 10)[0] if tasks is not None else []
        problems = [head.problem for head in listed if head.problem]
        if problems:
            raise Broken(NEVER_EMPTY, f"listed with a problem: {problems[0]}")
        if entries and [head.task for head in listed] != [TASK]:
            raise Broken(NEVER_EMPTY, "the task is not listed")
        for head in listed:
            revision = (head.summary or {}).get("revision")
            if revision is not None and revision != max(entry.seq or 0 for entry in entries):
                raise Broken(ATOMIC, "the listing shows a summary of another revision")

    def _check_trash(self, agent: Agent, ledger: Ledger) -> None:
        names = {one.name for one in agent.trash.listed()}
        for name in ledger.trash:
            if name not in names:
                raise Broken(DURABLE, "what prune took is not in the trash")

    # --- and goes on --------------------------------------------------------------------------

    def _go_on(
        self, agent: Agent, world: World, image: Image, ledger: Ledger, entries: list[Entry]
    ) -> None:
        agent.learn(entries)
        self._see_edits(agent, world, image, ledger)
        agent.commit()
        if name := next(iter(ledger.trash), ""):
            agent.restore(name)
        agent.render()
        agent.check_released()
        agent.close()
        after = Image(_tree_of(world, self._random), 0, image.is_garbled, is_whole=True)
        self._check_saves(after, ledger)
        self._read_again(world, image, ledger)
        if self._random.random() < self._again:
            self._cut_again(world, image, ledger)

    def _see_edits(self, agent: Agent, world: World, image: Image, ledger: Ledger) -> None:
        """What a person saved and can be read is taken in; what cannot stays where it is."""
        before = _view(image.tree)
        is_broken = before is not None and _is_broken(before)
        agent.take_in()
        if is_broken and _view(_tree_of(world, self._random)) != before:
            raise Broken(BROKEN_FILES, "a view that does not parse was not left as it was")
        found = edits_in(agent.read(0))
        for person, save in ledger.saves.items():
            lies_in = _tree_of(world, self._random)
            if (save.is_flushed or image.is_whole) and save.digest not in found:
                if save.raw not in _files(lies_in):
                    raise Broken(EDITS, f"what {person} saved was lost while it was taken in")
                if save.raw == before:
                    raise Broken(EDITS, f"what {person} saved was not taken in")

    def _read_again(self, world: World, image: Image, ledger: Ledger) -> None:
        again = self._agent(world, ledger, "again")
        self._read(again, ledger, image)
        again.close()

    def _cut_again(self, world: World, image: Image, ledger: Ledger) -> None:
        """Cut the power once more, just after somebody went on."""
        every = list(images(world.root, self._random, most=4))
        second = self._random.choice(every)
        second.is_garbled |= image.is_garbled
        self._random, first = Random(self._random.random()), self._random
        again, self._again = self._again, 0.0
        try:
            self.check(second, ledger, world.now_ns)
        finally:
            self._random, self._again = first, again


def _tree_of(world: World, random: Random) -> Tree:
    return next(images(world.root, random, most=1)).tree


def _task(tree: Tree) -> Tree:
    for name in ("project", ".holdfast", "tasks", TASK):
        tree = tree.folders.get(name, Tree())
    return tree


def _view(tree: Tree) -> bytes | None:
    found = _task(tree).files.get("state.json")
    return found.data if found else None


def _is_broken(raw: bytes) -> bool:
    try:
        strict_json.parse_object(raw)
    except Unreadable:
        return True
    return False


def _files(tree: Tree) -> set[bytes]:
    """Give what lies where a person's work may lie."""
    task = _task(tree)
    places = [
        {
            name: file
            for name, file in task.files.items()
            if name == "state.json" or is_leftover(name)
        }
    ]
    places += [task.folders.get(name, Tree()).files for name in ("conflicts", "quarantine")]
    return {file.data for place in places for file in place.values()}


def _mentions(tree: Tree, digest: str) -> bool:
    journal = _task(tree).folders.get("journal", Tree())
    return any(digest.encode() in file.data for file in journal.files.values())
