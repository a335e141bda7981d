"""Put a rendering in the place of the view; what it displaces is looked at, and never lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast_storage.core import strict_json
from holdfast_storage.core.seal import embedded_revision
from holdfast_storage.engines.folder.disk import ExchangeUnsupported
from holdfast_storage.engines.folder.found import Found, stamp_of
from holdfast_storage.engines.folder.names import VIEW, leftover_name

if TYPE_CHECKING:
    from holdfast_storage.engines.folder.disk import Disk
    from holdfast_storage.engines.folder.views import Views


class Publication:
    """One rendering on its way to its place. All of it happens under the task's lock."""

    def __init__(self, disk: Disk, views: Views, folder: int, ours: Found) -> None:
        self._disk, self._views, self._folder, self._ours = disk, views, folder, ours
        self.is_placed = False

    def publish(self, view: Found | None, revision: int) -> bool:
        """Take the place if nothing of a person's is in the way; `view` is what is there now."""
        if self._is_somebody_waiting():
            self._views.is_waiting = True
            return self._withdraw(is_current=False)
        if view is None:
            return self._fill_the_gap()
        if view.is_ours:
            if self._revision_of(view) >= revision:
                return self._withdraw(is_current=True)
        elif view.is_broken or view.stamp != self._views.seen_stamp:
            return self._withdraw(is_current=False)
        return self._replace(view)

    def _revision_of(self, view: Found) -> int:
        """Give the revision a view of ours was rendered at; another task's says nothing of this one."""
        there, ours = strict_json.decode(view.raw), strict_json.decode(self._ours.raw)
        revision = embedded_revision(there)
        return -1 if revision is None or there.get("task") != ours.get("task") else revision

    def _is_somebody_waiting(self) -> bool:
        """Say whether an older file of a person's has yet to be taken care of."""
        return any(
            not (found.is_ours or found.is_still(self._views.handled.get(found.name)))
            and not found.is_broken
            for found in self._views.leftovers()
            if found.name != self._ours.name
        )

    def _withdraw(self, *, is_current: bool) -> bool:
        # It never was in place, so nobody can have it open to write to it.
        self._disk.unlink(self._ours.name, at=self._folder)
        return is_current

    def _fill_the_gap(self) -> bool:
        if self._views.must_stay_missing_seconds() > 0:
            return self._withdraw(is_current=False)
        try:
            self._disk.rename_new(self._ours.name, VIEW, at=self._folder)
        except FileExistsError:
            return self._withdraw(is_current=False)
        self._remember()
        return True

    def _remember(self) -> None:
        """Count what is in place as seen, if it is still what we wrote."""
        self.is_placed = True
        try:
            stamp = stamp_of(self._disk.stat(VIEW, at=self._folder))
        except FileNotFoundError:
            return
        if stamp[:3] == self._ours.stamp[:3]:
            self._views.seen_stamp = stamp

    # --- in one go ----------------------------------------------------------------------------

    def _replace(self, view: Found) -> bool:
        was_seen = view.stamp == self._views.seen_stamp
        try:
            self._disk.exchange(self._ours.name, VIEW, at=self._folder)
        except ExchangeUnsupported:
            return self._replace_by_hand(view, was_seen)
        except FileNotFoundError:
            # An editor has just moved the view away, and is about to put another in its place.
            return self._withdraw(is_current=False)
        displaced = self._views.finder.read(self._ours.name, self._folder)
        if displaced and not displaced.is_still(view) and _is_half_saved(displaced):
            self._exchange_back()
            return False
        self._remember()
        return displaced is None or self._leave(displaced, view, was_seen)

    def _leave(self, displaced: Found, view: Found, was_seen: bool) -> bool:
        """Tidy a displaced file away, or leave it to be looked at; True if no edit is in it."""
        if was_seen and displaced.is_still(view):
            self._views.remove(displaced)
            return True
        self._views.is_waiting = True
        if displaced.is_ours:
            self._views.unseen.add(displaced.name)
            return True
        return False

    def _exchange_back(self) -> None:
        """Give a half-saved file its place back, unless a newer one has taken the place meanwhile."""
        self._disk.exchange(self._ours.name, VIEW, at=self._folder)
        out = self._views.finder.read(self._ours.name, self._folder)
        if out is not None and out.is_still(self._ours):
            self._views.remove(out)
        elif out is not None:
            self._disk.exchange(self._ours.name, VIEW, at=self._folder)
            self._views.is_waiting = True

    # --- where names cannot be exchanged ------------------------------------------------------

    def _replace_by_hand(self, view: Found, was_seen: bool) -> bool:
        """Move the view away, look at it, and take the place; for a moment there is none."""
        away = leftover_name(self._disk.random_hex())
        try:
            self._disk.rename(VIEW, away, at=self._folder)
        except FileNotFoundError:
            return self._withdraw(is_current=False)
        displaced = self._views.finder.read(away, self._folder)
        if displaced and not displaced.is_still(view) and not displaced.is_ours:
            self._move_back(away)
            return self._withdraw(is_current=False)
        try:
            self._disk.rename_new(self._ours.name, VIEW, at=self._folder)
        except FileExistsError:
            # Somebody saved in that moment; theirs is the newer one.
            self._leave_all(displaced, view, was_seen)
            return self._withdraw(is_current=False)
        self._remember()
        return self._leave_all(displaced, view, was_seen)

    def _leave_all(self, displaced: Found | None, view: Found, was_seen: bool) -> bool:
        return displaced is None or self._leave(displaced, view, was_seen)

    def _move_back(self, away: str) -> None:
        try:
            self._disk.rename_new(away, VIEW, at=self._folder)
        except FileExistsError:
            self._views.is_waiting = True


def _is_half_saved(found: Found) -> bool:
    return not found.is_ours and found.is_broken
