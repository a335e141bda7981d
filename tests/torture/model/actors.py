"""Those who use a workspace in the model: agents through the real engine, people through an editor."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.torture.model.disk import ModelDisk, World
from tests.torture.model.ledger import ANSWERS, RELEASED, Broken, Ledger, print_of
from tests.torture.model.nodes import Folder, Node

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import Busy, HoldfastError, NotSaved, Unreadable
from holdfast_storage.core.records import DamagedLine, Draft, Entry, Record
from holdfast_storage.core.seal import embedded_revision, is_sealed, seal
from holdfast_storage.core.times import stamp
from holdfast_storage.engines.base import Kind, Sighting
from holdfast_storage.engines.folder import workspace_folder
from holdfast_storage.engines.folder.limits import Limits
from holdfast_storage.engines.folder.task_folder import TaskFolder
from holdfast_storage.engines.folder.trash import Trash
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

ROOT = Path("/project/.holdfast")
TASK = "t"
TASK_PATH = "/project/.holdfast/tasks/t"
VIEW_PATH = f"{TASK_PATH}/state.json"

# The page that is larger than one of the disk's.
LARGE = 10_000

Refusal = tuple[type[HoldfastError], ...]
MAY_FAIL: Refusal = (NotSaved, Busy)


class Operation:
    """One record that somebody wants written, once."""

    def __init__(self, agent: Agent, draft: Draft) -> None:
        self._agent, self._draft, self.known = agent, draft, agent.known
        self._shown: list[Entry] = []
        self.record: Record | None = None
        self.is_accepted = False

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        """Choose the draft, unless it is there already; a task's first record opens its run."""
        self._shown = list(entries)
        agent, draft = self._agent, self._draft
        if draft.op == "edit" and draft.body["digest"] in edits_in(entries):
            return None
        if not entries and not self.known:
            draft = Draft(draft.id, draft.at, draft.by, draft.op, draft.body, opens=True)
        agent.ledger.attempt(draft)
        return draft

    def accept(self, record: Record | None) -> None:
        """Be told that it is durable, and with it all that was shown."""
        self.record, self.is_accepted = record, True
        self._agent.learn([*self._shown, *([record] if record else [])])
        self._agent.ledger.acknowledge_workspace(self._agent.workspace.workspace_id)


