from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast_storage.core.times import moment, stamp

MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


def test_a_moment_is_readable_and_in_utc() -> None:
    assert stamp(datetime(2026, 3, 1, 9, 5, 7, 80_000, UTC)) == "2026-03-01T09:05:07.080Z"


@settings(max_examples=50)
@given(MOMENTS)
def test_a_moment_is_read_back_to_the_millisecond(at: datetime) -> None:
    assert timedelta(0) <= at - moment(stamp(at)) < timedelta(milliseconds=1)


@settings(max_examples=50)
@given(MOMENTS, MOMENTS)
def test_the_order_of_moments_is_that_of_their_text(one: datetime, other: datetime) -> None:
    assert (stamp(one) <= stamp(other)) or one > other
