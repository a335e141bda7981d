"""One task's journal: whole lines at its end, flushed before anybody hears of them.

Everything here happens under the task's lock, but for `is_as_it_was` and `read_ahead`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast_storage.core.errors import JournalReplaced, NotSaved
from holdfast_storage.core.records import Place, Record
from holdfast_storage.engines.folder import lines, tail
from holdfast_storage.engines.folder.disk import UPDATE
from holdfast_storage.engines.folder.drafting import Chunk, Drafting
from holdfast_storage.engines.folder.files import open_file, write_at
from holdfast_storage.engines.folder.names import segment_name
from holdfast_storage.engines.folder.progress import COMPARED, Extent, Progress, Reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast_storage.engines.folder.disk import Disk
    from holdfast_storage.engines.folder.found import Stamp
    from holdfast_storage.engines.folder.limits import Limits
    from holdfast_storage.engines.folder.lines import Numbered
    from holdfast_storage.engines.folder.lock import TaskLock
    from holdfast_storage.engines.folder.segments import Segments

# What may come behind the last line.
_NOTHING = (b"", lines.ROOM)
# So much of what others wrote is read in one go.
_AT_ONCE = 1 << 16
# So much in the event loop's own thread: some twenty steps.
_LITTLE = 1 << 13
# Room is made for so many more of the same length, and for no fewer: it has to be written, too.
_USES, _FEWEST_USES = 16, 8


class Journal:
    """The end of one task's journal, and how far we have read."""

    def __init__(
        self,
        disk: Disk,
        task: str,
        lock: TaskLock,
        segments: Segments,
        *,
        boot: str,
        limits: Limits,
        quarantine: Callable[[str, bytes], object],
        flush_parents: Callable[[], None],
    ) -> None:
        self._disk, self._task, self._lock, self._segments = disk, task, lock, segments
        self._boot, self._limits = boot, limits
        self._quarantine, self._flush_parents = quarantine, flush_parents
        self.reached: Reached | None = None
        # What we came to, under the lock, all of it durable; and the segment as it was then, if anybody
        # looked: what we write ourselves changes it.
        self._certain: tuple[Reached, Stamp | None] | None = None
        self._booted_in = 0
        # The newest segment that is not to be written to: a flush of it failed.
        self._distrusted = 0
        # Segments that were cut off after a failed flush, and not flushed since.
        self._taken_back: set[int] = set()
        # How often we wrote to the newest segment.
        self._writes = 0
        # The note up to which nobody reads ahead.
        self._not_ahead: Extent | None = None

    @property
    def seq(self) -> int:
        """The seq reached."""
        return self.reached.seq if self.reached else 0

    # --- what is there ------------------------------------------------------------------------

    def look(self, *, is_only_reading: bool = False) -> Extent | None:
        """Learn how far the journal goes, all of it mended and durable; None if nowhere yet.

        Raises JournalReplaced if what was read before is no longer there. Whoever only reads can do
        without the mending, on a disk that is full or may not be written to.
        """
        reached = self.reached
        if reached:
            length = self._noted_length(reached)
            if (
                length is not None
                and self._ends_as(self._segments.fd, reached)
                and self._is_end(length)
            ):
                return Extent(reached.segment, length, reached.inode)
        try:
            self._segments.reach_anew_if_replaced()
            extent = self._secure(is_only_reading=is_only_reading)
        except FileNotFoundError as error:
            raise self._replaced() from error
        is_gone = extent is None and self.seq > 0
        if is_gone or (extent and reached and not self._is_still_there(reached)):
            raise self._replaced()
        return extent

    def is_as_it_was(self) -> bool:
        """Say without the lock whether it ends where we came to, as far as anybody was told.

        Whoever writes touches the segment before anybody hears of it, or begins another one, and what
        was durable stays so. Nothing is said of what somebody is just writing: False.
        """
        if self._certain is None or self.is_distrusted:
            return False
        reached, seen = self._certain
        if reached is not self.reached:
            return False
        if seen is not None and self._segments.size <= reached.offset:
            return self._segments.is_last(reached.segment, seen)
        # What is written over room makes the file no larger, and its time may have been the same tick.
        # Needs the descriptor.
        try:
            return self._segments.is_open_last() and self._ends_at(reached)
        except OSError:
            # Under the lock it is looked at more closely, and said what is wrong.
            return False

    def _noted_length(self, reached: Reached) -> int | None:
        """Give how long the journal is, if all that was done since is to append and to flush.

        That is the usual case. Whoever begins a segment changes the note first, so there is no need
        to look for one.
        """
        note = self._lock.note()
        is_of_it = note is not None and note[::2] == (reached.segment, reached.inode)
        if note is None or not is_of_it or note.length < reached.offset:
            return None
        is_there = self._segments.is_untouched(reached.segment, reached.inode, note.length)
        return note.length if is_there else None

    def _ends_at(self, reached: Reached) -> bool:
        """Say with one call that what was read is still there, and that nothing follows it."""
        start = reached.offset - len(reached.ending)
        raw = self._disk.pread(self._segments.fd, len(reached.ending) + 1, start)
        return raw == reached.ending or raw == reached.ending + lines.ROOM

    def _is_end(self, length: int) -> bool:
        """Say whether the lines end there: with the file, or with room."""
        if length == 0:
            return self._disk.pread(self._segments.fd, 1, 0) in _NOTHING
        raw = self._disk.pread(self._segments.fd, 2, length - 1)
        return raw[:1] == b"\n" and raw[1:] in _NOTHING

    def _ends_as(self, fd: int, reached: Reached) -> bool:
        size = len(reached.ending)
        return self._disk.pread(fd, size, reached.offset - size) == reached.ending

    def _secure(self, *, is_only_reading: bool) -> Extent | None:
        number = self._segments.newest(self.reached.segment if self.reached else 0)
        if number == 0:
            return None
        size = self._segments.hold(number)
        note = self._lock.note()
        if note and note.segment == number:
            if note.inode != self._segments.inode:
                note = None
            elif self._segments.ends_with_room(note.length, size):
                return Extent(number, note.length, self._segments.inode)
        fd = self._segments.fd
        try:
            self._mend_closed(note, number)
            length = self._mended(note, fd, number, size)
        except OSError:
            if not is_only_reading:
                raise
            flushed = _flushed(note, number)
            length, _ = tail.whole_until(self._disk, fd, size, flushed)
            if flushed is not None and length < flushed <= size:
                # Something is gone, and nobody can say so in the journal.
                raise
            # Nobody is told that it ends here: whoever mends it looks for themselves.
            return self._flush_unnoted(note, Extent(number, length, self._segments.inode), None)
        size = self._segments.hold(number)
        extent = Extent(number, length, self._segments.inode)
        return self._flush_unnoted(note, extent, size)

    def _mended(self, note: Extent | None, fd: int, number: int, size: int) -> int:
        flushed = _flushed(note, number)
        return tail.mended(self._disk, fd, number, size, self._quarantine, flushed=flushed)

    def _mend_closed(self, note: Extent | None, newest: int) -> None:
        """Mend those before the newest: after a failed flush one is left as it is for the next."""
        for number in self._unnoted(note, newest):
            fd = open_file(self._disk, segment_name(number), UPDATE, at=self._segments.folder)
            try:
                self._mended(note, fd, number, self._disk.fstat(fd).st_size)
            finally:
                self._disk.close(fd)

    def _unnoted(self, note: Extent | None, newest: int) -> list[int]:
        """Give the segments before the newest of which the note does not say that they are flushed."""
        first = note.segment if note else 0
        return [number for number in self._segments.numbers() if first <= number < newest]

    def _is_still_there(self, reached: Reached) -> bool:
        if reached.inode == 0:
            return True  # nothing was read yet
        with self._segments.readable(reached.segment, reached.inode) as fd:
            found = self._disk.fstat(fd)
            is_same = found.st_ino == reached.inode and found.st_size >= reached.offset
            return is_same and self._ends_as(fd, reached)

    def _replaced(self) -> JournalReplaced:
        self.reached = self._certain = None
        self._segments.forget()
        self._booted_in = self._writes = 0
        self._taken_back.clear()
        return JournalReplaced(self._task)

    # --- nothing rests on bytes that are not durable ------------------------------------------

    def _flush_unnoted(self, note: Extent | None, extent: Extent, size: int | None) -> Extent:
        """Flush what a writer left that died before it could, or before it could say so.

        Without a size nothing is noted: it could not be mended.
        """
        try:
            self._flush_closed(note, extent)
            self._write_over(note, extent)
            self._disk.flush(self._segments.fd)
            self._disk.flush(self._segments.folder)
            if note is None:
                self._flush_parents()
        except OSError as error:
            extent = self._write_unnoted_again(note, extent, error)
        if size is not None:
            self._lock.write_note(extent)
            if size > extent.length:
                self._keep_note_of_room(extent)
        return extent

    def _keep_note_of_room(self, extent: Extent) -> None:
        """See that whoever writes over room that was found there does not do without a note."""
        try:
            self._lock.keep_note()
        except OSError:
            # Then there must be no room. If that cannot be had either, it is tried again.
            with suppress(OSError):
                self._lock.withdraw_note()
                self._segments.cut(extent.length)
                self._lock.write_note(extent)

    def _write_over(self, note: Extent | None, extent: Extent) -> None:
        """Write the same bytes to the same place: a flush of them may have failed before.

        Their pages then count as clean, and another flush would succeed and mean nothing.
        """
        start = 0
        if note is not None and note.segment == extent.segment and note.length <= extent.length:
            start = note.length
        # Where nothing may be written, nothing was; then the flush says what it can.
        with suppress(OSError):
            raw = self._disk.pread(self._segments.fd, extent.length - start, start)
            self._disk.pwrite(self._segments.fd, raw, start)

    def _flush_closed(self, note: Extent | None, extent: Extent) -> None:
        for number in self._unnoted(note, extent.segment):
            with self._segments.opened(number) as fd:
                self._disk.flush(fd)

    def _write_unnoted_again(self, note: Extent | None, extent: Extent, error: OSError) -> Extent:
        if note is None or note.segment != extent.segment or note.length > extent.length:
            raise NotSaved(f"the journal cannot be flushed: {error.strerror}") from error
        fd = self._segments.fd
        entries = [
            lines.decode(self._task, raw, Place(extent.segment, offset, len(raw)))
            for portion in lines.lines_of(self._disk, fd, note.length, extent.length)
            for offset, raw in portion
        ]
        failed = Chunk(extent.segment, note.length, is_new=False)
        failed.records = [entry for entry in entries if isinstance(entry, Record)]
        if not failed.records:
            raise NotSaved(f"the journal cannot be flushed: {error.strerror}") from error
        # Somebody may have been told of them: they stay where they are unless they are elsewhere too.
        moved = self._move(failed, error, may_be_known=True)
        return Extent(moved.segment, moved.length, self._segments.inode)

    # --- reading on ---------------------------------------------------------------------------

    @property
    def is_distrusted(self) -> bool:
        """Say whether a flush failed, and what that means for the next write is not settled yet."""
        return bool(self._distrusted or self._taken_back)

    def catch_up(self) -> list[Numbered]:
        """Read on to the end; raises JournalReplaced as `look` does."""
        fresh = self._read_on(_AT_ONCE)
        if fresh is not None:
            return fresh
        extent = self.look()
        if extent is None:
            self.reached = None
            return []
        if self.reached is None:
            self.reached = self._start(extent)
        elif (self.reached.segment, self.reached.offset) == (extent.segment, extent.length):
            return []
        progress = Progress(self._task, self.reached)
        fresh = [one for portion in self._walk(progress, extent) for one in portion]
        self.reached = progress.reached
        self._segments.let_pass()
        return fresh

    def read_a_little(self) -> list[Numbered] | None:
        """Read on if others have appended so little that it takes next to no time; else None."""
        return self._read_on(_LITTLE)

    def _read_on(self, most: int) -> list[Numbered] | None:
        """Read on if others have only appended, and not much: three calls of the kernel; else None."""
        reached = self.reached
        if reached is None:
            return None
        length = self._noted_length(reached)
        if length is None or length - reached.offset > most:
            return None
        # In one go: what must still be there, what came after it, and that nothing came after that.
        known = len(reached.ending)
        size = known + length - reached.offset
        raw = self._disk.pread(self._segments.fd, size + 1, reached.offset - known)
        if len(raw) < size or raw[size:] not in _NOTHING or not raw.startswith(reached.ending):
            return None
        fresh: list[Numbered] = []
        if size > known:
            if raw[size - 1 : size] != b"\n":
                return None
            progress = Progress(self._task, reached)
            fresh = progress.on(raw[known:size])
            self.reached = reached = progress.reached
        self._certain = reached, self._segments.seen
        return fresh

    def read_ahead(self) -> list[Numbered]:
        """Read on without the lock, as far as is noted to be flushed; nothing where that is not plain.

        Whoever takes the lock next looks whether what was read is still there, before anything rests on it.
        """
        reached, segments = self.reached, self._segments
        note = self._lock.note()
        if reached is None or note is None or note == self._not_ahead:
            return []
        here = reached.segment, reached.inode
        if not here == note[::2] == (segments.number, segments.inode):
            return []
        known, more = len(reached.ending), min(note.length - reached.offset, _AT_ONCE)
        raw = self._disk.pread(segments.fd, known + max(0, more), reached.offset - known)
        whole = raw[: raw.rfind(b"\n") + 1]
        if len(whole) <= known or not whole.startswith(reached.ending):
            return []
        progress = Progress(self._task, reached)
        fresh = progress.on(whole[known:])
        if not all(isinstance(entry, Record) for _, entry in fresh):
            # Damage, which is told of under the lock only.
            self._not_ahead = note
            return []
        self.reached = progress.reached
        return fresh

    def _start(self, extent: Extent) -> Reached:
        """Find where a cold reader begins: the newest segment whose first line can be believed."""
        numbers = [number for number in self._segments.numbers() if number <= extent.segment]
        for number in reversed(numbers):
            if first := self._segments.first(number):
                return Reached(segment=number, seq=first.seq - 1, believed=first.seq - 1)
        return Reached(segment=numbers[0])

    def _walk(self, progress: Progress, extent: Extent) -> Iterator[list[Numbered]]:
        for number in range(progress.reached.segment, extent.segment + 1):
            with (
                suppress(FileNotFoundError),
                self._segments.readable(number, progress.reached.inode) as fd,
            ):
                yield from progress.through(self._disk, fd, number, extent)
        yield progress.end()

    def adopt(self, progress: Progress) -> None:
        """Remember how far a reader came, unless more is remembered."""
        if progress.is_sure and progress.reached.seq >= self.seq:
            self.reached = progress.reached

    # --- writing ------------------------------------------------------------------------------

    def drafting(self) -> Drafting:
        """Begin a batch at the end of the journal, which was caught up with."""
        return Drafting(
            self._task,
            self.reached or Reached(),
            boot=self._boot,
            booted_in=self._booted_in,
            segment_bytes=self._limits.segment_bytes,
            avoid=self._distrusted,
        )

    def write(self, chunk: Chunk, meanwhile: Callable[[], None] | None = None) -> Chunk:
        """Write and flush a chunk, somewhere; answers where. NotSaved if nowhere.

        What can be done `meanwhile` is done between the two, while the disk is writing already.
        """
        try:
            if self._taken_back:
                self._flush_taken_back()
            self._append(chunk)
        except OSError as error:
            raise NotSaved(f"the disk did not take it ({error.strerror or error})") from error
        try:
            if meanwhile is not None:
                self._disk.begin_flush(self._segments.fd)
                meanwhile()
            self._flush(chunk)
        except OSError as error:
            chunk = self._move(chunk, error)
        self._remember(chunk)
        return chunk

    def _append(self, chunk: Chunk) -> None:
        if chunk.is_new:
            self._cut_room()
            self._begin_segment(chunk.segment)
        self._writes += 1
        raw = b"".join(chunk.raw)
        room = self._room(chunk.offset, len(raw))
        try:
            self._write(raw, chunk.offset, room)
        except OSError:
            if not room:
                raise
            # Some disks take all of a write or nothing, and no step is refused for want of room.
            room = b""
            self._write(raw, chunk.offset, room)
        end = chunk.offset + len(raw) + len(room)
        self._segments.size = max(self._segments.size, end)

    def _write(self, raw: bytes, offset: int, room: bytes) -> None:
        try:
            write_at(self._disk, self._segments.fd, raw, offset, room)
        except OSError:
            # A full disk takes part of it first; what is there is not to be believed.
            with suppress(OSError):
                self._segments.cut(offset)
            raise

    def _room(self, offset: int, length: int) -> bytes:
        """Give the room to be made behind a write: none if it stays within what is there.

        To flush what is written over bytes that are there already takes 0.7 of what it takes to flush a
        file that grew, and 0.3 where the disk has a journal of its own: only the bytes have to go there.
        """
        limits = self._limits
        size = min(max(_USES * length, limits.room_bytes), limits.most_room_bytes)
        is_worth_it = _FEWEST_USES * length <= size and self._writes > limits.room_after_writes
        if offset + length <= self._segments.size or not is_worth_it:
            return b""
        try:
            # Whoever mends what a power cut left of writes over room has to know where they began.
            self._lock.keep_note()
        except OSError:
            return b""
        return lines.ROOM * size

    @property
    def has_room(self) -> bool:
        """Say whether we made room that is perhaps not all used."""
        reached = self.reached
        return self._writes > 0 and reached is not None and self._segments.size > reached.offset

    def give_room_back(self) -> None:
        """Cut off the room that we made, under the lock; who comes again makes some when it pays."""
        if self.has_room:
            self._cut_room()
            self._writes = 0

    def _cut_room(self) -> None:
        """Cut the newest segment off where its lines end, if nothing else lies there."""
        reached = self.reached
        if reached is None or self._segments.size <= reached.offset or self.is_distrusted:
            return
        # Whoever reads it passes over room, should it stay.
        with suppress(OSError):
            length = self._noted_length(reached)
            if length is not None and self._segments.ends_with_room(length, self._segments.size):
                self._segments.cut(length)

    def _begin_segment(self, number: int) -> None:
        self._writes = 0
        # First of all, so that others know without looking that there may be one more.
        self._lock.withdraw_note()
        self._segments.begin(number)

    def _flush(self, chunk: Chunk) -> None:
        if not chunk.is_new:
            self._disk.flush_data(self._segments.fd)
            return
        self._disk.flush(self._segments.fd)
        # The new name lives in the folder: without this a power cut takes the segment away.
        self._disk.flush(self._segments.folder)
        if chunk.segment == 1:
            # The folders around it may be new too, whoever made them.
            self._flush_parents()

    def _remember(self, chunk: Chunk) -> None:
        """Note what was written, for others and for ourselves."""
        lengths = list(map(len, chunk.raw))
        end = chunk.offset + sum(lengths)
        self._lock.write_note(Extent(chunk.segment, end, self._segments.inode))
        self._booted_in = chunk.segment
        if self._distrusted < chunk.segment:
            self._distrusted = 0
        seq = chunk.records[-1].seq
        longest = max(lengths)
        if not chunk.is_new and self.reached:
            longest = max(longest, self.reached.longest)
        ending = chunk.raw[-1][-COMPARED:]
        self.reached = Reached(chunk.segment, self._segments.inode, end, ending, seq, seq, longest)
        self._certain = self.reached, None

    # --- a flush that failed ------------------------------------------------------------------

    def _move(self, failed: Chunk, error: OSError, *, may_be_known: bool = False) -> Chunk:
        """Write records again to a new segment: after a failed flush the old file is not believed.

        The kernel marks pages clean when it could not write them, so another flush would succeed
        and mean nothing. Seq and id stay; a reader who finds both passes over the second.
        """
        self._distrusted = failed.segment
        moved: Chunk | None = None
        try:
            moved = self._written_again(failed)
            self._take_back(failed.segment, failed.offset)
            self._flush_taken_back()
        except OSError as again:
            if moved is None and not may_be_known:
                self._take_back(failed.segment, failed.offset)
            why = f"it could not be flushed ({error.strerror}), nor elsewhere ({again.strerror})"
            raise NotSaved(why) from again
        return moved

    def _written_again(self, failed: Chunk) -> Chunk:
        number = failed.segment + 1
        while self._segments.exists(number):
            number += 1
        moved = self.drafting().again(number, failed.records)
        self._begin_segment(number)
        self._distrusted = number
        try:
            write_at(self._disk, self._segments.fd, b"".join(moved.raw), 0)
            self._disk.flush(self._segments.fd)
            self._disk.flush(self._segments.folder)
            if failed.is_new:
                self._flush_parents()
        except OSError:
            self._take_back(number, 0)
            raise
        self._distrusted = 0
        return moved

    def _take_back(self, number: int, offset: int) -> None:
        """Leave no record behind that was not flushed, as far as the disk still does anything."""
        self._taken_back.add(number)
        with suppress(OSError):
            fd = open_file(self._disk, segment_name(number), UPDATE, at=self._segments.folder)
            try:
                self._disk.truncate(fd, offset)
            finally:
                self._disk.close(fd)

    def _flush_taken_back(self) -> None:
        """See that what was taken back does not return with a power cut, whole or in part.

        Its seqs stand in another segment now, and a reader believes the first it finds.
        """
        for number in sorted(self._taken_back):
            with suppress(FileNotFoundError), self._segments.opened(number) as fd:
                self._disk.flush(fd)
            self._taken_back.discard(number)

    # --- for prune ----------------------------------------------------------------------------

    def roll(self) -> None:
        """Begin an empty segment, so that the one before is closed; all was caught up with."""
        reached = self.reached
        if reached is None or reached.offset == 0:
            return
        self._cut_room()
        self._begin_segment(reached.segment + 1)
        self._disk.flush(self._segments.fd)
        self._disk.flush(self._segments.folder)
        number, inode = self._segments.number, self._segments.inode
        self._lock.write_note(Extent(number, 0, inode))
        self.reached = Reached(number, inode, seq=reached.seq, believed=reached.believed)


def _flushed(note: Extent | None, number: int) -> int | None:
    """Give how much of a segment is noted as flushed."""
    return note.length if note and note.segment == number else None
