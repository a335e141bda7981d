"""What is particular to the memory engine; what it has in common is in test_conformance."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from holdfast_storage.conformance.harness import (
    Recording,
    drafted,
    ids_of,
    log_of,
    recorded,
    records_of,
    rendered,
    see_through,
    view_itself,
)
from holdfast_storage.core.errors import JournalReplaced, NotSaved
from holdfast_storage.core.records import DamagedLine, Draft, Record
from holdfast_storage.engines.memory import MemoryEngine, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast_storage.core.records import Entry
    from holdfast_storage.engines.memory import Mode

_SECOND = 1_000_000_000
_BY_HAND = b'{"state": {"by": "hand"}}'


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_ns = 1_750_000_000 * _SECOND

    def __call__(self) -> int:
        return self.now_ns


# --- stores and processes ---------------------------------------------------------------------


async def test_every_engine_has_a_workspace_of_its_own_unless_given_one() -> None:
    one, another = MemoryEngine(), MemoryEngine()

    await recorded(one, "t", drafted("a"))

    assert await log_of(another, "t") == []
    assert one.workspace_id != another.workspace_id


async def test_a_store_outlives_its_engines() -> None:
    store = MemoryStore()
    engine = MemoryEngine(store)
    accepted = await recorded(engine, "t", drafted("a"))
    await engine.close()

    assert await records_of(MemoryEngine(store), "t") == accepted


async def test_a_closed_engine_saves_nothing() -> None:
    store = MemoryStore()
    engine = MemoryEngine(store)
    await engine.close()

    with pytest.raises(NotSaved):
        await engine.commit("t", Recording(drafted("a")))

    assert await log_of(MemoryEngine(store), "t") == []


async def test_randomness_comes_in_through_an_argument() -> None:
    numbers = count(1)

    def random_word() -> str:
        return f"word {next(numbers)}"

    engine = MemoryEngine(MemoryStore("a workspace"), random_word=random_word)
    await recorded(engine, "t", drafted("a"))

    assert (engine.workspace_id, engine.process) == ("a workspace", "word 1")
    assert await engine.rewrite("t", {1: drafted("b")}, "prune") == "prune-word 2"


# --- comparing and appending ------------------------------------------------------------------


async def test_a_record_that_slips_in_makes_a_comparing_engine_decide_again() -> None:
    store = MemoryStore()
    other = MemoryEngine(store)
    slipping_in = iter([drafted("first"), drafted("second")])

    async def somebody_is_faster() -> None:
        if draft := next(slipping_in, None):
            await other.commit("t", Recording(draft))

    engine = MemoryEngine(store, mode="compare_and_append", give_way=somebody_is_faster)
    operation = Recording(_numbered)

    await engine.commit("t", operation)

    assert await ids_of(other, "t") == ["first", "second", "number 3"]
    assert [len(entries) for entries in operation.shown] == [0, 1, 2]
    assert [record.seq for record in operation.accepted if record] == [3]


async def test_a_rewrite_that_slips_in_makes_a_comparing_engine_decide_again() -> None:
    store = MemoryStore()
    other = MemoryEngine(store)
    await recorded(other, "t", drafted("old"))
    slipping_in = iter([drafted("new")])

    async def somebody_prunes() -> None:
        if draft := next(slipping_in, None):
            await other.rewrite("t", {1: draft}, "prune")

    engine = MemoryEngine(store, mode="compare_and_append", give_way=somebody_prunes)
    operation = Recording(_numbered)

    await engine.commit("t", operation)

    shown = [entry.id for [entry] in operation.shown if isinstance(entry, Record)]
    assert shown == ["old", "new"]
    assert await ids_of(engine, "t") == ["new", "number 2"]


async def test_a_refusal_after_deciding_again_leaves_nothing_behind() -> None:
    store = MemoryStore()
    other = MemoryEngine(store)
    slipping_in = iter([drafted("first")])

    async def somebody_is_faster() -> None:
        if draft := next(slipping_in, None):
            await other.commit("t", Recording(draft))

    def only_the_first(entries: Sequence[Entry]) -> Draft:
        if entries:
            raise ValueError("too late")
        return drafted("late")

    engine = MemoryEngine(store, mode="compare_and_append", give_way=somebody_is_faster)
    operation = Recording(only_the_first)

    with pytest.raises(ValueError, match="too late"):
        await engine.commit("t", operation)

    assert await ids_of(other, "t") == ["first"]
    assert operation.accepted == []


@pytest.mark.parametrize("mode", ["locked", "compare_and_append"])
async def test_whoever_knows_more_than_there_is_must_read_anew(mode: Mode) -> None:
    engine = MemoryEngine(mode=mode)
    await recorded(engine, "t", drafted("a"))

    with pytest.raises(JournalReplaced):
        await engine.commit("t", Recording(drafted("b"), known=2))

    assert await ids_of(engine, "t") == ["a"]


# --- places -----------------------------------------------------------------------------------


async def test_a_line_rewritten_at_the_same_length_is_in_another_place() -> None:
    engine = MemoryEngine()
    [before] = await recorded(engine, "t", drafted("a", n=1))
    await engine.rewrite("t", {1: drafted("a", n=2)}, "prune")
    [after] = await records_of(engine, "t")

    old, new = await engine.fetch("t", [before.place, after.place])

    assert before.place.length == after.place.length
    assert isinstance(old, DamagedLine)
    assert new == after


# --- the view ---------------------------------------------------------------------------------


async def test_an_engines_own_rendering_is_no_change_to_it_and_may_be_one_to_others() -> None:
    store = MemoryStore()
    engine, other = MemoryEngine(store), MemoryEngine(store)

    await engine.swap_view("t", rendered("t", 1), 1)

    assert not engine.may_have_changed("t")
    assert other.may_have_changed("t")


async def test_what_one_process_saw_through_another_has_not() -> None:
    store = MemoryStore()
    engine, other = MemoryEngine(store), MemoryEngine(store)
    engine.person_saves("t", _BY_HAND)
    await see_through(engine, "t")

    published = await other.swap_view("t", rendered("t", 1), 1)

    assert not published
    assert await view_itself(other, "t") == _BY_HAND


async def test_a_leftover_may_be_a_change() -> None:
    engine = MemoryEngine()
    await engine.swap_view("t", rendered("t", 1), 1)

    engine.leave_over("t", "displaced", _BY_HAND)

    assert engine.may_have_changed("t")


async def test_a_view_that_a_person_removed_is_rendered_again() -> None:
    engine = MemoryEngine()
    await engine.swap_view("t", rendered("t", 1), 1)
    engine.person_removes("t")
    gone = await engine.view("t")

    await engine.swap_view("t", rendered("t", 1), 1)

    assert gone == []
    assert await view_itself(engine, "t") == rendered("t", 1)


async def test_an_edit_has_the_time_at_which_it_was_saved() -> None:
    clock = Clock()
    engine = MemoryEngine(now_ns=clock)

    engine.person_saves("now", _BY_HAND)
    engine.person_saves("once", _BY_HAND, mtime_ns=7)

    assert [sighting.mtime_ns for sighting in await engine.view("now")] == [clock.now_ns]
    assert [sighting.mtime_ns for sighting in await engine.view("once")] == [7]


async def test_a_young_view_is_left_alone_for_as_long_as_asked() -> None:
    clock = Clock()
    engine = MemoryEngine(view_rest_seconds=1.0, now_ns=clock)
    await engine.swap_view("t", rendered("t", 1), 1)
    at_once = engine.view_rest("t")

    clock.now_ns += _SECOND // 4
    later = engine.view_rest("t")
    clock.now_ns += _SECOND

    assert (at_once, later, engine.view_rest("t")) == (1.0, 0.75, 0.0)


# --- the surroundings -------------------------------------------------------------------------


async def test_the_trash_is_emptied_by_the_clock() -> None:
    clock = Clock()
    engine = MemoryEngine(now_ns=clock)
    await recorded(engine, "t", drafted("a"), drafted("b"))
    await engine.rewrite("t", {1: drafted("a", pruned=True)}, "prune")
    clock.now_ns += 60 * _SECOND
    younger = await engine.rewrite("t", {2: drafted("b", pruned=True)}, "prune")

    await engine.empty_trash(older_than_seconds=30)

    [left] = await engine.trash()
    assert (left.name, left.at) == (younger, "2025-06-15T15:07:40.000Z")


async def test_only_saves_count_as_checkpoints_in_the_trash() -> None:
    engine = MemoryEngine()
    save = drafted("a", "save", checkpoint=7)
    leaning = drafted("b", "save", checkpoint=8, changes={})
    await recorded(engine, "t", save, leaning, drafted("c", "pin", checkpoint=7))
    pruned = drafted("a", "save", checkpoint=7, pruned=True)
    full = drafted("b", "save", checkpoint=8, state={})

    await engine.rewrite("t", {1: pruned, 2: full, 3: drafted("c", "pin", pruned=True)}, "prune")

    [trashed] = await engine.trash()
    assert trashed.checkpoints == (7,)


async def test_old_loads_are_forgotten() -> None:
    engine = MemoryEngine()

    for n in range(1005):
        await engine.log_load("t", {"n": n})

    assert [line["n"] for line in await engine.loads("t")] == list(range(5, 1005))


async def test_changes_before_anybody_looks_are_announced_together() -> None:
    engine = MemoryEngine()
    watching = engine.watch()

    await recorded(engine, "a", drafted("1"), drafted("2"))
    engine.person_saves("b", _BY_HAND)

    assert await anext(watching) == {"a", "b"}


async def test_repairing_moves_a_broken_view_to_quarantine() -> None:
    engine = MemoryEngine()
    await recorded(engine, "t", drafted("a"))
    engine.person_saves("t", b'{\n"state": {,}}')

    [found] = await engine.check(repair=False)
    still_there = await view_itself(engine, "t")
    await engine.check(repair=True)

    assert (found.file, found.task, found.line) == ("tasks/t/state.json", "t", 2)
    assert still_there == b'{\n"state": {,}}'
    assert await engine.view("t") == []
    assert await engine.kept("t", "quarantine") == {"state.json": b'{\n"state": {,}}'}
    assert await engine.check(repair=False) == []


async def test_broken_settings_are_a_finding() -> None:
    engine = MemoryEngine(MemoryStore(settings=b"{]"))

    [found] = await engine.check(repair=True)

    assert (found.file, found.repair) == ("holdfast.json", "")


async def test_nothing_is_kept_or_rewritten_while_writing_fails() -> None:
    engine = MemoryEngine()
    before = await recorded(engine, "t", drafted("a"))

    with engine.failing("no space left"):
        with pytest.raises(NotSaved, match="no space left"):
            await engine.keep("t", "conflicts", "a.json", b"{}")
        with pytest.raises(NotSaved, match="no space left"):
            await engine.rewrite("t", {1: drafted("b")}, "prune")

    assert await engine.kept("t", "conflicts") == {}
    assert await records_of(engine, "t") == before
    assert await engine.trash() == []


def _numbered(entries: Sequence[Entry]) -> Draft:
    return drafted(f"number {len(entries) + 1}")
