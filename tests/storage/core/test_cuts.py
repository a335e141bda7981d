from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast_storage.core.cuts import cut, is_cut, uncut
from holdfast_storage.core.delta import at, path_of
from holdfast_storage.core.errors import InvalidValue, TooLarge
from holdfast_storage.core.strict_json import encode, is_object, same

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 9) | st.text(max_size=60),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc/~é"), inner, max_size=4)
    ),
    max_leaves=12,
)
MUCH = 2**24
STATES = st.dictionaries(st.sampled_from(["a", "b", "c/d", "ü"]), VALUES, max_size=4)


def placeholders(value: Any) -> list[dict[str, Any]]:
    if is_cut(value):
        return [value]
    children: list[Any] = list(value.values()) if is_object(value) else []
    return [found for child in children for found in placeholders(child)]


def test_what_fits_comes_whole() -> None:
    state = {"model": "small", "totals": {"pages": 812}}

    assert cut(state, 100) is state


def test_a_value_too_large_comes_by_name_and_size() -> None:
    state = {"model": "small", "findings": ["x" * 500]}

    placeholder = {"$cut": 504, "path": "/findings", "items": 1}
    assert cut(state, 100) == {"model": "small", "findings": placeholder}


def test_small_values_come_whole_before_a_part_of_a_large_one() -> None:
    state = {"big": {"one": "x" * 100, "two": "y" * 400}, "small": "z" * 60}

    shown = cut(state, 300)

    assert shown["small"] == state["small"]
    assert shown["big"] == {"one": "x" * 100, "two": {"$cut": 402, "path": "/big/two"}}


def test_the_path_of_a_part_is_that_in_the_whole_state() -> None:
    shown = cut({"two": "y" * 400}, 60, ("big", "a/b"))

    assert shown == {"two": {"$cut": 402, "path": "/big/a~1b/two"}}


def test_an_object_of_too_many_keys_is_cut_as_a_whole() -> None:
    state = {f"key-{n}": "x" * 50 for n in range(1000)}

    shown = cut(state, 200)

    assert shown == {"$cut": len(encode(state)), "path": ""}


@settings(max_examples=100)
@given(STATES, st.integers(40, 400))
def test_the_budget_is_kept(state: Any, budget: int) -> None:
    shown = cut(state, budget)

    # The placeholder of the whole is the least there can be.
    assert len(encode(shown)) <= max(budget, len(encode({"$cut": 10**6, "path": ""})))


@settings(max_examples=100)
@given(STATES, st.integers(40, 400))
def test_everything_cut_can_be_fetched_by_its_path(state: Any, budget: int) -> None:
    for placeholder in placeholders(cut(state, budget)):
        found = at(state, path_of(placeholder["path"]))

        assert len(encode(found)) == placeholder["$cut"]


@settings(max_examples=100)
@given(STATES, st.integers(40, 400))
def test_a_state_sent_back_as_it_was_shown_is_unchanged(state: Any, budget: int) -> None:
    assert same(uncut(cut(state, budget), state, "state", MUCH), state)


def test_a_placeholder_in_a_list_stands_for_its_value() -> None:
    base = {"a": {"deep": 1}, "b": 2}

    assert uncut({"l": [1, {"$cut": 10, "path": "/a"}]}, base, "state", MUCH) == {
        "l": [1, {"deep": 1}]
    }


def test_what_holds_no_placeholder_is_not_copied() -> None:
    sent = {"a": [1, {"b": 2}]}

    assert uncut(sent, {}, "state", MUCH) is sent


@pytest.mark.parametrize(
    "sent",
    [
        {"a": {"$cut": 5}},
        {"a": {"$cut": 5, "path": 7}},
        {"a": {"$cut": 5, "path": "no-pointer"}},
        {"a": {"$cut": 5, "path": "/gone"}},
        {"a": {"$cut": 5, "path": "/kept", "more": 1}},
        {"a": {"$enc": "…"}},
        {"a": [{"$enc": "…"}]},
        {"$enc": "…"},
    ],
)
def test_reserved_keys_are_refused_unless_they_are_our_own_placeholders(sent: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        uncut(sent, {"kept": 1}, "state", MUCH)

    assert refused.value.where == "state"


def test_a_long_text_cannot_be_named_until_it_fills_the_memory() -> None:
    base = {"text": "x" * 1000}
    sent = {"l": [{"$cut": 1, "path": "/text"}] * 5}

    assert len(uncut(sent, base, "state", 5100)["l"]) == 5
    with pytest.raises(TooLarge):
        uncut(sent, base, "state", 4900)
