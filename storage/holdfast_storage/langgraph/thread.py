"""What a task's records say of a graph's thread: its checkpoints, and what was written to each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast_storage.core.records import Entry, Place, Record
from holdfast_storage.core.strict_json import JsonObject

# Which checkpoint of which graph or subgraph: (namespace, checkpoint id).
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Save:
    """Where a numbered save lies, and which one it leans on (0: none)."""

    seq: int
    place: Place
    leans_on: int


@dataclass(frozen=True, slots=True)
class Put:
    """A checkpoint that a graph put."""

    key: Key
    number: int
    seq: int
    parent: str
    metadata: JsonObject

    @property
    def ns(self) -> str:
        return self.key[0]

    @property
    def id(self) -> str:
        return self.key[1]


@dataclass(frozen=True, slots=True)
class Written:
    """Where one node's writes lie, and which interrupts are among them."""

    seq: int
    place: Place
    task_id: str
    interrupts: tuple[str, ...] = ()


@dataclass(slots=True)
class Thread:
    """The open run of a task, as a graph sees it. Holds no values, only where they lie."""

    seq: int = 0
    last_id: str = ""  # of the record with that seq
    saves: dict[int, Save] = field(default_factory=dict[int, Save])
    puts: dict[Key, Put] = field(default_factory=dict[Key, Put])
    written: dict[Key, list[Written]] = field(default_factory=dict[Key, list[Written]])
    last_put: dict[str, Put] = field(default_factory=dict[str, Put])
    # An interrupt of a subgraph is written down by its parents as well: the deepest one's it is.
    owners: dict[str, str] = field(default_factory=dict[str, str])
    # Lines were moved about, so the places are not theirs any more.
    is_stale: bool = False

    def take(self, entries: Iterable[Entry]) -> None:
        """Take in what happened since; entries seen before are passed over."""
        for entry in entries:
            if isinstance(entry, Record) and entry.seq > self.seq:
                self._take(entry)
                self.seq, self.last_id = entry.seq, entry.id

    def _take(self, record: Record) -> None:
        if record.opens:
            self._start_fresh()
        if record.op == "save":
            self._take_save(record)
        elif record.op == "write" and "pruned" not in record.body:
            self._take_write(record)
        elif record.op in ("prune", "restore"):
            self.is_stale = True

    def _start_fresh(self) -> None:
        fresh = Thread()
        for name in Thread.__slots__:
            setattr(self, name, getattr(fresh, name))

    def _take_save(self, record: Record) -> None:
        body = record.body
        number: int = body["checkpoint"]
        if "pruned" in body:
            return
        self.saves[number] = Save(record.seq, record.place, body.get("from", 0))
        graph = body.get("graph")
        if graph is not None:
            key = (graph.get("ns", ""), graph["id"])
            put = Put(key, number, record.seq, graph.get("parent", ""), graph["metadata"])
            self.puts[key] = self.last_put[put.ns] = put

    def _take_write(self, record: Record) -> None:
        graph = record.body["graph"]
        ns: str = graph.get("ns", "")
        interrupts = tuple(graph.get("interrupts", ()))
        for interrupt in interrupts:
            self.owners[interrupt] = max(self.owners.get(interrupt, ""), ns, key=len)
        found = Written(record.seq, record.place, graph["task"], interrupts)
        self.written.setdefault((ns, graph["checkpoint"]), []).append(found)

    # --- reading it off -----------------------------------------------------------------------

    def latest(self, ns: str) -> Put | None:
        """Give the newest checkpoint, which is where to go on."""
        there = [put for put in self.puts.values() if put.ns == ns]
        return max(there, key=lambda put: put.id, default=None)

    def namespaces(self) -> list[str]:
        """List the graph and the subgraphs that put anything."""
        return list(dict.fromkeys(put.ns for put in self.puts.values()))

    def interrupts_of(self, key: Key, task_id: str) -> frozenset[str]:
        """Give the interrupts that a node of this checkpoint was stopped by."""
        return frozenset(
            interrupt
            for written in self.written.get(key, ())
            if written.task_id == task_id
            for interrupt in written.interrupts
        )

    def chain(self, number: int) -> Iterator[int]:
        """Give the saves a save leans on, itself first and the full one last."""
        while number in self.saves:
            yield number
            number = self.saves[number].leans_on

    def needed_for(self, put: Put) -> Iterator[Put]:
        """Give the ancestors whose writes a delta channel of this checkpoint is made from.

        The counters say how far back its last snapshot lies; who drops one of these loses the channel.
        """
        counters: dict[str, Any] = put.metadata.get("counters_since_delta_snapshot") or {}
        depth = max((steps for _, steps in counters.values()), default=0) + 1 if counters else 0
        ancestor = self.puts.get((put.ns, put.parent))
        while ancestor is not None and depth > 0:
            yield ancestor
            ancestor, depth = self.puts.get((put.ns, ancestor.parent)), depth - 1
