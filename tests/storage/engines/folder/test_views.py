"""Nothing that a person saves is lost, whenever it is saved."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.storage.engines.folder.harness import Interrupting, commit, quarantined, task_folder

from holdfast_storage.core.errors import UnsafeFile
from holdfast_storage.core.seal import seal
from holdfast_storage.engines.folder.disk import Disk, ExchangeUnsupported, LeaseUnsupported
from holdfast_storage.engines.folder.task_folder import TaskFolder

BY_HAND = b'{"task": "t", "state": {"by": "hand"}}\n'
LATER = b'{"task": "t", "state": {"by": "hand, a moment later"}}\n'
HALF_SAVED = b'{"task": "t", "state": {"by": "ha'


class NoExchange(Interrupting):
    """A disk that cannot exchange two names."""

    def exchange(self, one: str, other: str, *, at: int) -> None:
        raise ExchangeUnsupported


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


@pytest.fixture(params=[Interrupting, NoExchange])
def disk(request: pytest.FixtureRequest) -> Interrupting:
    made: Callable[[], Interrupting] = request.param
    return made()


def moment_of(disk: Interrupting) -> str:
    """Name the call just before which the view is still the one that was looked at."""
    return "rename" if isinstance(disk, NoExchange) else "exchange"


def rendered(revision: int, **state: object) -> bytes:
    return seal({"task": "t", "state": state, "read_only": {"revision": revision}})


def published(root: Path, disk: Disk | None = None, **times: Any) -> TaskFolder:
    """Have a task whose first view is in place."""
    folder = task_folder(root, disk, **times)
    commit(folder, "a")
    assert folder.swap_view(rendered(1), 1)
    return folder


def view_file(root: Path) -> Path:
    return root / "tasks" / "t" / "state.json"


def leftovers(root: Path) -> list[Path]:
    return sorted((root / "tasks" / "t").glob(".hfview.*"))


def save(root: Path, raw: bytes) -> None:
    """Save as an editor does that writes a new file and renames it."""
    temporary = view_file(root).with_name("state.json.tmp")
    temporary.write_bytes(raw)
    temporary.rename(view_file(root))


def sighted(folder: TaskFolder) -> list[bytes]:
    return [sighting.raw for sighting in folder.view()]


def see_through(folder: TaskFolder) -> None:
    for sighting in folder.view():
        folder.seen(sighting)


# --- publishing -------------------------------------------------------------------------------


def test_a_rendering_replaces_the_one_before_and_leaves_nothing_behind(
    root: Path, disk: Interrupting
) -> None:
    folder = published(root, disk)

    for revision in range(2, 12):
        assert folder.swap_view(rendered(revision), revision)

    assert view_file(root).read_bytes() == rendered(11)
    assert leftovers(root) == []
    assert not folder.may_have_changed()


def test_an_older_rendering_does_not_replace_a_newer_one(root: Path, disk: Interrupting) -> None:
    folder, other = published(root, disk), task_folder(root)
    see_through(other)
    other.swap_view(rendered(5), 5)

    assert folder.swap_view(rendered(4), 4)

    assert view_file(root).read_bytes() == rendered(5)
    assert leftovers(root) == []


def test_a_save_that_nobody_has_seen_stays_in_place(root: Path, disk: Interrupting) -> None:
    folder = published(root, disk)
    save(root, BY_HAND)

    assert not folder.swap_view(rendered(2), 2)

    assert view_file(root).read_bytes() == BY_HAND
    assert leftovers(root) == []


def test_a_save_in_the_moment_of_publishing_comes_back(root: Path, disk: Interrupting) -> None:
    folder = published(root, disk)
    disk.before[moment_of(disk)] = lambda: save(root, BY_HAND)

    assert not folder.swap_view(rendered(2), 2)

    assert folder.may_have_changed()
    assert BY_HAND in sighted(folder)
    see_through(folder)
    assert folder.swap_view(rendered(3), 3)
    assert sighted(folder) == [rendered(3)]
    assert leftovers(root) == []


def test_a_view_moved_away_in_the_moment_of_publishing_is_waited_for(
    root: Path, disk: Interrupting
) -> None:
    """As vim does it: the old one gets another name, then the new one is written."""
    folder = published(root, disk)

    def move_away() -> None:
        view_file(root).rename(root / "state.json~")

    disk.before[moment_of(disk)] = move_away

    assert not folder.swap_view(rendered(2), 2)

    assert not view_file(root).exists()
    assert leftovers(root) == []
    save(root, BY_HAND)
    assert sighted(folder) == [BY_HAND]


def test_a_half_saved_file_gets_its_place_back(root: Path, disk: Interrupting) -> None:
    folder = published(root, disk)
    disk.before[moment_of(disk)] = lambda: save(root, HALF_SAVED)

    assert not folder.swap_view(rendered(2), 2)

    assert view_file(root).read_bytes() == HALF_SAVED
    assert leftovers(root) == []


def test_a_newer_save_is_not_buried_by_giving_a_broken_one_its_place_back(root: Path) -> None:
    disk = Interrupting()
    folder = published(root, disk)

    def first_half_then_whole() -> None:
        save(root, HALF_SAVED)
        disk.before["exchange"] = lambda: save(root, LATER)

    disk.before["exchange"] = first_half_then_whole

    assert not folder.swap_view(rendered(2), 2)

    assert view_file(root).read_bytes() == LATER
    assert sighted(folder) == [LATER]
    assert quarantined(root) == [HALF_SAVED]


def test_an_undo_in_the_moment_of_publishing_is_shown(root: Path, disk: Interrupting) -> None:
    folder = published(root, disk)
    undone = rendered(1, undone=True)
    disk.before[moment_of(disk)] = lambda: save(root, undone)

    assert folder.swap_view(rendered(2), 2)

    assert folder.may_have_changed()
    assert sighted(folder) == [undone, rendered(2)]
    see_through(folder)
    assert leftovers(root) == []


def test_a_file_made_in_the_moment_of_filling_the_gap_stays(root: Path) -> None:
    disk = Interrupting()
    folder = task_folder(root, disk)
    commit(folder, "a")
    disk.before["rename_new"] = lambda: save(root, BY_HAND)

    assert not folder.swap_view(rendered(1), 1)

    assert sighted(folder) == [BY_HAND]
    assert leftovers(root) == []


def test_a_file_made_while_the_view_is_moved_away_stays(root: Path) -> None:
    disk = NoExchange()
    folder = published(root, disk)
    disk.before["rename_new"] = lambda: save(root, LATER)

    assert not folder.swap_view(rendered(2), 2)

    assert view_file(root).read_bytes() == LATER
    assert leftovers(root) == []


def test_a_missing_view_returns_only_after_a_while(root: Path) -> None:
    disk = Clock()
    folder = published(root, disk)
    view_file(root).unlink()

    assert not folder.swap_view(rendered(2), 2)
    assert 9 < folder.view_rest() <= 10
    disk.passed = 10.5
    assert folder.view_rest() == 0
    assert folder.swap_view(rendered(2), 2)

    assert view_file(root).read_bytes() == rendered(2)


# --- leftovers --------------------------------------------------------------------------------


def test_a_displaced_file_that_an_editor_still_has_open_is_not_deleted(root: Path) -> None:
    folder = published(root)
    save(root, BY_HAND)
    with view_file(root).open("r+b") as editor:
        see_through(folder)
        assert folder.swap_view(rendered(2), 2)
        [leftover] = leftovers(root)

        see_through(folder)
        assert leftover.exists()
        editor.write(LATER)
        editor.truncate()

    assert LATER in sighted(folder)
    see_through(folder)
    assert leftovers(root) == []
    assert view_file(root).read_bytes() == rendered(2)


def test_a_displaced_file_is_deleted_once_it_is_closed(root: Path) -> None:
    folder = published(root)
    save(root, BY_HAND)
    with view_file(root).open("rb"):
        see_through(folder)
        assert folder.swap_view(rendered(2), 2)
        assert len(leftovers(root)) == 1

    assert sighted(folder) == [rendered(2)]
    assert leftovers(root) == []


def test_a_displaced_file_that_another_process_deleted_keeps_no_task_in_memory(root: Path) -> None:
    folder, other = published(root), task_folder(root)
    save(root, BY_HAND)
    with view_file(root).open("rb"):
        see_through(folder)
        assert folder.swap_view(rendered(2), 2)
        assert not folder.can_be_forgotten

    see_through(other)

    assert leftovers(root) == []
    assert folder.can_be_forgotten


def test_where_nobody_can_tell_a_displaced_file_stays_for_a_while(root: Path) -> None:
    disk = NoLease()
    folder = published(root, disk)
    assert folder.swap_view(rendered(2), 2)
    assert len(leftovers(root)) == 1

    disk.passed = 11.0
    assert sighted(folder) == [rendered(2)]

    assert leftovers(root) == []


def test_a_view_of_a_process_that_died_is_tidied_away(root: Path) -> None:
    folder = published(root)
    (root / "tasks" / "t" / ".hfview.00ff").write_bytes(rendered(7))

    assert sighted(folder) == [rendered(1)]

    assert leftovers(root) == []


def test_a_rendering_that_another_process_is_writing_is_left_alone(root: Path) -> None:
    folder = published(root)
    with (root / "tasks" / "t" / ".hfview.00ff").open("wb") as unfinished:
        unfinished.write(rendered(7)[:40])
        unfinished.flush()

        assert sighted(folder) == [rendered(1)]
        assert folder.may_have_changed()

        assert len(leftovers(root)) == 1
    assert quarantined(root) == []


def test_a_broken_leftover_goes_to_quarantine(root: Path) -> None:
    folder = published(root)
    (root / "tasks" / "t" / ".hfview.00ff").write_bytes(HALF_SAVED)

    assert sighted(folder) == [rendered(1)]

    assert quarantined(root) == [HALF_SAVED]
    assert leftovers(root) == []


def test_nothing_is_published_before_a_displaced_file_was_seen(root: Path) -> None:
    folder = published(root)
    (root / "tasks" / "t" / ".hfview.00ff").write_bytes(BY_HAND)

    assert not folder.swap_view(rendered(2), 2)
    see_through(folder)
    assert folder.swap_view(rendered(2), 2)


def test_an_editors_own_files_are_not_touched(root: Path) -> None:
    folder = published(root)
    others = [".state.json.swp", ".hfview.swp", ".hfview.", "x.hfview.00ff", ".hfview.00ff~"]
    for name in others:
        (root / "tasks" / "t" / name).write_bytes(HALF_SAVED)

    folder.view()
    folder.swap_view(rendered(2), 2)

    assert all((root / "tasks" / "t" / name).exists() for name in others)


# --- settling ---------------------------------------------------------------------------------


def test_a_file_that_is_being_written_is_waited_for(root: Path) -> None:
    disk = Typing(root, [HALF_SAVED, HALF_SAVED + b'nd"}', BY_HAND])
    folder = published(root, disk)
    save(root, b"")
    disk.is_typing = True

    assert sighted(folder) == [BY_HAND]


def test_a_file_that_never_holds_still_is_given_as_it_is(root: Path) -> None:
    disk = Typing(root, [b'{"n": %d}' % n for n in range(100)])
    folder = published(root, disk, settle_attempts=5)
    save(root, b"")
    disk.is_typing = True

    assert sighted(folder) == [b'{"n": 3}']


def test_a_file_unchanged_for_a_while_is_read_once(root: Path) -> None:
    disk = Clock()
    folder = published(root, disk)
    save(root, BY_HAND)
    disk.passed = 2.5

    assert sighted(folder) == [BY_HAND]

    assert disk.naps == 0


# --- leaving the view alone -------------------------------------------------------------------


def test_a_young_view_is_left_alone(root: Path) -> None:
    disk = Clock()
    folder = published(root, disk)

    assert 0 < folder.view_rest() <= 1
    disk.passed = 1.5
    assert folder.view_rest() == 0


@pytest.mark.parametrize(("times", "seconds"), [(0.5, 1), (3, 3), (100, 5)])
def test_a_large_view_is_left_alone_for_longer_but_not_for_long(
    root: Path, times: float, seconds: float
) -> None:
    disk = Clock()
    folder = published(root, disk, large_view_bytes=10_000)
    save(root, b" " * int(times * 10_000))

    assert seconds - 1 < folder.view_rest() <= seconds
    disk.passed = seconds + 0.5
    assert folder.view_rest() == 0


@pytest.mark.parametrize("name", [".state.json.swp", ".state.json.swo", ".#state.json"])
def test_an_open_editor_is_left_alone_for_ten_minutes_at_most(root: Path, name: str) -> None:
    disk = Clock()
    folder = published(root, disk)
    if name.startswith(".#"):
        (root / "tasks" / "t" / name).symlink_to("user@host.1234:5678")  # as Emacs does
    else:
        (root / "tasks" / "t" / name).write_bytes(b"b0VIM")

    disk.passed = 500
    assert folder.view_rest() > 0
    disk.passed = 601
    assert folder.view_rest() == 0


def test_a_link_in_the_place_of_the_view_is_refused(root: Path, tmp_path: Path) -> None:
    folder = published(root)
    secret = tmp_path / "secret.json"
    secret.write_bytes(BY_HAND)
    for link in (os.symlink, os.link):
        view_file(root).unlink()
        link(secret, view_file(root))

        with pytest.raises(UnsafeFile):
            folder.view()
        with pytest.raises(UnsafeFile):
            folder.swap_view(rendered(2), 2)

    assert secret.read_bytes() == BY_HAND
    assert leftovers(root) == []


class Clock(Interrupting):
    """A disk whose clock the test holds."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        self.naps = 0

    def now_ns(self) -> int:
        return super().now_ns() + int(self.passed * 1e9)

    def monotonic(self) -> float:
        return super().monotonic() + self.passed

    def sleep(self, seconds: float) -> None:
        self.naps += 1
        super().sleep(seconds)


class NoLease(Clock):
    """A disk on which nobody can tell who has a file open."""

    def alone_with(self, fd: int):  # type: ignore[no-untyped-def]
        raise LeaseUnsupported


class Typing(Interrupting):
    """A disk on which a person goes on saving, in place, whenever we wait."""

    def __init__(self, root: Path, saves: list[bytes]) -> None:
        super().__init__()
        self._root, self._saves = root, saves
        self.is_typing = False

    def sleep(self, seconds: float) -> None:
        if self.is_typing and self._saves:
            view_file(self._root).write_bytes(self._saves.pop(0))


def test_a_view_does_not_bring_back_a_task_that_somebody_deleted(root: Path) -> None:
    folder = published(root)
    shutil.rmtree(root / "tasks" / "t")
    folder.close()

    assert not folder.swap_view(rendered(1, late=True), 1)
    assert not (root / "tasks" / "t").exists()
