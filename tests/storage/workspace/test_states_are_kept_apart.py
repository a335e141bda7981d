"""What a program does with its objects after a call is no change to what was kept, and the reverse."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast_storage import Workspace


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
