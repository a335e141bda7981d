"""Put other lines in the place of old ones: a segment at a time, each whole before and after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast_storage.core.errors import Unknown
from holdfast_storage.core.records import DamagedLine, Place, Record
from holdfast_storage.engines.folder import lines
from holdfast_storage.engines.folder.files import read_file, replace_file
from holdfast_storage.engines.folder.names import segment_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast_storage.core.records import Draft
    from holdfast_storage.engines.base import Trashed
    from holdfast_storage.engines.folder.disk import Disk
    from holdfast_storage.engines.folder.task_folder import TaskFolder
    from holdfast_storage.engines.folder.trash import Trash


class Rewriting:
    """Rewrites lines of one task's closed segments; the lock is held for one segment at a time."""

    def __init__(self, disk: Disk, task: TaskFolder, trash: Trash) -> None:
        self._disk, self._task, self._trash = disk, task, trash

    def rewrite(self, drafts: Mapping[int, Draft], label: str) -> str:
        """Put other records in the place of those with these seqs; the old segments go to the trash."""
        found = self._find(frozenset(drafts))
        sizes = {seq: size for seqs in found.values() for seq, size in seqs.items()}
        name = self._trash.begin(
            self._task.task, self._task.name, label, sizes, _checkpoints(drafts)
        )
        # The newest first: what leans on a save that goes is whole before the save is gone.
        for number in sorted(found, reverse=True):
            self._replace(number, lambda record: self._encoded(record, drafts), name)
        return name

    def restore(self, name: str) -> Trashed:
        """Put the old lines back, and all others stay as they are now; answers what is back.

        Whoever took them may have died before it had taken all that it meant to.
        """
        taken = self._trash.taken(name)
        back: set[Any] = set()
        for number, raw in self._trash.segments(name):
            old: dict[int, bytes] = {}
            for line, entry in self._lines(number, raw):
                if isinstance(entry, Record) and entry.seq in taken.seqs:
                    old[entry.seq] = line
                    back.add(entry.body.get("checkpoint"))
            self._replace(number, _LineOf(old))
        checkpoints = tuple(number for number in taken.trashed.checkpoints if number in back)
        return replace(taken.trashed, checkpoints=checkpoints)

    # --- finding ------------------------------------------------------------------------------

    def _find(self, seqs: frozenset[int]) -> dict[int, dict[int, int]]:
        """Say which segments hold these seqs, with the length of each line; none of them is open then."""
        with self._task.locked() as is_there:
            if not is_there:
                raise Unknown("task", self._task.task)
            self._task.catch_up()
            found = self._held_by_segment(seqs)
            missing = seqs.difference(*found.values())
            if missing:
                raise Unknown("record", str(min(missing)))
            if max(self._task.segments.numbers()) in found:
                self._task.journal.roll()
            return found

    def _held_by_segment(self, seqs: frozenset[int]) -> dict[int, dict[int, int]]:
        found: dict[int, dict[int, int]] = {}
        for number in self._task.segments.numbers():
            held = {
                entry.seq: len(line)
                for line, entry in self._lines(number, self._segment(number))
                if isinstance(entry, Record) and entry.seq in seqs
            }
            if held:
                found[number] = held
        return found

    def _segment(self, number: int) -> bytes:
        raw = read_file(self._disk, segment_name(number), at=self._task.segments.folder)
        # A closed one has no room behind its lines, unless it could not be given back.
        return raw.rstrip(lines.BLANKS)

    def _lines(self, number: int, raw: bytes) -> list[tuple[bytes, Record | DamagedLine]]:
        entries: list[tuple[bytes, Record | DamagedLine]] = []
        offset = 0
        for line in _split(raw):
            place = Place(number, offset, len(line.rstrip(b"\n")))
            entries.append((line, lines.decode(self._task.task, line.rstrip(b"\n"), place)))
            offset += len(line)
        return entries

    # --- replacing ----------------------------------------------------------------------------

    def _replace(
        self, number: int, instead: Callable[[Record], bytes | None], trash: str = ""
    ) -> None:
        with self._task.locked() as is_there:
            if not is_there:
                raise Unknown("task", self._task.task)
            raw = self._segment(number)
            if trash:
                self._trash.take(trash, segment_name(number), raw)
            rewritten = b"".join(
                (isinstance(entry, Record) and instead(entry)) or line
                for line, entry in self._lines(number, raw)
            )
            folder = self._task.segments.folder
            replace_file(self._disk, segment_name(number), rewritten, at=folder)
            self._task.segments.forget_first(number)

    def _encoded(self, record: Record, drafts: Mapping[int, Draft]) -> bytes | None:
        draft = drafts.get(record.seq)
        if draft is None:
            return None
        is_first = record.place.offset == 0
        return lines.encode_line(
            self._task.task, record.seq, draft, boot=record.boot, is_first=is_first
        )


class _LineOf:
    """Gives the old line of a record."""

    def __init__(self, old: Mapping[int, bytes]) -> None:
        self._old = old

    def __call__(self, record: Record) -> bytes | None:
        return self._old.get(record.seq)


def _split(raw: bytes) -> list[bytes]:
    """Split at newlines only; splitlines would also split at other bytes."""
    *whole, rest = raw.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _checkpoints(drafts: Mapping[int, Draft]) -> list[int]:
    numbers = (d.body.get("checkpoint") for d in drafts.values() if d.body.get("pruned"))
    return sorted(number for number in numbers if type(number) is int)
