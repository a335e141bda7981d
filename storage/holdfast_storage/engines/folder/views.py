"""The file that people edit: looked at without being disturbed, published without anything being lost.

What an edit means is not known here. Every byte that is not Holdfast's own comes back to the caller.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast_storage.core.errors import UnsafeFile
from holdfast_storage.engines.base import Sighting
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.files import new_file, write_all
from holdfast_storage.engines.folder.found import NO_FILE, Finder, Found, Stamp, stamp_of
from holdfast_storage.engines.folder.names import EDITOR_FILES, VIEW, is_leftover, leftover_name
from holdfast_storage.engines.folder.publishing import Publication

if TYPE_CHECKING:
    from holdfast_storage.engines.folder.limits import Limits
    from holdfast_storage.engines.folder.task_folder import TaskFolder


class Views:
    """The view of one task and what renderings of it displaced, seen by one process."""

    def __init__(self, disk: Disk, task: TaskFolder, path: str, limits: Limits) -> None:
        self._disk, self._task, self._limits = disk, task, limits
        self._paths = {name: f"{path}/{name}" for name in (VIEW, *EDITOR_FILES)}
        self._path = path
        self.finder = Finder(disk, limits)
        self.seen_stamp: Stamp | None = None
        # Something that a rendering displaced has yet to be looked at.
        self.is_waiting = False
        # Sealed, and yet perhaps somebody's undo: displaced before anybody had seen it in place.
        self.unseen: set[str] = set()
        # Taken care of, but still open somewhere.
        self.handled: dict[str, Found] = {}
        self._was_there = False
        self._missing_since: float | None = None
        # The last rendering took the place of the view, or its own where there was none.
        self._is_placed = False

    @property
    def is_busy(self) -> bool:
        """Say whether something is known of displaced files that nobody could find out again.

        That one has yet to be looked at is not: whoever knows nothing looks at everything.
        """
        self._forget_what_is_gone()
        return bool(self.unseen) or bool(self.handled)

    def _forget_what_is_gone(self) -> None:
        """Forget what was displaced and another process has removed: it was open when we tried to."""
        for name in [*self.handled, *self.unseen]:
            try:
                self._disk.stat(f"{self._path}/{name}", at=None)
            except FileNotFoundError:
                self.handled.pop(name, None)
                self.unseen.discard(name)
            except OSError:
                continue

    # --- without the lock ---------------------------------------------------------------------

    def may_have_changed(self) -> bool:
        """Compare one stat with what was seen through."""
        is_new = self.is_waiting or self._stamp_now() != self.seen_stamp
        return is_new or (bool(self.handled) and self._is_written_late())

    def _is_written_late(self) -> bool:
        """Say whether an editor wrote to a file that was displaced under its hands."""
        for name, found in list(self.handled.items()):
            with suppress(OSError):
                there = self._disk.stat(f"{self._path}/{name}", at=None)
                if stamp_of(there)[:3] != found.stamp[:3]:
                    return True
        return False

    def _stamp_now(self) -> Stamp:
        try:
            return stamp_of(self._disk.stat(self._paths[VIEW], at=None))
        except OSError:
            # Whatever the reason why it cannot be seen: looking closely will tell.
            return NO_FILE

    def rest(self) -> float:
        """Give how long the view should be left alone."""
        stamp = self._stamp_now()
        self._notice_presence(stamp != NO_FILE)
        if stamp == NO_FILE:
            rest = self.must_stay_missing_seconds()
        else:
            rest = self._young_seconds(stamp[1]) - self.finder.age_seconds(max(stamp[2:]))
        return max(0.0, rest, *map(self._editor_rest, EDITOR_FILES))

    def _young_seconds(self, size: int) -> float:
        limits = self._limits
        rests = min(max(1.0, size / limits.large_view_bytes), limits.most_rests)
        return limits.young_view_seconds * rests

    def _editor_rest(self, name: str) -> float:
        try:
            opened_ns = self._disk.stat(self._paths[name], at=None).st_mtime_ns
        except OSError:
            return 0.0
        left = self._limits.open_editor_seconds - self.finder.age_seconds(opened_ns)
        # The editor may be closed sooner, so it is worth asking again.
        return min(left, self._limits.editor_poll_seconds)

    def must_stay_missing_seconds(self) -> float:
        """Say how long nobody may put a view where there is none: somebody may just be saving it."""
        if not self._was_there or self._missing_since is None:
            return 0.0  # as far as we know there never was one
        missing = self._disk.monotonic() - self._missing_since
        return self._limits.missing_view_seconds - missing

    def _notice_presence(self, is_there: bool) -> None:
        if is_there:
            self._was_there, self._missing_since = True, None
        elif self._missing_since is None:
            self._missing_since = self._disk.monotonic()

    # --- looking ------------------------------------------------------------------------------

    def look(self) -> list[Sighting]:
        """Give every file that may be a person's work once it holds still: leftovers, then the view."""
        before: dict[str, Found] = {}
        for attempt in range(self._limits.settle_attempts):
            if attempt:
                # Never under the lock.
                self._disk.sleep(self._limits.settle_pause_seconds)
            is_last = attempt + 1 == self._limits.settle_attempts
            with self._task.locked() as is_there:
                found = self._all() if is_there else []
                is_settled = self.finder.is_settled
                if is_last or all(is_settled(one, before.get(one.name)) for one in found):
                    return self._sightings(found)
            before = {one.name: one for one in found}
        return []

    def _all(self) -> list[Found]:
        self._forget_what_is_gone()
        leftovers = self.leftovers()
        view = self.finder.read(VIEW, self._task.held_folder())
        return [*leftovers, view] if view else leftovers

    def leftovers(self) -> list[Found]:
        """Read what renderings displaced, or were about to publish, the oldest first."""
        folder = self._task.held_folder()
        found: list[Found] = []
        for name in filter(is_leftover, self._disk.listdir(folder)):
            # A link of that name is not something a rendering displaced; check tells of it.
            with suppress(UnsafeFile):
                if one := self.finder.read(name, folder):
                    found.append(one)
        return sorted(found, key=lambda one: one.mtime_ns)

    def _sightings(self, found: list[Found]) -> list[Sighting]:
        self.is_waiting = False
        is_there = bool(found) and found[-1].name == VIEW
        self._notice_presence(is_there)
        if not is_there:
            self.seen_stamp = NO_FILE
        return [
            Sighting(one.raw, one.mtime_ns, one.name, one)
            for one in found
            if one.name == VIEW or self._is_for_people(one)
        ]

    def _is_for_people(self, leftover: Found) -> bool:
        """Say whether a leftover is to be shown; what need not be is tidied away if possible."""
        is_done = leftover.is_still(self.handled.get(leftover.name))
        is_own = leftover.is_ours and leftover.name not in self.unseen
        if is_done or is_own:
            self.remove(leftover)
            return False
        if leftover.is_broken:
            if self.finder.set_aside(leftover, self._task.held_folder()) != "gone":
                self.is_waiting = True
            return False
        return True

    # --- taking care --------------------------------------------------------------------------

    def seen(self, sighting: Sighting) -> None:
        """Remember the view's stamp; remove a leftover unless it is open or has changed."""
        found: Found = sighting.token
        if found.name == VIEW:
            self.seen_stamp = found.stamp
            return
        with self._task.locked() as is_there:
            if is_there:
                self.remove(found)

    def remove(self, leftover: Found) -> None:
        """Remove a leftover that was taken care of, now or when it is closed; under the lock."""
        removal = self.finder.remove(leftover, self._task.held_folder())
        self.handled.pop(leftover.name, None)
        if removal == "open":
            self.handled[leftover.name] = leftover
        elif removal == "changed":
            self.is_waiting = True
        if removal != "open":
            self.unseen.discard(leftover.name)

    # --- publishing ---------------------------------------------------------------------------

    def swap(self, raw: bytes, revision: int) -> bool:
        """Put a rendering in place, if nothing of a person's is in the way."""
        name = leftover_name(self._disk.random_hex())
        with self._task.folder() as folder:
            if folder is None:
                # Somebody deleted the task; a view by itself would be taken for what is left of one.
                return False
            fd = self._write(name, raw, folder)
            try:
                with self._task.locked() as is_there:
                    # Open until now, so that no other process took it for a leftover that can go.
                    self._disk.close(fd)
                    fd = -1
                    is_published = is_there and self._publish(name, revision)
            except BaseException:
                with suppress(OSError, UnsafeFile):
                    self._withdraw_unplaced(name, raw, folder)
                raise
            finally:
                if fd >= 0:
                    self._disk.close(fd)
            if self._is_placed:
                # An editor that saves into it flushes the file and not its name.
                self._disk.flush(folder)
        return is_published

    def _write(self, name: str, raw: bytes, folder: int) -> int:
        fd = new_file(self._disk, name, at=folder)
        try:
            write_all(self._disk, fd, raw)
            self._disk.flush(fd)
        except BaseException:
            self._disk.close(fd)
            with suppress(OSError):
                self._disk.unlink(name, at=folder)
            raise
        return fd

    def _withdraw_unplaced(self, name: str, raw: bytes, folder: int) -> None:
        found = self.finder.read(name, folder)
        if found and found.raw == raw:
            self._disk.unlink(name, at=folder)

    def _publish(self, name: str, revision: int) -> bool:
        folder = self._task.held_folder()
        ours = self.finder.read(name, folder)
        view = self.finder.read(VIEW, folder)
        self._notice_presence(view is not None)
        self._is_placed = False
        if ours is None:
            return False  # the folder was replaced meanwhile
        publication = Publication(self._disk, self, folder, ours)
        is_published = publication.publish(view, revision)
        self._is_placed = publication.is_placed
        self._notice_presence(is_published or view is not None)
        return is_published
