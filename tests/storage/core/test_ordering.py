from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast_storage.core.ordering import reorder

NAMES = st.lists(st.sampled_from("abcdefgh"), max_size=8)


@pytest.mark.parametrize(
    ("order", "wanted", "result"),
    [
        ("", "ab", "ab"),
        ("abc", "", "abc"),
        ("abc", "cb", "acb"),
        ("abc", "cba", "cba"),
        ("abc", "aXb", "aXbc"),
        ("abc", "Xb", "aXbc"),
        ("abc", "XYb", "aXYbc"),
        ("abc", "bX", "abXc"),
        ("abc", "X", "abcX"),
        ("abc", "cXa", "cXba"),
        ("abc", "XaYbZ", "XaYbZc"),
        ("abc", "bb", "abc"),
    ],
)
def test_new_names_stand_beside_their_neighbours(order: str, wanted: str, result: str) -> None:
    assert "".join(reorder(order, wanted)) == result


@settings(max_examples=100)
@given(NAMES, NAMES)
def test_nothing_is_taken_out_and_nothing_stands_twice(order: list[str], wanted: list[str]) -> None:
    order = list(dict.fromkeys(order))

    arranged = reorder(order, wanted)

    assert len(arranged) == len(set(arranged))
    assert set(arranged) == {*order, *wanted}


@settings(max_examples=100)
@given(NAMES, NAMES)
def test_names_given_together_keep_their_order(order: list[str], wanted: list[str]) -> None:
    order, wanted = list(dict.fromkeys(order)), list(dict.fromkeys(wanted))

    arranged = reorder(order, wanted)

    assert [name for name in arranged if name in wanted] == wanted


@settings(max_examples=100)
@given(NAMES, NAMES)
def test_names_not_given_keep_their_order(order: list[str], wanted: list[str]) -> None:
    order = list(dict.fromkeys(order))

    arranged = reorder(order, wanted)

    others = [name for name in order if name not in wanted]
    assert [name for name in arranged if name in others] == others


@settings(max_examples=100)
@given(NAMES, NAMES)
def test_ordering_twice_is_ordering_once(order: list[str], wanted: list[str]) -> None:
    once = reorder(list(dict.fromkeys(order)), wanted)

    assert reorder(once, wanted) == once