class Agent:
    """One process with a task open."""

    def __init__(
        self, world: World, ledger: Ledger, name: str, *, boot: str = "first boot", **times: Any
    ) -> None:
        # Each process thinks up its own id for a workspace that is not there yet.
        vars(workspace_folder)["_pending_ids"].clear()
        self.world, self.ledger, self.name = world, ledger, name
        self.disk = ModelDisk(world, name, boot)
        self.workspace = WorkspaceFolder(self.disk, ROOT, schema=b"{}\n", readme="A folder.\n")
        limits = Limits(**{"settle_attempts": 4, **times})
        self.folder = TaskFolder(self.disk, self.workspace, TASK, limits, self.disk.boot_id())
        self.trash = Trash(self.disk, self.workspace)
        self.known = 0
        self._seen: dict[int, Entry] = {}
        self._count = 0
        self.refusals: list[HoldfastError] = []
        self.may_fail: Refusal = ()

    def learn(self, entries: Sequence[Entry]) -> None:
        """Remember entries, which are promised from now on."""
        self.ledger.acknowledge(entries)
        for entry in entries:
            if entry.seq is not None:
                self._seen[entry.seq] = entry
                self.known = max(self.known, entry.seq)

    # --- what it does -------------------------------------------------------------------------

    def commit(
        self, count: int = 1, *, size: int = 40, op: str = "done", opens: bool = False
    ) -> list[Record]:
        """Commit a batch; gives the records that were accepted."""
        return self.commit_drafts([self.draft(op, size, opens=opens) for _ in range(count)])

    def draft(self, op: str = "done", size: int = 40, *, opens: bool = False, **more: Any) -> Draft:
        """Think of something to record."""
        self._count += 1
        id = f"{self.name}-{self._count}"
        body: dict[str, Any] = {"step": id, "outcome": "done", "result": "x" * size}
        if op == "save":
            body = {"run": 1, "checkpoint": self._count, "state": {"text": "s" * size}}
        if op == "edit":
            body = {}
        at = stamp(datetime.fromtimestamp(self.world.now_ns / 1e9, UTC))
        return Draft(id, at, self.name, op, {**body, **more}, opens)

    def commit_drafts(self, drafts: Sequence[Draft]) -> list[Record]:
        """Commit these."""
        operations = self._committed(drafts)
        return [operation.record for operation in operations if operation.record]

    def _committed(self, drafts: Sequence[Draft]) -> list[Operation]:
        operations = [Operation(self, draft) for draft in drafts]
        outcomes = self.folder.commit(operations)
        for operation, outcome in zip(operations, outcomes, strict=True):
            if outcome is not None:
                self._refused(outcome)
            elif not operation.is_accepted:
                raise Broken(ANSWERS, "an operation was neither accepted nor refused")
        return operations

    def _refused(self, outcome: BaseException) -> None:
        if not isinstance(outcome, HoldfastError):
            raise Broken(ANSWERS, f"{type(outcome).__name__}: {outcome}") from outcome
        if not isinstance(outcome, self.may_fail):
            raise Broken(ANSWERS, f"{type(outcome).__name__}: {outcome}") from outcome
        self.refusals.append(outcome)

    def attempt(self, work: Callable[[], object]) -> bool:
        """Do something that may be refused; False if it was."""
        try:
            work()
        except (HoldfastError, OSError) as outcome:
            self._refused(outcome)
            return False
        return True

    def read(self, after: int | None = None) -> list[Entry]:
        """Read what is new to it, or all; what it is given is promised from now on."""
        found: list[Entry] = []
        for portion in self.folder.read(self.known if after is None else after):
            self.ledger.acknowledge(portion)
            found += portion
        for entry in found:
            if entry.seq is not None:
                self._seen[entry.seq] = entry
                self.known = max(self.known, entry.seq)
        return found

    def keep(self, kind: Kind, name: str, raw: bytes) -> None:
        """Keep a file."""
        if kind == "checkpoints":
            self.ledger.begin_keep(kind, name, raw)
        path = self.folder.keep(kind, name, raw)
        self.ledger.keep(kind, path.rsplit("/", 1)[1], raw)

    def note_head(self) -> None:
        """Note a summary for listings."""
        self.folder.note_head(self.known, {"revision": self.known})

    # --- prune --------------------------------------------------------------------------------

    def rewrite(self, count: int) -> str:
        """Put shorter records in the place of the newest saves; answers the name in the trash."""
        saves = [one for one in self._seen.values() if isinstance(one, Record) and one.op == "save"]
        chosen = [one for one in saves if "pruned" not in one.body][:count]
        if not chosen:
            return ""
        drafts = {
            one.seq: Draft(one.id, one.at, one.by, one.op, _pruned(one.body), one.opens)
            for one in chosen
        }
        old = {one.seq: print_of(one) for one in chosen}
        self.ledger.begin_rewrite(drafts)
        name = self.folder.rewrite(drafts, "prune", self.trash)
        self.ledger.trash[name] = old
        self.ledger.end_rewrite({seq: print_of(draft) for seq, draft in drafts.items()})
        for seq, draft in drafts.items():
            before = self._seen[seq]
            assert isinstance(before, Record)
            self._seen[seq] = Record(
                seq, draft.id, draft.at, draft.by, draft.op, draft.body, draft.opens, before.boot
            )
        return name

    def restore(self, name: str) -> None:
        """Bring them back."""
        old = self.ledger.trash.pop(name)
        for seq, said in old.items():
            self.ledger.acknowledged[seq].add(said)
        self.ledger.version += 1
        self.folder.restore(name, self.trash)
        self.ledger.end_rewrite(old)
        self.trash.remove(name)

    # --- the view, as `people` goes about it --------------------------------------------------

    def take_in(self) -> bool:
        """Record what people saved; False if the view is broken."""
        is_good = True
        for sighting in self.folder.view():
            is_good &= self._take_in_one(sighting) or sighting.name != "state.json"
            self.folder.seen(sighting)
        return is_good

    def _take_in_one(self, sighting: Sighting) -> bool:
        try:
            document = strict_json.parse_object(sighting.raw)
        except Unreadable:
            return False
        if is_sealed(sighting.raw):
            return True
        digest = sha256(sighting.raw).hexdigest()
        self.read()
        if digest in edits_in(list(self._seen.values())):
            return True
        body = {"base": embedded_revision(document) or 0, "digest": digest}
        [taken] = self._committed([self.draft("edit", mtime_ns=sighting.mtime_ns, **body)])
        if not taken.is_accepted:
            raise NotSaved("the edit was not taken in")
        return True

    def render(self) -> bool:
        """Publish a view; False if something stayed in the way."""
        for _ in range(3):
            if self.folder.may_have_changed() and not self.take_in():
                return False
            self.read()
            if self.folder.swap_view(self.rendered(), self.known):
                return True
            if not self.take_in():
                return False
        return False

    def rendered(self) -> bytes:
        """Give the view as it should be now."""
        document = {"task": TASK, "state": {"known": self.known}}
        return seal({**document, "read_only": {"revision": self.known}})

    # --- the end ------------------------------------------------------------------------------

    def check_released(self) -> None:
        """See that no lock of the task's is held between two operations."""
        for held in self.world.locks_of(self.disk.process):
            if not _is_sign_of_life(self, held.node.number):
                raise Broken(RELEASED, f"{self.name} holds a lock after its operation")

    def close(self) -> None:
        """Leave as a process does that ends well, with nothing left open."""
        self.folder.close()
        self.workspace.close()
        if left := self.world.held_by(self.disk.process):
            raise Broken(RELEASED, f"{self.name} left {len(left)} descriptors open")


