"""What prune took, whole segments with a note of what was in them, until it is brought back or emptied."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import Unknown, Unreadable
from holdfast_storage.core.times import stamp
from holdfast_storage.engines.base import Trashed
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.files import (
    make_folder,
    open_folder,
    opened_folder,
    read_file,
    reading,
    write_new_file,
)
from holdfast_storage.engines.folder.names import TRASH, segment_number

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder

_INFO = "info.json"


@dataclass(frozen=True, slots=True)
class Taken:
    """What one rewrite replaced."""

    trashed: Trashed
    at_ns: int
    seqs: frozenset[int]


class Trash:
    """The folder for what prune took."""

    def __init__(self, disk: Disk, workspace: WorkspaceFolder) -> None:
        self._disk, self._workspace = disk, workspace

    # --- taking -------------------------------------------------------------------------------

    def begin(
        self, task: str, folder_name: str, label: str, seqs: dict[int, int], checkpoints: list[int]
    ) -> str:
        """Make a place for what one rewrite takes; `seqs` tells the length of each line."""
        at_ns = self._disk.now_ns()
        at = datetime.fromtimestamp(at_ns / 1e9, UTC)
        name = f"{_time_in_name(at_ns)}-{folder_name}-{self._disk.random_hex(4)}"
        info: dict[str, Any] = {
            "task": task,
            "at": stamp(at),
            "at_ns": at_ns,
            "label": label,
            "checkpoints": checkpoints,
            "seqs": sorted(seqs),
            "size": sum(seqs.values()),
        }
        root = self._root()
        make_folder(self._disk, TRASH, at=root)
        with opened_folder(self._disk, TRASH, at=root) as trash:
            make_folder(self._disk, name, at=trash)
            with opened_folder(self._disk, name, at=trash) as place:
                write_new_file(self._disk, _INFO, strict_json.pretty(info), at=place)
                self._disk.flush(place)
            self._disk.flush(trash)
        self._disk.flush(root)
        return name

    def _root(self) -> int:
        root = self._workspace.root_folder()
        if root is None:
            raise FileNotFoundError(str(self._workspace.root))
        return root

    def take(self, name: str, file: str, raw: bytes) -> None:
        """Keep a copy of a segment, flushed before anything replaces it."""
        with self._opened(name) as place:
            # There already if an earlier attempt was interrupted; the first copy is the original.
            with suppress(FileExistsError):
                write_new_file(self._disk, file, raw, at=place)
            self._disk.flush(place)

    # --- looking ------------------------------------------------------------------------------

    def listed(self) -> list[Trashed]:
        """Give what can be brought back, newest first."""
        with reading(TRASH):
            found = sorted(self._all(), key=lambda taken: taken.at_ns, reverse=True)
            return [taken.trashed for taken in found]

    def _all(self) -> Iterator[Taken]:
        for name in self._names():
            with suppress(Unknown):
                yield self._noted(name)

    def _names(self) -> Iterator[str]:
        """Name what lies there, one by one: a day's trash may be thousands."""
        root = self._workspace.root_folder()
        if root is None:
            return
        with suppress(FileNotFoundError), opened_folder(self._disk, TRASH, at=root) as trash:
            yield from self._disk.folders(trash)

    def taken(self, name: str) -> Taken:
        """Give one of them, or raise Unknown."""
        with reading(TRASH):
            if name not in self._names():
                raise Unknown("trash", name)
            return self._noted(name)

    def _noted(self, name: str) -> Taken:
        """Read the note of one that is there."""
        try:
            with self._opened(name) as place:
                info = strict_json.parse_object(read_file(self._disk, _INFO, at=place))
                if not any(map(segment_number, self._disk.listdir(place))):
                    raise Unknown("trash", name)
            trashed = Trashed(
                name, info["task"], info["at"], tuple(info["checkpoints"]), info["size"]
            )
            return Taken(trashed, info["at_ns"], frozenset(info["seqs"]))
        except (FileNotFoundError, Unreadable, KeyError, TypeError) as error:
            # A process died before its note was whole. As when it had taken nothing yet, nothing was
            # replaced.
            raise Unknown("trash", name) from error

    def segments(self, name: str) -> Iterator[tuple[int, bytes]]:
        """Give the segments that were taken, with their numbers."""
        with self._opened(name) as place:
            for file in sorted(self._disk.listdir(place)):
                number = segment_number(file)
                if number is not None:
                    yield number, read_file(self._disk, file, at=place)

    # --- emptying -----------------------------------------------------------------------------

    def empty(self, older_than_seconds: float) -> None:
        """Remove what was taken longer ago than that."""
        before_ns = self._disk.now_ns() - int(older_than_seconds * 1e9)
        # This follows the end of every run, and a day's trash is large: names tell what is too young
        # to be looked at.
        before = _time_in_name(before_ns)
        with reading(TRASH):
            old = [name for name in self._names() if name[: len(before)] <= before]
            for name in old:
                if self._taken_ns(name) < before_ns:
                    self.remove(name)

    def _taken_ns(self, name: str) -> int:
        try:
            return self._noted(name).at_ns
        except Unknown:
            with self._opened(name) as place:
                return self._disk.fstat(place).st_mtime_ns

    def remove(self, name: str) -> None:
        """Remove one for good."""
        with self._opened(name) as place:
            # The note goes first, and for good: nothing is offered of which a part is gone.
            with suppress(FileNotFoundError):
                self._disk.unlink(_INFO, at=place)
                self._disk.flush(place)
            for file in self._disk.listdir(place):
                self._disk.unlink(file, at=place)
        with opened_folder(self._disk, TRASH, at=self._root()) as trash:
            self._disk.rmdir(name, at=trash)

    @contextmanager
    def _opened(self, name: str) -> Generator[int, None, None]:
        with opened_folder(self._disk, TRASH, at=self._root()) as trash:
            place = open_folder(self._disk, name, at=trash)
            try:
                yield place
            finally:
                self._disk.close(place)


def _time_in_name(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns / 1e9, UTC):%Y%m%dT%H%M%S}"
