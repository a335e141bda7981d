"""What was promised to whom: kept by the harness, apart from the disk, and held against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from holdfast_storage.core import strict_json
from holdfast_storage.core.records import DamagedLine, Draft, Entry, Record


class Broken(Exception):
    """A promise that was not kept."""

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise, self.what = promise, what


# The promises of DESIGN section 3, by number, as far as a disk can break them.
DURABLE = "P1 durable"
ATOMIC = "P2 atomic"
SHARED = "P3 never lost between agents"
EDITS = "P6 people's edits survive"
BROKEN_FILES = "P7 broken files cost nothing"
NEVER_EMPTY = "P8 broken is never empty"
ANSWERS = "the answer is a typed one"
RELEASED = "locks and descriptors are let go"


def print_of(record: Record | Draft) -> str:
    """Give a fingerprint of what a record says, whatever its place."""
    return sha256(
        strict_json.encode(
            [record.id, record.at, record.by, record.op, dict(record.body), record.opens]
        )
    ).hexdigest()[:16]


@dataclass(slots=True)
class PersonsSave:
    """A file that a person finished saving."""

    raw: bytes
    # The editor flushed it and its folder: it survives a power cut, not only a kill.
    is_flushed: bool

    @property
    def digest(self) -> str:
        return sha256(self.raw).hexdigest()


@dataclass(slots=True)
class Ledger:
    """Everything that somebody was told, or gave us to keep."""

    # seq → what may stand there: one, or two while it is being rewritten.
    acknowledged: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    # id → what a record of that id may say.
    attempted: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    # kind and name → what may lie there: one, or two while it is being replaced.
    kept: dict[tuple[str, str], list[bytes]] = field(
        default_factory=dict[tuple[str, str], list[bytes]]
    )
    saves: dict[str, PersonsSave] = field(default_factory=dict[str, PersonsSave])
    # A name in the trash → what restoring it brings back.
    trash: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    workspace_id: str = ""
    version: int = 0

    def copy(self) -> Ledger:
        """Give one of its own to whoever comes after a power cut."""
        return Ledger(
            {seq: set(said) for seq, said in self.acknowledged.items()},
            {id: set(said) for id, said in self.attempted.items()},
            dict(self.kept),
            dict(self.saves),
            dict(self.trash),
            self.workspace_id,
            self.version,
        )

    def attempt(self, draft: Draft) -> None:
        """Note what is about to be tried."""
        self.attempted.setdefault(draft.id, set()).add(print_of(draft))

    def acknowledge(self, records: Iterable[Entry | None]) -> None:
        """Note what somebody was told is there."""
        for record in records:
            if isinstance(record, Record) and record.seq not in self.acknowledged:
                self.acknowledged[record.seq] = {print_of(record)}
                self.version += 1

    def acknowledge_workspace(self, workspace_id: str) -> None:
        """Note the id by which idempotency keys are made."""
        if self.workspace_id and self.workspace_id != workspace_id:
            raise Broken(SHARED, f"two workspace ids: {self.workspace_id} and {workspace_id}")
        if not self.workspace_id:
            self.workspace_id = workspace_id
            self.version += 1

    def begin_rewrite(self, drafts: Mapping[int, Draft]) -> None:
        """Note that other records may stand there from now on."""
        for seq, draft in drafts.items():
            self.attempt(draft)
            self.acknowledged.setdefault(seq, set()).add(print_of(draft))
        self.version += 1

    def end_rewrite(self, said: Mapping[int, str]) -> None:
        """Note that they do."""
        for seq, one in said.items():
            self.acknowledged[seq] = {one}
        self.version += 1

    def begin_keep(self, kind: str, name: str, raw: bytes) -> None:
        """Note that a rendering may lie there from now on in the place of another."""
        if (kind, name) in self.kept:
            self.kept[kind, name] = [*self.kept[kind, name], raw]
            self.version += 1

    def keep(self, kind: str, name: str, raw: bytes) -> None:
        """Note a file that is kept."""
        self.kept[kind, name] = [raw]
        self.version += 1

    def save(self, person: str, raw: bytes, *, is_flushed: bool) -> None:
        """Note what a person finished saving; it takes the place of what they saved before."""
        self.saves[person] = PersonsSave(raw, is_flushed)
        self.version += 1

    def begin_save(self, person: str) -> None:
        """Note that a person is about to overwrite what they saved."""
        if self.saves.pop(person, None):
            self.version += 1

    # --- held against what is there -----------------------------------------------------------

    def check_entries(self, entries: Sequence[Entry], *, is_garbled: bool) -> None:
        """See that everything acknowledged is there, nothing is there in part, and all is in order."""
        records = {entry.seq: entry for entry in entries if isinstance(entry, Record)}
        for seq, may_say in self.acknowledged.items():
            found = records.get(seq)
            if found is None:
                raise Broken(
                    DURABLE if entries else NEVER_EMPTY,
                    f"record {seq} was acknowledged and is not there; there are {_shown(entries)}",
                )
            if print_of(found) not in may_say:
                raise Broken(SHARED, f"record {seq} was acknowledged and another stands there")
        self._check_order(entries, is_garbled=is_garbled)
        self._check_records(entries)

    def _check_order(self, entries: Sequence[Entry], *, is_garbled: bool) -> None:
        seqs = [entry.seq for entry in entries if isinstance(entry, Record)]
        if len(seqs) != len(set(seqs)):
            raise Broken(SHARED, f"the same seq twice: {_shown(entries)}")
        damaged = [entry for entry in entries if isinstance(entry, DamagedLine)]
        if damaged and not is_garbled:
            raise Broken(ATOMIC, f"a line that cannot be believed: {damaged[0]}")
        if seqs != sorted(seqs) or (not is_garbled and seqs != list(range(1, len(seqs) + 1))):
            raise Broken(ATOMIC, f"out of order or with a gap: {_shown(entries)}")

    def _check_records(self, entries: Sequence[Entry]) -> None:
        ids: set[str] = set()
        for entry in entries:
            if not isinstance(entry, Record):
                continue
            if entry.id in ids:
                raise Broken(ATOMIC, f"the operation {entry.id} is there twice")
            ids.add(entry.id)
            if print_of(entry) not in self.attempted.get(entry.id, ()):
                raise Broken(ATOMIC, f"record {entry.seq} ({entry.id}) is not what anybody wrote")


def _shown(entries: Sequence[Entry]) -> str:
    return ", ".join(
        f"{entry.seq}:{entry.id}" if isinstance(entry, Record) else f"{entry.seq}:?"
        for entry in entries
    )