def _is_sign_of_life(agent: Agent, number: int) -> bool:
    sign = agent.workspace.alive
    fd: int = vars(sign)["_fd"]
    held = agent.world.descriptors.get(fd)
    return held is not None and held.node.number == number


def _pruned(body: Mapping[str, Any]) -> dict[str, Any]:
    return {**{key: value for key, value in body.items() if key != "state"}, "pruned": True}


def edits_in(entries: Sequence[Entry]) -> set[str]:
    """Give the digests of the saves that were taken in."""
    return {
        entry.body["digest"]
        for entry in entries
        if not isinstance(entry, DamagedLine) and entry.op == "edit"
    }


class Person:
    """Somebody with an editor, who changes the view by hand."""

    def __init__(self, world: World, ledger: Ledger, name: str = "person") -> None:
        self.world, self.ledger, self.name = world, ledger, name
        self.disk = ModelDisk(world, name)
        self._count = 0

    def text(self, size: int = 20) -> bytes:
        """Read the view and think of a change to it."""
        self._count += 1
        document: dict[str, Any] = {"task": TASK}
        try:
            fd = self.disk.open(VIEW_PATH, os.O_RDONLY, at=None)
        except FileNotFoundError:
            pass
        else:
            raw = self.disk.pread(fd, 1 << 20, 0)
            self.disk.close(fd)
            try:
                document = json.loads(raw)
            except ValueError:
                document = {"task": TASK}
        document["by_hand"] = f"{self.name} {self._count} " + "h" * size
        return json.dumps(document, indent=2).encode() + b"\n"

    def save_by_rename(self, *, is_flushed: bool = True, size: int = 20) -> None:
        """Save as vim does: a new file takes the place of the old one."""
        raw = self.text(size)
        try:
            folder = self.disk.open(TASK_PATH, os.O_RDONLY | os.O_DIRECTORY, at=None)
        except FileNotFoundError:
            return
        fd = self.disk.open("state.json~", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, at=folder)
        self.disk.write(fd, raw)
        if is_flushed:
            self.disk.flush(fd)
        self.disk.close(fd)
        self.ledger.begin_save(self.name)
        self.disk.rename("state.json~", "state.json", at=folder)
        if is_flushed:
            self.disk.flush(folder)
        self.ledger.save(self.name, raw, is_flushed=is_flushed)
        self.disk.close(folder)

    def save_in_place(
        self, *, is_flushed: bool = True, size: int = 20, has_name: bool = False
    ) -> None:
        """Save as VS Code does: cut the file to nothing, then write it.

        It flushes the file and not the folder, so the save is only as durable as the file's name;
        `has_name` says that the name must be, because the view was published before.
        """
        raw = self.text(size)
        self.ledger.begin_save(self.name)
        try:
            fd = self.disk.open(VIEW_PATH, os.O_WRONLY | os.O_TRUNC, at=None)
        except FileNotFoundError:
            return
        step = len(raw) // 2 + 1
        for start in range(0, len(raw), step):
            self.disk.write(fd, raw[start : start + step])
        if is_flushed:
            self.disk.flush(fd)
        lasts = is_flushed and (has_name or self._has_durable_name(fd))
        self.ledger.save(self.name, raw, is_flushed=lasts)
        self.disk.close(fd)

    def _has_durable_name(self, fd: int) -> bool:
        node = self.world.descriptors[fd].node
        folder: Node = self.world.root
        for name in TASK_PATH.strip("/").split("/"):
            assert isinstance(folder, Folder)
            folder = folder.entries[name]
        assert isinstance(folder, Folder)
        return any(one is node for one in folder.durable.values())
