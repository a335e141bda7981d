"""One task's journal: whole lines at the end of the newest segment, flushed before anybody hears of them.

Everything here is for one thread at a time; what is said to be under the lock must be.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast_storage.core.errors import JournalReplaced, NotSaved
from holdfast_storage.core.records import DamagedLine, Entry, Place, Record, decode_line
from holdfast_storage.engines.folder import lines
from holdfast_storage.engines.folder.drafting import Chunk, Drafting
from holdfast_storage.engines.folder.files import (
    APPEND,
    READ,
    Disk,
    new_file,
    open_file,
    write_all,
)
from holdfast_storage.engines.folder.names import segment_name, segment_number
from holdfast_storage.engines.folder.progress import COMPARED, Extent, Progress, Reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast_storage.engines.folder.lines import Numbered
    from holdfast_storage.engines.folder.lock import Note, TaskLock

_BACKWARD = 1 << 16


class Journal:
    """The segments of one task."""

    def __init__(
        self,
        disk: Disk,
        task: str,
        lock: TaskLock,
        *,
        boot: str,
        segment_bytes: int,
        quarantine: Callable[[str, bytes], object],
        flush_parents: Callable[[], None],
    ) -> None:
        self._disk, self._task, self._lock = disk, task, lock
        self._boot, self._segment_bytes = boot, segment_bytes
        self._quarantine, self._flush_parents = quarantine, flush_parents
        self._folder = -1
        self._number, self._fd, self._inode = 0, -1, 0
        self._passed: tuple[int, int, int] | None = None  # number, inode, fd of the one before
        self._booted_in = 0
        self._distrusted = 0
        self.reached: Reached | None = None
        self._firsts: dict[int, Record] = {}

    def open(self, folder: int) -> None:
        """Work in this folder; it stays the caller's."""
        self._folder = folder

    def close(self) -> None:
        """Let go of descriptors, not of what is remembered."""
        self._let_pass()
        if self._fd >= 0:
            self._disk.close(self._fd)
        self._folder = self._fd = -1
        self._number = 0

    def forget(self) -> None:
        """Remember nothing of what was read."""
        self.reached = None
        self._firsts.clear()
        self._booted_in = 0

    def forget_first(self, number: int) -> None:
        """Look at the first line of a segment again: it was rewritten."""
        self._firsts.pop(number, None)

    @property
    def seq(self) -> int:
        """The seq reached."""
        return self.reached.seq if self.reached else 0

    # --- under the lock: what is there --------------------------------------------------------

    def secure(self) -> Extent | None:
        """Learn how far the journal goes, with a torn tail mended and everything flushed."""
        number = self._newest()
        if number == 0:
            return None
        self._hold_open(number)
        length = self._disk.fstat(self._fd).st_size
        note = self._lock.note()
        if note == (number, length):
            return Extent(number, length)
        length = self._mend(length)
        return self._flush_unnoted(note, Extent(number, length))

    def _newest(self) -> int:
        number = self.reached.segment if self.reached else 0
        if number == 0:
            return max(self.numbers(), default=0)
        while self._exists(number + 1):
            number += 1
        return number

    def numbers(self) -> list[int]:
        """Give the numbers of all segments, in order."""
        found = map(segment_number, self._disk.listdir(self._folder))
        return sorted(number for number in found if number is not None)

    def _exists(self, number: int) -> bool:
        try:
            self._disk.stat(segment_name(number), at=self._folder)
        except FileNotFoundError:
            return False
        return True

    def _hold_open(self, number: int) -> None:
        name = segment_name(number)
        if self._number == number and self._fd >= 0:
            try:
                there = self._disk.stat(name, at=self._folder)
            except FileNotFoundError as error:
                raise self._replaced() from error
            if there.st_ino == self._inode:
                return
        self._set_aside(number)
        try:
            self._fd = open_file(self._disk, name, APPEND, at=self._folder)
        except FileNotFoundError as error:
            raise self._replaced() from error
        self._number, self._inode = number, self._disk.fstat(self._fd).st_ino

    def _set_aside(self, number: int) -> None:
        """Keep the segment before this one open until it is read: prune may have replaced it."""
        self._let_pass()
        if self._fd >= 0 and self._number < number:
            self._passed = (self._number, self._inode, self._fd)
        elif self._fd >= 0:
            self._disk.close(self._fd)
        self._fd = -1

    def _let_pass(self) -> None:
        if self._passed:
            self._disk.close(self._passed[2])
            self._passed = None

    def _replaced(self) -> JournalReplaced:
        self.forget()
        return JournalReplaced(self._task)

    # --- under the lock: a torn tail ----------------------------------------------------------

    def _mend(self, length: int) -> int:
        """See that the newest segment ends with a whole line; answers its length then."""
        start = self._start_of_tail(length)
        if start == length:
            return length
        tail = self._disk.pread(self._fd, length - start, start)
        if isinstance(decode_line(tail, Place(self._number, start, len(tail))), Record):
            # Only its newline was cut off.
            write_all(self._disk, self._fd, b"\n")
            return length + 1
        self._quarantine(f"{self._number:06d}-{start}-torn.txt", tail)
        self._disk.truncate(self._fd, start)
        return start

    def _start_of_tail(self, length: int) -> int:
        end = length
        while end > 0:
            size = min(_BACKWARD, end)
            found = self._disk.pread(self._fd, size, end - size).rfind(b"\n")
            if found >= 0:
                return end - size + found + 1
            end -= size
        return 0

    # --- under the lock: nothing rests on bytes that are not durable --------------------------

    def _flush_unnoted(self, note: Note | None, extent: Extent) -> Extent:
        """Flush what a writer left that died, or was told of a power cut, before it could say so."""
        try:
            self._flush_closed(note, extent)
            self._disk.flush(self._fd)
            self._disk.flush(self._folder)
            if note is None:
                self._flush_parents()
        except OSError as error:
            extent = self._write_again(note, extent, error)
        self._lock.write_note((extent.segment, extent.length))
        return extent

    def _flush_closed(self, note: Note | None, extent: Extent) -> None:
        for number in self.numbers():
            if (note is None or number >= note[0]) and number < extent.segment:
                fd = open_file(self._disk, segment_name(number), READ, at=self._folder)
                try:
                    self._disk.flush(fd)
                finally:
                    self._disk.close(fd)

    def _write_again(self, note: Note | None, extent: Extent, error: OSError) -> Extent:
        if note is None or note[0] != extent.segment or note[1] > extent.length:
            raise NotSaved(f"the journal cannot be flushed: {error.strerror}") from error
        found = lines.lines_of(self._disk, self._fd, note[1], extent.length)
        entries = [
            lines.decode(self._task, raw, Place(extent.segment, offset, len(raw)))
            for portion in found
            for offset, raw in portion
        ]
        failed = Chunk(extent.segment, note[1], is_new=False)
        failed.records = [entry for entry in entries if isinstance(entry, Record)]
        chunk = self._move(failed, error)
        return Extent(chunk.segment, chunk.length)

    # --- under the lock: reading on -----------------------------------------------------------

    def catch_up(self) -> list[Numbered]:
        """Read on to the end; raises JournalReplaced if what was read before is no longer there."""
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
        self._let_pass()
        return fresh

    def look(self) -> Extent | None:
        """Learn how far the journal goes, and see that what was read of it is still there."""
        extent = self.secure()
        is_gone = extent is None and self.seq > 0
        if is_gone or (extent and self.reached and not self._is_still_there(self.reached)):
            raise self._replaced()
        return extent

    def _is_still_there(self, reached: Reached) -> bool:
        if reached.inode == 0:
            return True  # nothing was read yet
        with self._readable(reached.segment, reached.inode) as fd:
            found = self._disk.fstat(fd)
            if found.st_ino != reached.inode or found.st_size < reached.offset:
                return False
            size = len(reached.ending)
            return self._disk.pread(fd, size, reached.offset - size) == reached.ending

    def _readable(self, number: int, inode: int = 0) -> _Lent:
        """Lend a descriptor of a segment; a closed one that prune replaced, the one we had before."""
        if self._passed and self._passed[:2] == (number, inode):
            return _Lent(self._disk, self._passed[2], is_ours=False)
        if self._number == number and self._fd >= 0:
            return _Lent(self._disk, self._fd, is_ours=False)
        fd = open_file(self._disk, segment_name(number), READ, at=self._folder)
        return _Lent(self._disk, fd, is_ours=True)

    def _start(self, extent: Extent) -> Reached:
        """Find where a cold reader begins: the newest segment whose first line can be believed."""
        for number in reversed(self.numbers()):
            if number <= extent.segment and (first := self._first(number)):
                return Reached(segment=number, seq=first.seq - 1, believed=first.seq - 1)
        return Reached(segment=min(self.numbers()))

    def _walk(self, progress: Progress, extent: Extent) -> Iterator[list[Numbered]]:
        for number in range(progress.segment, extent.segment + 1):
            with suppress(FileNotFoundError), self._readable(number, progress.inode) as fd:
                yield from progress.through(self._disk, fd, number, extent)
        yield progress.end()

    # --- first lines --------------------------------------------------------------------------

    def _first(self, number: int, folder: int | None = None) -> Record | None:
        """Give the first record of a segment, if it is there and can be believed."""
        known = self._firsts.get(number)
        if known is not None:
            return known
        fd = open_file(
            self._disk, segment_name(number), READ, at=self._folder if folder is None else folder
        )
        try:
            first = self._first_line(fd, number)
        finally:
            self._disk.close(fd)
        if first is not None:
            # Only what is looked for later: a state of 16 MiB is not to stay in memory.
            self._firsts[number] = Record(
                first.seq, first.id, first.at, first.by, first.op, {}, first.opens, first.boot
            )
        return first

    def _first_line(self, fd: int, number: int) -> Record | None:
        length = self._disk.fstat(fd).st_size
        for portion in lines.lines_of(self._disk, fd, 0, length):
            raw = portion[0][1]
            entry = lines.decode(self._task, raw, Place(number, 0, len(raw)))
            return entry if isinstance(entry, Record) else None
        return None

    # --- without the lock ---------------------------------------------------------------------

    def begin(self, after: int, extent: Extent, folder: int) -> Progress:
        """Find where to begin to read what comes after a seq."""
        return Progress(self._task, self._where(after, extent, folder))

    def _where(self, after: int, extent: Extent, folder: int) -> Reached:
        reached = self.reached
        if reached and after == reached.seq and reached.segment <= extent.segment:
            return reached
        for number in range(extent.segment, 0, -1):
            with suppress(FileNotFoundError):
                first = self._first(number, folder)
                if first and first.seq <= after + 1:
                    return Reached(segment=number, seq=first.seq - 1, believed=first.seq - 1)
        return Reached(segment=1)

    def portions(self, progress: Progress, extent: Extent, folder: int) -> Iterator[list[Numbered]]:
        """Read up to an extent learnt under the lock; `folder` is the reader's own descriptor."""
        for number in range(progress.segment, extent.segment + 1):
            try:
                fd = open_file(self._disk, segment_name(number), READ, at=folder)
            except FileNotFoundError:
                continue
            try:
                yield from progress.through(self._disk, fd, number, extent)
            finally:
                self._disk.close(fd)
        yield progress.end()

    def adopt(self, progress: Progress) -> None:
        """Remember how far a reader came, unless more is remembered."""
        if progress.is_sure and progress.reached.seq >= self.seq:
            self.reached = progress.reached

    def opening(self, extent: Extent, folder: int) -> int:
        """Give the seq before the record that opened the newest run."""
        for number in range(extent.segment, 0, -1):
            with suppress(FileNotFoundError):
                first = self._first(number, folder)
                if first and first.opens:
                    return first.seq - 1
        return 0

    def fetch(self, places: Sequence[Place], folder: int) -> list[Entry]:
        """Read single lines again."""
        found: dict[Place, Entry] = {}
        for number in {place.segment for place in places}:
            wanted = {place for place in places if place.segment == number}
            found.update(self._fetch_from(number, wanted, folder))
        return [found[place] for place in places]

    def _fetch_from(self, number: int, places: set[Place], folder: int) -> dict[Place, Entry]:
        try:
            fd = open_file(self._disk, segment_name(number), READ, at=folder)
        except FileNotFoundError:
            return {place: DamagedLine(place, "its segment is gone") for place in places}
        try:
            return {place: self._fetch_one(fd, place) for place in places}
        finally:
            self._disk.close(fd)

    def _fetch_one(self, fd: int, place: Place) -> Entry:
        start = max(0, place.offset - 1)
        raw = self._disk.pread(fd, place.offset - start + place.length + 1, start)
        before, line, after = raw[: place.offset - start], raw[place.offset - start :], b""
        line, after = line[: place.length], line[place.length :]
        is_whole = before in (b"", b"\n") and after == b"\n" and b"\n" not in line
        if not is_whole:
            return DamagedLine(place, "it was rewritten")
        return lines.decode(self._task, line, place)

    # --- under the lock: writing --------------------------------------------------------------

    def drafting(self) -> Drafting:
        """Begin a batch at the end of the journal, which was caught up with."""
        return Drafting(
            self._task,
            self.reached or Reached(),
            boot=self._boot,
            booted_in=self._booted_in,
            segment_bytes=self._segment_bytes,
            avoid=self._distrusted,
        )

    def write(self, chunk: Chunk) -> Chunk:
        """Write and flush a chunk, somewhere; answers where. NotSaved if nowhere."""
        try:
            written = self._write(chunk)
        except OSError as error:
            raise NotSaved(_why(error)) from error
        try:
            self._flush(written)
        except OSError as error:
            written = self._move(written, error)
        self._note(written)
        return written

    def _write(self, chunk: Chunk) -> Chunk:
        if chunk.is_new:
            self._begin_segment(chunk.segment)
        try:
            write_all(self._disk, self._fd, b"".join(chunk.raw))
        except OSError:
            # A full disk takes part of it first; what is there is not to be believed.
            with suppress(OSError):
                self._disk.truncate(self._fd, chunk.offset)
            raise
        return chunk

    def _begin_segment(self, number: int) -> None:
        fd = new_file(self._disk, segment_name(number), at=self._folder, flags=APPEND)
        self._let_pass()
        if self._fd >= 0:
            self._disk.close(self._fd)
        self._fd, self._number = fd, number
        self._inode = self._disk.fstat(fd).st_ino

    def _flush(self, chunk: Chunk) -> None:
        if not chunk.is_new:
            self._disk.flush_data(self._fd)
            return
        self._disk.flush(self._fd)
        # The new name lives in the folder: without this a power cut takes the segment away.
        self._disk.flush(self._folder)
        # Of a first segment the folders around it may be new too, whoever made them.
        if chunk.segment == 1 or self._lock.note() is None:
            self._flush_parents()

    def _note(self, chunk: Chunk) -> None:
        """Remember what was written, for others and for ourselves."""
        end = chunk.offset + chunk.length
        self._lock.write_note((chunk.segment, end))
        self._booted_in = chunk.segment
        if self._distrusted and self._distrusted < chunk.segment:
            self._distrusted = 0
        seq = chunk.records[-1].seq
        same = self.reached if self.reached and self.reached.segment == chunk.segment else Reached()
        self.reached = Reached(
            segment=chunk.segment,
            inode=self._inode,
            offset=end,
            ending=chunk.raw[-1][-COMPARED:],
            seq=seq,
            believed=seq,
            longest=max(same.longest, *map(len, chunk.raw)),
        )

    # --- under the lock: a flush that failed --------------------------------------------------

    def _move(self, failed: Chunk, error: OSError) -> Chunk:
        """Write records again to a new segment: after a failed flush the old file is never believed.

        The kernel marks pages clean when it could not write them, so another flush would succeed
        and mean nothing. Seq and id stay; a reader who finds both passes over the second.
        """
        self._distrusted = failed.segment
        try:
            moved = self._written_again(failed)
        except OSError as again:
            self._take_back(failed.segment, failed.offset)
            why = f"it could not be flushed ({error.strerror}), nor elsewhere ({again.strerror})"
            raise NotSaved(why) from again
        self._take_back(failed.segment, failed.offset)
        return moved

    def _written_again(self, failed: Chunk) -> Chunk:
        number = failed.segment + 1
        while self._exists(number):
            number += 1
        moved = self.drafting().again(number, failed.records)
        self._begin_segment(number)
        self._distrusted = number
        try:
            write_all(self._disk, self._fd, b"".join(moved.raw))
            self._disk.flush(self._fd)
            self._disk.flush(self._folder)
        except OSError:
            self._take_back(number, 0)
            raise
        self._distrusted = 0
        return moved

    def _take_back(self, number: int, offset: int) -> None:
        """Leave no record behind that was not flushed, as far as the disk still does anything."""
        with suppress(OSError):
            fd = open_file(self._disk, segment_name(number), APPEND, at=self._folder)
            try:
                self._disk.truncate(fd, offset)
            finally:
                self._disk.close(fd)

    # --- for prune ----------------------------------------------------------------------------

    def roll(self) -> None:
        """Begin an empty segment, so that the one before it is closed. The journal was caught up with."""
        reached = self.reached
        if reached is None or reached.offset == 0:
            return
        self._begin_segment(reached.segment + 1)
        self._disk.flush(self._fd)
        self._disk.flush(self._folder)
        self._lock.write_note((self._number, 0))
        self.reached = Reached(
            self._number, self._inode, seq=reached.seq, believed=reached.believed
        )


class _Lent:
    """A descriptor for a while, closed afterwards if it was opened for it."""

    def __init__(self, disk: Disk, fd: int, *, is_ours: bool) -> None:
        self._disk, self._fd, self._is_ours = disk, fd, is_ours

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            self._disk.close(self._fd)


def _why(error: OSError) -> str:
    return f"the disk did not take it ({error.strerror or error})"
