"""Read a journal without its lock, up to where it was seen to go under it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast_storage.core.records import DamagedLine, Entry, Place
from holdfast_storage.engines.folder import lines
from holdfast_storage.engines.folder.progress import Progress, Reached

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast_storage.engines.folder.disk import Disk
    from holdfast_storage.engines.folder.lines import Numbered
    from holdfast_storage.engines.folder.progress import Extent
    from holdfast_storage.engines.folder.segments import Segments


class History:
    """What one reader sees of a journal; `folder` is a descriptor that nobody closes meanwhile."""

    def __init__(self, disk: Disk, task: str, segments: Segments, folder: int) -> None:
        self._disk, self._task, self._segments, self._folder = disk, task, segments, folder

    def begin(self, after: int, extent: Extent, reached: Reached | None) -> Progress:
        """Find where to begin to read what comes after a seq."""
        return Progress(self._task, self._where(after, extent, reached))

    def _where(self, after: int, extent: Extent, reached: Reached | None) -> Reached:
        if reached and after == reached.seq and reached.segment <= extent.segment:
            return reached
        # From the newest back, unless all of it is wanted anyway.
        for number in range(extent.segment, 0, -1) if after else ():
            with suppress(FileNotFoundError):
                first = self._segments.first(number, self._folder)
                if first and first.seq <= after + 1:
                    return Reached(segment=number, seq=first.seq - 1, believed=first.seq - 1)
        return Reached(segment=1)

    def portions(self, progress: Progress, extent: Extent) -> Iterator[list[Numbered]]:
        """Read on to the extent."""
        for number in range(progress.reached.segment, extent.segment + 1):
            # One that is missing shows as a gap.
            with suppress(FileNotFoundError), self._segments.opened(number, self._folder) as fd:
                yield from progress.through(self._disk, fd, number, extent)
        yield progress.end()

    def opening(self, extent: Extent) -> int:
        """Give the seq before the record that opened the newest run."""
        for number in range(extent.segment, 0, -1):
            with suppress(FileNotFoundError):
                first = self._segments.first(number, self._folder)
                if first and first.opens:
                    return first.seq - 1
        return 0

    def fetch(self, places: Sequence[Place]) -> list[Entry]:
        """Read single lines again."""
        found: dict[Place, Entry] = {}
        for number in {place.segment for place in places}:
            found |= self._fetch_from(number, {one for one in places if one.segment == number})
        return [found[place] for place in places]

    def _fetch_from(self, number: int, places: set[Place]) -> dict[Place, Entry]:
        try:
            with self._segments.opened(number, self._folder) as fd:
                return {place: self._fetch_one(fd, place) for place in places}
        except FileNotFoundError:
            return {place: DamagedLine(place, "its segment is gone") for place in places}

    def _fetch_one(self, fd: int, place: Place) -> Entry:
        """Read a line with the bytes around it: a place that was rewritten must not give half a line."""
        before = min(place.offset, 1)
        raw = self._disk.pread(fd, before + place.length + 1, place.offset - before)
        line = raw[before:-1]
        is_whole = len(line) == place.length and raw[:before] in (b"", b"\n") and raw[-1:] == b"\n"
        if not is_whole or b"\n" in line:
            return DamagedLine(place, "it was rewritten")
        return lines.decode(self._task, line, place)
