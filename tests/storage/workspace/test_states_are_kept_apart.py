"""What a program does with its objects after a call is no change to what was kept, and the reverse."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress
from typing import Any

import pytest

from holdfast_storage import Workspace
from holdfast_storage.core.errors import InvalidValue, LoadFirst, TooLarge
from holdfast_storage.core.strict_json import MAX_DEPTH


def large(seed: int) -> dict[str, Any]:
    """Large enough to be kept as bytes and written in full."""
    return {f"k{n}": {"note": f"{seed}-{n} " * 20, "tags": [seed, n]} for n in range(300)}


async def test_a_state_changed_after_it_was_saved_is_the_one_that_was_saved(
    workspace: Workspace,
) -> None:
    caller = workspace.caller("agent")
    for seed in (1, 2, 3):
        state = large(seed)
        await caller.save("report", state, replace=True)
        state["k0"]["note"] = "changed behind our back"
        del state["k1"]

    assert (await caller.load("report", max_tokens=10**6)).state == large(3)


async def test_a_state_changed_while_it_is_being_saved_is_the_one_that_was_given(
    workspace: Workspace,
) -> None:
    caller = workspace.caller("agent")
    await caller.save("report", {"a": 1})
    state = large(1)

    saving = asyncio.create_task(caller.save("report", state, replace=True))
    await asyncio.sleep(0)
    state.clear()
    await saving

    assert (await caller.load("report", max_tokens=10**6)).state == large(1)


async def test_a_loaded_state_can_be_changed_and_the_next_load_is_whole(
    workspace: Workspace,
) -> None:
    caller = workspace.caller("agent")
    await caller.save("report", large(1), replace=True)

    loaded = await caller.load("report", max_tokens=10**6)
    loaded.state["k0"]["tags"].append("mine")
    now = await workspace.state_at("report", 0)
    now.clear()

    assert (await caller.load("report", max_tokens=10**6)).state == large(1)


async def test_a_little_merged_into_a_state_that_nobody_has_looked_at_is_all_that_changes(
    workspace: Workspace,
) -> None:
    caller = workspace.caller("agent")
    await caller.save("report", large(1), replace=True)
    await caller.save("report", large(2), replace=True)
    await caller.save("report", {"k7": {"note": "new"}})

    expected = large(2)
    expected["k7"]["note"] = "new"
    assert (await caller.load("report", max_tokens=10**6)).state == expected


async def test_others_are_told_what_a_whole_new_state_changed(workspace: Workspace) -> None:
    one, other = workspace.caller("one"), workspace.caller("other")
    await one.save("report", large(1) | {"ceo": "Ann"}, replace=True)
    await other.load("report", max_tokens=10**6)
    await one.save("report", {"ceo": "Bea"} | large(2), replace=True)

    told = (await other.mark("report", "step")).changes

    assert (told[0].path, told[0].old, told[0].new) == ("/state/ceo", "Ann", "Bea")


async def test_the_same_large_state_again_is_the_same_save(workspace: Workspace) -> None:
    one, other = workspace.caller("one"), workspace.caller("other")
    first = await one.save("report", large(1), replace=True)
    again = await one.save("report", large(1), replace=True)
    await other.load("report", max_tokens=10**6)
    turned = dict(reversed(large(1).items()))
    in_another_order = await other.save("report", turned, replace=True)

    assert [again.checkpoint, in_another_order.checkpoint] == [first.checkpoint] * 2


async def test_parts_that_come_in_another_order_cost_what_changed(workspace: Workspace) -> None:
    caller = workspace.caller("agent")
    parts = [{f"{part}-{n}": f"{part}{n} " * 30 for n in range(200)} for part in "abc"]
    sizes: list[int] = []
    for number in range(4):
        turned = {f"part-{(number + n) % 3}": parts[(number + n) % 3] for n in range(3)}
        await caller.save("report", turned | {"n": number}, replace=True)
        listed = await caller.list_checkpoints("report", limit=1)
        sizes.append(listed.checkpoints[0].bytes)

    assert max(sizes[1:]) < sizes[0] / 100


async def test_an_amount_of_money_costs_nothing_extra(workspace: Workspace) -> None:
    """Reserved keys begin with the same sign."""
    caller = workspace.caller("agent")
    await caller.save("report", large(1) | {"price": "$5"}, replace=True)
    await caller.save("report", large(2) | {"price": "$5"}, replace=True)

    kept = await workspace.desk.ask("report", lambda fold: fold.snapshot.raw)

    assert b'"$5"' in kept or workspace.location == "memory:"


async def test_one_value_named_many_times_over_is_not_let_past_the_limit(
    workspace: Workspace,
) -> None:
    caller = workspace.caller("agent")
    most = workspace.settings.limits.state_bytes
    await caller.save("report", {"big": "x" * (most // 3)})
    cut = {"$cut": most // 3, "path": "/big"}

    with pytest.raises(TooLarge):
        await caller.save("report", {f"k{n}": cut for n in range(5)} | {"big": cut}, replace=True)


async def test_whole_states_are_remembered_as_bytes_and_told_as_values(
    workspace: Workspace,
) -> None:
    one, other = workspace.caller("one"), workspace.caller("other")
    await one.save("report", large(1), replace=True)
    await other.load("report")
    await one.save("report", large(2), replace=True)

    told = (await other.mark("report", "step")).changes

    # To tell of them must not leave the objects behind, which take ten to thirty times as much.
    noted = await workspace.desk.ask("report", lambda fold: list(fold.changes)[-1])
    assert told
    assert noted.values() == (large(1), large(2))
    if workspace.location != "memory:":
        assert (type(noted.old), type(noted.new)) == (bytes, bytes)


@pytest.mark.parametrize("as_step", [False, True])
async def test_a_cut_value_cannot_be_nested_deeper_with_every_save(
    workspace: Workspace, as_step: bool
) -> None:
    caller = workspace.caller("agent")
    await caller.save("report", {"a": {"v": 1}})
    deeper = {"a": {"x": {"$cut": 5, "path": "/a"}}}
    made = 1

    with pytest.raises(InvalidValue, match="levels deep"):
        for made in range(1, 200):
            if as_step:
                await caller.mark("report", f"s{made}", state=deeper)
            await caller.save("report", deeper, replace=True, next=f"{made + 1}")

    assert 20 < made < MAX_DEPTH
    brief = await workspace.caller("other").load("report", max_tokens=100_000)
    assert brief.checkpoint == made
    assert not brief.warnings


async def test_a_save_that_was_refused_is_made_when_it_is_sent_again(workspace: Workspace) -> None:
    one, other = workspace.caller("one"), workspace.caller("other")
    await one.save("report", {"a": 1})
    with pytest.raises(LoadFirst):
        await other.save("report", {"a": 2})
    await other.load("report")

    again = await other.save("report", {"a": 2})

    assert again.checkpoint == 2


async def test_a_refused_save_keeps_nothing_of_the_call_alive(workspace: Workspace) -> None:
    class Watched:
        """Lives in the frame of whoever calls."""

    caller = workspace.caller("agent")

    async def refused() -> weakref.ref[Watched]:
        watched = Watched()
        with suppress(InvalidValue):
            await caller.save("report", {"a": watched})
        return weakref.ref(watched)

    found = await refused()

    # The event loop, and the thread that told it, hold for a moment what was told.
    async with asyncio.timeout(30):
        while found() is not None:
            await asyncio.sleep(0.001)
            gc.collect()
