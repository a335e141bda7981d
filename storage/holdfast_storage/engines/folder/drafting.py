"""Give drafts their seq, segment and offset before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast_storage.core.records import Draft, Place, Record
from holdfast_storage.engines.folder import lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast_storage.engines.folder.progress import Reached


@dataclass(slots=True)
class Chunk:
    """Records that go into one segment with one write and one flush."""

    segment: int
    offset: int
    is_new: bool
    records: list[Record] = field(default_factory=list[Record])
    raw: list[bytes] = field(default_factory=list[bytes])

    @property
    def length(self) -> int:
        return sum(map(len, self.raw))


class Drafting:
    """A batch in the making: knows which seq, segment and offset the next record will have."""

    def __init__(
        self,
        task: str,
        reached: Reached,
        *,
        boot: str,
        booted_in: int,
        segment_bytes: int,
        avoid: int,
    ) -> None:
        self.seq = reached.seq
        self.chunks: list[Chunk] = []
        self._task, self._boot = task, boot
        self._booted_in: int = booted_in
        self._segment_bytes, self._avoid = segment_bytes, avoid
        self._segment, self._offset = reached.segment, reached.offset
        self._longest = reached.longest

    def add(self, draft: Draft) -> Record:
        """Give a draft its place in the order; nothing of it stays if it cannot be written."""
        rolls = self._must_roll(draft)
        segment, offset = (self._segment + 1, 0) if rolls else (self._segment, self._offset)
        boot = self._boot if self._booted_in != segment else ""
        raw = lines.encode_line(self._task, self.seq + 1, draft, boot=boot, is_first=offset == 0)
        if rolls or not self.chunks:
            self.chunks.append(Chunk(segment, offset, is_new=rolls))
        self._longest = max(len(raw), 0 if rolls else self._longest)
        self._segment, self._offset, self._booted_in = segment, offset + len(raw), segment
        self.seq += 1
        return self._put(self.seq, draft, boot, Place(segment, offset, len(raw) - 1), raw)

    def _must_roll(self, draft: Draft) -> bool:
        if self._segment == 0 or self._segment == self._avoid:
            return True
        if self._offset == 0:
            return False
        # So a state longer than a quarter of a segment does not begin a segment each time.
        full = max(self._segment_bytes, 4 * self._longest)
        return draft.opens or self._offset >= full

    def again(self, segment: int, records: Sequence[Record]) -> Chunk:
        """Write records with the seqs they have to a new segment."""
        self.chunks = [Chunk(segment, 0, is_new=True)]
        offset = 0
        for record in records:
            draft = lines.as_draft(record)
            boot = record.boot if offset else self._boot
            raw = lines.encode_line(self._task, record.seq, draft, boot=boot, is_first=offset == 0)
            self._put(record.seq, draft, boot, Place(segment, offset, len(raw) - 1), raw)
            offset += len(raw)
        return self.chunks[0]

    def _put(self, seq: int, draft: Draft, boot: str, place: Place, raw: bytes) -> Record:
        record = Record(
            seq, draft.id, draft.at, draft.by, draft.op, draft.body, draft.opens, boot, place
        )
        self.chunks[-1].records.append(record)
        self.chunks[-1].raw.append(raw)
        return record
