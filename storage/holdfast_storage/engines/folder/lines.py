"""Turn the bytes of segments into entries, each with the seq it has or must have had."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast_storage.core.errors import Damaged
from holdfast_storage.core.records import DamagedLine, Draft, Entry, Place, Record, decode_line
from holdfast_storage.core.records import encode_line as encode
from holdfast_storage.core.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast_storage.engines.folder.disk import Disk

Numbered = tuple[int, Entry]

_BLOCK = 1 << 18
# What room behind the last line is made of. No line begins or ends with it, and none holds zeros.
ROOM = b" "
# After a power cut zeros may be in the place of what was made longer and not written.
BLANKS = ROOM + b"\0"
# A damaged line may show any number where its seq was. One this far off was not written by us.
_FURTHEST = 1_000_000


def encode_line(task: str, seq: int, draft: Draft, *, boot: str, is_first: bool) -> bytes:
    """Write a record as a line. The first of a segment also says whose journal this is."""
    if "task" in draft.body:
        raise ValueError("the key task in a record's body belongs to the engine")
    if is_first:
        draft = replace(draft, body={"task": task, **draft.body})
    return encode(seq, draft, boot)


def decode(task: str, raw: bytes, place: Place) -> Entry:
    """Read a line; the first of a segment must be of this task's journal."""
    entry = decode_line(raw, place)
    if place.offset or isinstance(entry, DamagedLine):
        return entry
    body = dict(entry.body)
    found = body.pop("task", task)
    if found != task:
        raise Damaged(f"the journal of {task}", f"it belongs to the task {str(found)[:80]!a}")
    return replace(entry, body=body)


def as_draft(record: Record) -> Draft:
    """Give what a record was before it had a place."""
    # What it was decided on with is at hand as bytes, if it was not read from the disk.
    encoded = {
        name: value.raw for name, value in record.body.items() if isinstance(value, Snapshot)
    }
    return Draft(record.id, record.at, record.by, record.op, record.body, record.opens, encoded)


def lines_of(disk: Disk, fd: int, start: int, end: int) -> Iterator[list[tuple[int, bytes]]]:
    """Give the lines between two offsets with theirs, in portions.

    What follows the last newline counts as a line unless it is blank: whoever ends before it has mended
    the tail.
    """
    pieces: list[bytes] = []
    offset = position = start
    while position < end:
        block = disk.pread(fd, min(_BLOCK, end - position), position)
        if not block:
            break
        position += len(block)
        pieces.append(block)
        if b"\n" not in block:
            continue
        *whole, rest = b"".join(pieces).split(b"\n")
        portion: list[tuple[int, bytes]] = []
        for line in whole:
            portion.append((offset, line))
            offset += len(line) + 1
        pieces = [rest]
        yield portion
    if tail := b"".join(pieces).rstrip(BLANKS):
        yield [(offset, tail)]


class Numbering:
    """Knows, while lines go by, which seq has been reached.

    A damaged line counts as the seq it shows, or else as one. The first lines of a segment may repeat
    records of the segment before it, which could not be flushed: only one of each is passed on.
    """

    def __init__(self, task: str, seq: int = 0, believed: int = 0) -> None:
        self.task = task
        self.seq = seq
        self.believed = believed  # the seq of the last record that could be believed
        self._held: list[tuple[int, DamagedLine]] = []
        self._is_leading = False

    def take(self, raw: bytes, place: Place, fresh: list[Numbered]) -> None:
        """Number one line and add it; damaged ones are held until the next line tells more."""
        if place.offset == 0:
            self._is_leading = True
            entry = decode(self.task, raw, place)
        else:
            entry = decode_line(raw, place)
        if isinstance(entry, DamagedLine):
            self._hold(entry)
        elif entry.seq == self.believed + 1 and not self._held:
            # Nearly always.
            self._is_leading = False
            self.seq = self.believed = self.believed + 1
            fresh.append((entry.seq, entry))
        elif not (self._is_leading and entry.seq <= self.believed):
            self._is_leading = False
            fresh += self._number(entry)

    def _hold(self, damage: DamagedLine) -> None:
        if damage.seq is not None and damage.seq > self.seq + _FURTHEST:
            damage = replace(damage, seq=None)
        self.seq = self.seq + 1 if damage.seq is None else max(self.seq, damage.seq)
        self._held.append((self.seq, damage))

    def _number(self, record: Record) -> list[Numbered]:
        held = [one for one in self._held if not self._is_written_again(one[1], record)]
        self._held = []
        missing = record.seq - self.believed - 1
        # A line that took no seq (somebody put it in) must not be counted as one.
        fresh: list[Numbered] = [
            (seq, damage if n < missing else replace(damage, seq=self.believed))
            for n, (seq, damage) in enumerate(held)
        ]
        self.believed = max(self.believed, record.seq)
        self.seq = self.believed
        return [*fresh, (record.seq, record)]

    def _is_written_again(self, damage: DamagedLine, record: Record) -> bool:
        """Say whether nothing is missing: what broke off in one segment was repeated in the next."""
        return record.seq == self.believed + 1 and damage.place.segment < record.place.segment

    def end(self) -> list[Numbered]:
        """Give the damaged lines that nothing followed."""
        held, self._held = self._held, []
        return list(held)
