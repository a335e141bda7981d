"""What was promised to whom: everything that a power cut must not take back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture.direct_engine import DirectEngine

from holdfast_storage.core.records import DamagedLine, Draft, Entry, Record
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.engines.base import Operation
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.limits import Limits

Said = tuple[str, str, str, JsonObject]
Step = tuple[int, str]
Copied = tuple[JsonObject, int]  # the state, and how many steps are done


class Broken(Exception):
    """A promise was broken."""


def said(record: Record | Draft) -> Said:
    """Give what a record says, wherever it lies."""
    return record.id, record.op, record.by, dict(record.body)


@dataclass(slots=True)
class Ledger:
    """Kept beside a workload while it runs."""

    task: str = "t"
    # Rises with every promise: the same files after it are another case.
    version: int = 0
    records: dict[int, Said] = field(default_factory=dict[int, Said])
    drafted: dict[str, Said] = field(default_factory=dict[str, Said])
    state: tuple[int, JsonObject] = (0, {})
    results: dict[Step, Any] = field(default_factory=dict[Step, Any])
    keys: dict[Step, str] = field(default_factory=dict[Step, str])
    # Steps that somebody was told to go and do.
    sent: set[Step] = field(default_factory=set[Step])
    appended: set[str] = field(default_factory=set[str])
    checkpoints: dict[int, JsonObject] = field(default_factory=dict[int, JsonObject])
    # Checkpoints that prune may have taken; the trash has them.
    going: set[int] = field(default_factory=set[int])
    may_rewrite: bool = False
    # What a person may have made of the value that only people write.
    human: set[int] = field(default_factory=lambda: {0})
    is_half_saved: bool = False
    # Ends of segments that could not be believed: taken away, and kept.
    quarantined: set[bytes] = field(default_factory=set[bytes])
    spoiled: dict[int, str] = field(default_factory=dict[int, str])
    # Copies of the task under other names: what is in each, and whether it was answered for.
    copies: dict[str, tuple[Copied, bool]] = field(default_factory=dict[str, tuple[Copied, bool]])

    def copy(self) -> Ledger:
        """Give one of its own to a machine that starts again."""
        fields = {each: copy(getattr(self, each)) for each in self.__slots__}
        return Ledger(**fields)

    def promise(self, entry: Entry) -> None:
        """Remember an entry that an answer rested on."""
        if isinstance(entry, Record) and entry.seq not in self.records:
            self.records[entry.seq] = said(entry)
            self.version += 1

    def result(self, step: Step, result: Any) -> None:
        """Remember a result that was told; there is only ever one."""
        known = self.results.setdefault(step, result)
        if known != result:
            raise Broken(f"idempotent: {step} was answered {known} and then {result}")
        self.version += 1

    def key(self, step: Step, key: str, *, go: bool) -> None:
        """Remember an idempotency key, and that its step may have been done."""
        if key and self.keys.setdefault(step, key) != key:
            raise Broken(f"idempotent: the key of {step} changed")
        if go and step in self.sent:
            raise Broken(f"no repeated side effect: two were told to do {step}")
        if go:
            self.sent.add(step)
        self.version += 1


class _Watched:
    """An operation whose decision is written down."""

    def __init__(self, operation: Operation, ledger: Ledger) -> None:
        self._operation, self._ledger = operation, ledger
        self.shown: list[Entry] = []

    @property
    def known(self) -> int:
        return self._operation.known

    def decide(self, entries: Sequence[Entry]) -> Draft | None:
        self.shown += entries
        draft = self._operation.decide(entries)
        if draft is not None:
            self._ledger.drafted[draft.id] = said(draft)
        return draft

    def accept(self, record: Record | None) -> None:
        for entry in (*self.shown, record):
            if entry is not None:
                self._ledger.promise(entry)
        self._operation.accept(record)


class WatchedEngine(DirectEngine):
    """Writes down everything that an answer rests on."""

    def __init__(self, root: Path, disk: Disk, limits: Limits, ledger: Ledger) -> None:
        super().__init__(root, disk, limits)
        self._ledger = ledger

    async def commit(self, task: str, operation: Operation, *, is_light: bool = False) -> None:
        await super().commit(task, self._watched(task, operation), is_light=is_light)

    def answers_at_once(self, task: str, operation: Operation) -> bool:
        return super().answers_at_once(task, self._watched(task, operation))

    def _watched(self, task: str, operation: Operation) -> Operation:
        is_it = task == self._ledger.task
        return _Watched(operation, self._ledger) if is_it else operation

    async def read(self, task: str, after: int) -> AsyncIterator[list[Entry]]:
        async for portion in super().read(task, after):
            if task == self._ledger.task:
                for entry in portion:
                    self._ledger.promise(entry)
            yield portion


def damaged(entries: Sequence[Entry], but: Callable[[int | None], bool]) -> list[DamagedLine]:
    """Give the entries that cannot be believed, but for those that are known not to be."""
    found = [entry for entry in entries if isinstance(entry, DamagedLine)]
    return [entry for entry in found if not but(entry.seq)]
