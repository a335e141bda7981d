from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdfast_storage.core.retention import Kept, Retention, Verdict, plan_retention

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def kept(
    checkpoint: int, hours: float = 1000, *, milestone: bool = False, pinned: bool = False
) -> Kept:
    return Kept(checkpoint, NOW - timedelta(hours=hours), milestone, pinned, bytes=checkpoint * 10)


def plan(checkpoints: list[Kept], keep_last: int, older_than_hours: float) -> dict[int, str]:
    """Give why each one goes or, marked with +, stays."""
    verdicts = plan_retention(checkpoints, Retention(keep_last, older_than_hours), NOW)
    return {v.checkpoint: f"+{v.why}" if v.stays else v.why for v in verdicts}


def test_by_default_the_newest_20_and_those_of_the_last_day_stay() -> None:
    old = [kept(n) for n in range(1, 31)]
    young = [kept(0, hours=23)]

    verdicts = plan_retention(young + old, Retention(), NOW)

    assert {v.checkpoint for v in verdicts if v.stays} == {0, *range(11, 31)}


def test_each_verdict_says_why() -> None:
    checkpoints = [
        kept(1),
        kept(2, milestone=True),
        kept(3, pinned=True),
        kept(4, hours=1),
        kept(5),
        kept(6),
    ]

    assert plan(checkpoints, keep_last=2, older_than_hours=24) == {
        1: "older than 24 h and not among the newest 2",
        2: "+milestone",
        3: "+pinned",
        4: "+younger than 24 h",
        5: "+among the newest 2",
        6: "+the newest",
    }


def test_the_newest_stays_whatever_the_policy() -> None:
    assert plan([kept(1), kept(2)], keep_last=0, older_than_hours=0) == {
        1: "not the newest",
        2: "+the newest",
    }


def test_a_checkpoint_exactly_as_old_as_the_limit_goes() -> None:
    checkpoints = [kept(1, hours=24), kept(2)]

    assert plan(checkpoints, keep_last=1, older_than_hours=24)[1] == (
        "older than 24 h and not the newest"
    )


def test_half_hours_are_said_as_such() -> None:
    assert plan([kept(1, hours=0.2), kept(2)], 1, 0.5)[1] == "+younger than 0.5 h"


def test_a_checkpoint_from_the_future_is_young_unless_age_is_no_reason() -> None:
    checkpoints = [kept(1, hours=-5), kept(2)]

    assert plan(checkpoints, 1, 24)[1] == "+younger than 24 h"
    assert plan(checkpoints, 1, 0)[1] == "not the newest"


def test_verdicts_come_in_the_order_given_with_their_sizes() -> None:
    verdicts = plan_retention([kept(9), kept(3)], Retention(1, 24), NOW)

    assert verdicts == [
        Verdict(9, True, "the newest", 90),
        Verdict(3, False, "older than 24 h and not the newest", 30),
    ]


def test_of_no_checkpoints_none_go() -> None:
    assert plan_retention([], Retention(), NOW) == []


CHECKPOINTS = st.lists(
    st.builds(
        kept,
        st.integers(1, 50),
        st.floats(-10, 100),
        milestone=st.booleans(),
        pinned=st.booleans(),
    ),
    unique_by=lambda one: one.checkpoint,
)


@given(CHECKPOINTS, st.integers(0, 60), st.floats(0, 1e300))
def test_what_stays_stays_when_the_plan_is_made_again(
    checkpoints: list[Kept], keep_last: int, hours: float
) -> None:
    policy = Retention(keep_last, hours)
    stays = {v.checkpoint for v in plan_retention(checkpoints, policy, NOW) if v.stays}
    survivors = [one for one in checkpoints if one.checkpoint in stays]

    assert all(verdict.stays for verdict in plan_retention(survivors, policy, NOW))


@given(CHECKPOINTS, st.integers(0, 60), st.floats(0, 200))
def test_marked_checkpoints_and_the_newest_never_go(
    checkpoints: list[Kept], keep_last: int, hours: float
) -> None:
    goes = {
        v.checkpoint
        for v in plan_retention(checkpoints, Retention(keep_last, hours), NOW)
        if not v.stays
    }

    assert not goes & {one.checkpoint for one in checkpoints if one.milestone or one.pinned}
    assert max((one.checkpoint for one in checkpoints), default=0) not in goes
