"""A step is done once, begun by one, and in doubt rather than done twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.core.errors import (
    ClaimReplaced,
    InDoubt,
    InvalidValue,
    RunClosed,
    StepDone,
    Unknown,
)

if TYPE_CHECKING:
    from tests.storage.workspace.conftest import Place

    from holdfast_storage.workspace import Workspace


async def in_doubt(place: Place) -> tuple[Workspace, str, str]:
    """Give a workspace with the step `pay` begun by a process that is gone: claim and key."""
    crashed = await place.open()
    begun = await crashed.caller("ann").begin("report", "pay")
    await crashed.close()
    return await place.open(), begun.claim, begun.idempotency_key


# --- marking ----------------------------------------------------------------------------------


async def test_a_step_is_marked_done_with_its_result(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["one", "two"])

    marked = await ann.mark("report", "one", {"rows": [1, 2.5, None]}, next="then two")

    assert (marked.step, marked.outcome, marked.already_done) == ("one", "done", False)
    assert (marked.progress.done, marked.progress.total) == (1, 2)
    assert (marked.next_step, marked.revision) == ("two", 2)
    [one, two] = (await ann.list_checkpoints("report", show="steps")).steps
    assert (one.step, one.status, one.attempts, one.by) == ("one", "done", 1, "ann")
    assert one.result == {"rows": [1, 2.5, None]}
    assert (two.step, two.status, two.attempts) == ("two", "pending", 0)
    assert (await ann.load("report")).next == "then two"


async def test_the_same_step_again_keeps_the_first_result_and_says_so(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.caller("ann").mark("report", "one", {"n": 1})

    same = await two.caller("bob").mark("report", "one", {"n": 1})
    other = await two.caller("bob").mark("report", "one", {"n": 2}, state={"ignored": 1})

    assert (same.already_done, same.differs, same.result) == (True, False, {"n": 1})
    assert (other.already_done, other.differs, other.result) == (True, True, {"n": 1})
    assert other.progress.done == 1
    assert (await two.caller("cat").load("report")).state == {}


async def test_numbers_that_only_look_equal_differ(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.mark("report", "one", 1)

    assert (await ann.mark("report", "one", True)).differs
    assert (await ann.mark("report", "one", 1.0)).differs
    assert not (await ann.mark("report", "one", 1)).differs


async def test_a_failed_step_may_succeed_and_a_done_one_may_not_fail(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.mark("report", "one", "timeout", outcome="failed")

    failed = await ann.load("report")
    done = await ann.mark("report", "one", "fine")
    with pytest.raises(StepDone) as refused:
        await ann.mark("report", "one", outcome="failed")

    assert (failed.progress.failed, failed.remaining) == (1, ["one"])
    assert (done.outcome, done.already_done, done.result) == ("done", False, "fine")
    assert "reopen" in refused.value.hint


async def test_a_skipped_step_is_finished_and_may_be_done_after_all(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["one"])

    skipped = await ann.mark("report", "one", outcome="skipped")
    again = await ann.mark("report", "one", outcome="skipped")
    done = await ann.mark("report", "one", "after all")

    assert (skipped.outcome, skipped.progress.done) == ("skipped", 1)
    assert again.already_done
    assert (done.outcome, done.already_done) == ("done", False)


async def test_a_step_may_carry_state(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", {"pages": 1, "found": [1]})

    await ann.mark("report", "one", state={"pages": 2}, append={"found": [2]})

    assert (await ann.load("report")).state == {"pages": 2, "found": [1, 2]}


async def test_a_steps_state_conflicts_as_a_saves_does(place: Place) -> None:
    one, two = await place.open(), await place.open()
    ann, bob = one.caller("ann"), two.caller("bob")
    await ann.save("report", {"ceo": "Ada"})
    await bob.load("report")
    await ann.save("report", {"ceo": "Bea"})

    marked = await bob.mark("report", "one", state={"ceo": "Cleo"})

    assert [(each.path, each.current) for each in marked.conflicts] == [("/state/ceo", "Bea")]
    assert (await ann.load("report")).progress.done == 1


async def test_after_three_attempts_the_hint_says_to_stop_trying(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    answers = [await ann.mark("report", "one", outcome="failed") for _ in range(3)]
    begun = await ann.begin("report", "one")

    assert "times" not in answers[1].hint
    assert "3 times" in answers[2].hint
    assert "4 times" in begun.hint


async def test_the_hint_says_what_is_left(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["one", "two"])
    await ann.begin("report", "two")

    only_running = await ann.mark("report", "one")
    nothing = await ann.mark("report", "two")

    assert only_running.next_step == ""
    assert "running" in only_running.hint
    assert "finish_task" in nothing.hint


async def test_an_outcome_that_is_none_is_refused(workspace: Workspace) -> None:
    with pytest.raises(InvalidValue) as refused:
        await workspace.caller("ann").mark("report", "one", outcome="pending")

    assert refused.value.where == "outcome"


async def test_a_steps_refs_are_listed(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.mark("report", "one", 1, refs=["https://example.com/a"])

    [listed] = (await ann.list_checkpoints("report", show="steps")).steps

    assert listed.refs == ["https://example.com/a"]


# --- beginning --------------------------------------------------------------------------------


async def test_begin_hands_out_the_next_free_planned_step(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["one", "two", "three"])
    await ann.mark("report", "one")

    first, second = await ann.begin("report"), await ann.begin("report")

    assert (first.go, first.step, first.status, first.attempts) == (True, "two", "running", 1)
    assert (second.go, second.step) == (True, "three")
    assert first.claim != second.claim
    assert first.idempotency_key != second.idempotency_key


async def test_failed_steps_are_handed_out_when_nothing_else_is_left(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["one", "two"])
    await ann.mark("report", "one", outcome="failed")

    assert (await ann.begin("report")).step == "two"
    assert (await ann.begin("report")).step == "one"
    left = await ann.begin("report")

    assert (left.go, left.status, left.step) == (False, "nothing_left", "")


async def test_begin_without_a_plan_has_nothing_to_hand_out(workspace: Workspace) -> None:
    begun = await workspace.caller("ann").begin("report")

    assert (begun.go, begun.status) == (False, "nothing_left")
    assert not (await workspace.caller("ann").load("report")).found


async def test_a_running_step_is_not_begun_by_another(place: Place) -> None:
    one, two = await place.open(), await place.open()
    first = await one.caller("ann").begin("report", "pay")

    second = await two.caller("bob").begin("report", "pay")

    assert (second.go, second.status, second.held_by) == (False, "running", "ann")
    assert (second.claim, second.until) == ("", first.until)
    assert second.until == "2026-03-01T09:15:00.000Z"


async def test_its_holder_may_ask_again_and_gets_more_time(place: Place) -> None:
    ann = (await place.open()).caller("ann")
    first = await ann.begin("report", "pay")
    place.clock.forward(minutes=10)

    again = await ann.begin("report", "pay", claim=first.claim)

    assert (again.go, again.claim, again.attempts) == (True, first.claim, 1)
    assert again.idempotency_key == first.idempotency_key
    assert again.until == "2026-03-01T09:25:00.000Z"


async def test_a_finished_step_is_not_begun_and_its_result_is_given(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.mark("report", "pay", {"id": 7})
    await ann.mark("report", "skip", outcome="skipped")

    done, skipped = await ann.begin("report", "pay"), await ann.begin("report", "skip")

    assert (done.go, done.status, done.result) == (False, "done", {"id": 7})
    assert (skipped.go, skipped.status, skipped.result) == (False, "skipped", None)


async def test_a_step_begun_can_open_a_run(workspace: Workspace) -> None:
    ann = workspace.caller("ann")

    begun = await ann.begin("report", "pay")

    assert (begun.go, begun.revision) == (True, 1)
    assert (await ann.load("report")).run == 1


async def test_the_lease_is_a_setting(place: Place) -> None:
    place.write_settings(b'{"format": 1, "workspace": "w", "lease_seconds": 60}')
    ann = (await place.open()).caller("ann")

    assert (await ann.begin("report", "pay")).until == "2026-03-01T09:01:00.000Z"


# --- doubt ------------------------------------------------------------------------------------


async def test_a_crash_leaves_a_doubt_with_a_new_claim_and_the_same_key(place: Place) -> None:
    workspace, claim, key = await in_doubt(place)
    bob = workspace.caller("bob")

    brief = await bob.load("report")
    begun = await bob.begin("report", "pay")

    assert (brief.in_doubt, brief.remaining, brief.running) == (["pay"], [], [])
    assert (begun.go, begun.status) == (False, "in_doubt")
    assert begun.claim not in ("", claim)
    assert begun.idempotency_key == key
    assert "begin_step" in begun.hint


async def test_with_the_core_tools_the_hint_names_what_people_can_do(place: Place) -> None:
    workspace, _, _ = await in_doubt(place)

    brief = await workspace.caller("bob", core_only=True).load("report")

    assert "begin_step" not in brief.hint
    assert "holdfast resolve" in brief.hint


async def test_it_happened_the_newest_claim_confirms_it(place: Place) -> None:
    workspace, _, _ = await in_doubt(place)
    bob = workspace.caller("bob")
    begun = await bob.begin("report", "pay")

    marked = await bob.mark("report", "pay", {"found": True}, claim=begun.claim)

    assert (marked.outcome, marked.already_done) == ("done", False)


async def test_it_did_not_happen_the_newest_claim_tries_again(place: Place) -> None:
    workspace, _, key = await in_doubt(place)
    bob = workspace.caller("bob")
    begun = await bob.begin("report", "pay")

    again = await bob.begin("report", "pay", claim=begun.claim, retry=True)

    assert (again.go, again.status, again.attempts) == (True, "running", 2)
    assert again.idempotency_key == key
    assert (await bob.mark("report", "pay", claim=again.claim)).outcome == "done"


async def test_an_older_claim_confirms_nothing_and_its_result_is_kept(place: Place) -> None:
    workspace, claim, _ = await in_doubt(place)
    await workspace.caller("bob").begin("report", "pay")

    with pytest.raises(ClaimReplaced) as refused:
        await workspace.caller("ann").mark("report", "pay", {"paid": 1}, claim=claim)

    assert refused.value.held_by == "bob"
    [kept] = (await place.kept("conflicts")).values()
    assert json.loads(kept)["result"] == {"paid": 1}
    assert (await workspace.caller("cat").load("report")).in_doubt == ["pay"]


@pytest.mark.parametrize(
    "result",
    [float("nan"), {1, 2}, "x" * 70_000, "\ud800"],
    ids=["NaN", "a set", "too large", "half a character"],
)
async def test_a_result_that_cannot_be_kept_does_not_hide_the_refusal(
    place: Place, result: Any
) -> None:
    workspace, claim, _ = await in_doubt(place)
    await workspace.caller("bob").begin("report", "pay")

    with pytest.raises(ClaimReplaced) as refused:
        await workspace.caller("ann").mark("report", "pay", result, claim=claim)

    assert "not kept" in refused.value.hint
    assert await place.kept("conflicts") == {}


async def test_no_claim_at_all_confirms_nothing_that_is_in_doubt(place: Place) -> None:
    workspace, _, _ = await in_doubt(place)

    with pytest.raises(ClaimReplaced):
        await workspace.caller("bob").mark("report", "pay")


async def test_a_retry_needs_the_newest_claim(place: Place) -> None:
    workspace, claim, _ = await in_doubt(place)
    bob = workspace.caller("bob")
    await bob.begin("report", "pay")

    with pytest.raises(ClaimReplaced):
        await workspace.caller("cat").begin("report", "pay", claim=claim, retry=True)


async def test_a_lease_that_ran_out_leaves_a_doubt_and_time_decides_no_confirm(
    place: Place,
) -> None:
    workspace = await place.open()
    ann = workspace.caller("ann")
    begun = await ann.begin("report", "pay")
    place.clock.forward(minutes=16)

    doubtful = await workspace.caller("bob").load("report")
    marked = await ann.mark("report", "pay", claim=begun.claim)

    assert doubtful.in_doubt == ["pay"]
    assert marked.outcome == "done"


async def test_a_caller_need_not_repeat_the_claim_it_was_given(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.begin("report", "pay")

    assert (await ann.mark("report", "pay")).outcome == "done"


async def test_a_claim_does_not_survive_its_step(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    begun = await ann.begin("report", "pay")
    await ann.mark("report", "pay", outcome="failed", claim=begun.claim)

    marked = await ann.mark("report", "pay", claim=begun.claim)

    assert marked.outcome == "done"


# --- what people decide -----------------------------------------------------------------------


@pytest.mark.parametrize(("happened", "status"), [(True, "done"), (False, "pending")])
async def test_a_person_settles_a_doubt(place: Place, happened: bool, status: str) -> None:
    workspace, _, key = await in_doubt(place)

    await workspace.resolve("report", "pay", happened=happened, result={"by": "hand"}, by="human:z")
    await workspace.resolve("report", "pay", happened=happened)

    [step] = (await workspace.caller("bob").list_checkpoints("report", show="steps")).steps
    assert (step.status, step.by) == (status, "human:z")
    if not happened:
        begun = await workspace.caller("bob").begin("report", "pay")
        assert (begun.go, begun.idempotency_key) == (True, key)


async def test_there_is_nothing_to_settle_where_there_is_no_doubt(place: Place) -> None:
    workspace, _, _ = await in_doubt(place)
    await workspace.caller("bob").mark("report", "other")

    with pytest.raises(Unknown) as unknown:
        await workspace.resolve("report", "other", happened=False)

    assert unknown.value.similar == ["pay"]


async def test_a_person_ends_a_claim_and_the_step_is_in_doubt(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    begun = await ann.begin("report", "pay")

    await workspace.release("report", "pay")

    with pytest.raises(Unknown):
        await workspace.release("report", "pay")
    with pytest.raises(ClaimReplaced):
        await ann.mark("report", "pay", claim=begun.claim)
    with pytest.raises(InDoubt) as refused:
        await workspace.caller("bob").mark("report", "pay")
    assert refused.value.idempotency_key == begun.idempotency_key
    with pytest.raises(ClaimReplaced):
        await workspace.caller("bob").begin("report", "pay", retry=True)


async def test_a_reopened_step_is_pending_with_another_key(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    first = await ann.begin("report", "pay")
    await ann.mark("report", "pay", {"n": 1})

    await workspace.reopen("report", "pay")
    revision = await workspace.reopen("report", "pay")
    second = await ann.begin("report", "pay")

    assert revision == 3
    assert (second.go, second.attempts) == (True, 1)
    assert second.idempotency_key != first.idempotency_key
    assert [(c.by, c.path) for c in second.changes] == [("human", "/plan/pay")]


async def test_a_step_that_never_was_cannot_be_reopened(workspace: Workspace) -> None:
    await workspace.caller("ann").mark("report", "doc-001")

    with pytest.raises(Unknown) as unknown:
        await workspace.reopen("report", "doc-01")

    assert unknown.value.similar == ["doc-001"]


async def test_what_people_decide_needs_a_task_and_an_open_run(workspace: Workspace) -> None:
    with pytest.raises(Unknown):
        await workspace.reopen("nothing", "pay")
    ann = workspace.caller("ann")
    await ann.mark("report", "pay")
    await ann.finish("report")

    with pytest.raises(RunClosed):
        await workspace.reopen("report", "pay")
    with pytest.raises(RunClosed):
        await workspace.resolve("report", "pay", happened=True)
    with pytest.raises(RunClosed):
        await workspace.release("report", "pay")


async def test_a_person_finishes_a_step_in_state_json(place: Place) -> None:
    workspace, _, _ = await in_doubt(place)
    await place.edit(workspace, lambda view: view["plan"].update(pay="done", extra="pending"))

    bob = workspace.caller("bob")
    steps = (await bob.list_checkpoints("report", show="steps")).steps

    assert [(each.step, each.status, each.by, each.result) for each in steps] == [
        ("pay", "done", "human", None),
        ("extra", "pending", "", None),
    ]
    assert (await bob.mark("report", "pay", 1)).already_done


async def test_a_paused_task_hands_out_nothing(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    await ann.save("report", plan=["pay"])
    await workspace.pause("report")

    begun = await ann.begin("report", "pay")

    assert (begun.go, begun.status, begun.claim) == (False, "paused", "")
    assert "stop" in begun.hint


async def test_what_comes_with_a_step_that_is_done_already_is_not_looked_at(
    workspace: Workspace,
) -> None:
    ann = workspace.caller("ann")
    await ann.mark("report", "one", {"rows": 1})

    again = await ann.mark("report", "one", state={"a": float("nan")}, append={"b": 1})  # type: ignore[dict-item]

    assert (again.already_done, again.result) == (True, {"rows": 1})
    with pytest.raises(InvalidValue):
        await ann.mark("report", "two", state={"a": float("nan")})
