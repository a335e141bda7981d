from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_storage.core import delta
from holdfast_storage.core.delta import MISSING, apply, at, diff, path_of, pointer
from holdfast_storage.core.strict_json import encode, same

KEYS = st.sampled_from(["", "a", "b", "/", "~", "~1", "a/b", "0"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 0.0, -0.0, 2**70, "", "a"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


# --- the form in the journal ------------------------------------------------------------------


def test_nothing_changed_is_empty() -> None:
    assert diff({"a": {"b": [1]}}, {"a": {"b": [1]}}) == {}


def test_a_changed_or_new_value_is_set_at_its_pointer() -> None:
    old = {"totals": {"pages": 811, "words": 5}}
    new = {"totals": {"pages": 812, "words": 5, "a/b~": {"c": 1}}}

    assert diff(old, new) == {"set": {"/totals/pages": 812, "/totals/a~1b~0": {"c": 1}}}


def test_a_list_that_only_grew_is_added_to() -> None:
    assert diff({"found": [1, {"a": 2}]}, {"found": [1, {"a": 2}, 3, 4]}) == {
        "add": {"/found": [3, 4]}
    }


@pytest.mark.parametrize("new", [[2], [1], [1, 3], [0, 1, 2], [True, 2, 3], [1.0, 2, 3]])
def test_a_list_that_changed_otherwise_is_set_whole(new: list[Any]) -> None:
    assert diff({"found": [1, 2]}, {"found": new}) == {"set": {"/found": new}}


def test_a_removed_key_is_dropped() -> None:
    assert diff({"old": 1, "a": {"b": 1, "c": 2}}, {"a": {"c": 2}}) == {"drop": ["/a/b", "/old"]}


def test_null_is_a_value_and_not_an_absence() -> None:
    assert diff({}, {"a": None}) == {"set": {"/a": None}}
    assert diff({"a": None}, {}) == {"drop": ["/a"]}


# --- there and back ---------------------------------------------------------------------------


@given(OBJECTS, OBJECTS)
def test_applying_the_difference_gives_the_new_value(old: Any, new: Any) -> None:
    assert same(apply(old, diff(old, new)), new)


@given(OBJECTS, OBJECTS)
def test_the_difference_is_empty_only_if_the_values_are_the_same(old: Any, new: Any) -> None:
    assert (diff(old, new) == {}) == same(old, new)


@given(OBJECTS, OBJECTS)
def test_neither_value_nor_changes_are_altered(old: Any, new: Any) -> None:
    before = encode([old, new])

    changes = diff(old, new)
    changes_before = encode(changes)
    apply(old, changes)

    assert encode([old, new]) == before
    assert encode(changes) == changes_before


@given(OBJECTS, OBJECTS, OBJECTS)
def test_differences_can_be_applied_one_after_the_other(a: Any, b: Any, c: Any) -> None:
    assert same(apply(apply(a, diff(a, b)), diff(b, c)), c)


@given(OBJECTS)
def test_no_changes_give_the_very_same_value(value: Any) -> None:
    assert apply(value, {}) is value


# --- only what changed ------------------------------------------------------------------------


def test_applying_shares_everything_that_is_not_on_a_changed_path() -> None:
    old: dict[str, Any] = {"a": {"b": {"c": 1}, "big": {"x": [1]}}, "other": {"y": {}}}

    new = apply(old, {"set": {"/a/b/c": 2}})

    assert new == {"a": {"b": {"c": 2}, "big": {"x": [1]}}, "other": {"y": {}}}
    assert new["a"]["big"] is old["a"]["big"]
    assert new["other"] is old["other"]


class Guarded(dict[str, Any]):
    """Counts as a value of its own kind, so it may be passed on, never compared or copied."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("looked inside what is shared")

    def __iter__(self) -> Any:
        raise AssertionError("looked inside what is shared")


def test_a_change_of_one_key_in_a_huge_tree_touches_only_its_path() -> None:
    old: dict[str, Any] = {f"key{n}": Guarded() for n in range(1000)} | {
        "a": {"b": 1, "c": Guarded()}
    }
    new = {**old, "a": {**old["a"], "b": 2}}

    changes = diff(old, new)
    applied = apply(old, changes)

    assert changes == {"set": {"/a/b": 2}}
    assert all(applied[key] is old[key] for key in old if key != "a")
    assert applied["a"]["c"] is old["a"]["c"]


def test_many_changes_in_one_object_are_all_made_in_the_copy() -> None:
    old = {"a": {str(n): n for n in range(100)}}
    new = {"a": {str(n): -n for n in range(100)}}

    assert same(apply(old, diff(old, new)), new)
    assert old["a"]["7"] == 7


def test_what_a_change_sets_is_not_altered_by_a_change_below_it() -> None:
    changes = {"set": {"/a": {"b": 1}, "/a/b": 2}}

    assert apply({}, changes) == {"a": {"b": 2}}
    assert changes == {"set": {"/a": {"b": 1}, "/a/b": 2}}


# --- changes that do not fit ------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"set": {"": {}}},
        {"set": {"/missing/b": 1}},
        {"set": {"/list/0": 1}},
        {"set": {"/number/b": 1}},
        {"set": {"no-pointer": 1}},
        {"set": {"/bad~2escape": 1}},
        {"add": {"/missing": [1]}},
        {"add": {"/number": [1]}},
        {"add": {"/list": 1}},
        {"drop": ["/missing"]},
        {"drop": ["/number/b"]},
        {"drop": [7]},
        {"drop": {"/number": 1}},
        {"set": ["/number"]},
        {"move": {"/number": "/list"}},
    ],
)
def test_changes_that_do_not_fit_are_a_value_error(changes: dict[str, Any]) -> None:
    value = {"list": [1], "number": 1}

    with pytest.raises(ValueError):
        apply(value, changes)
    assert value == {"list": [1], "number": 1}


# --- pointers ---------------------------------------------------------------------------------


@given(st.lists(st.text()))
def test_a_path_survives_being_written_as_a_pointer(path: list[str]) -> None:
    assert path_of(pointer(path)) == tuple(path)


def test_pointers_are_those_of_rfc_6901() -> None:
    assert pointer([]) == ""
    assert pointer([""]) == "/"
    assert pointer(["a/b", "m~n", "~1"]) == "/a~1b/m~0n/~01"


@pytest.mark.parametrize("text", ["a", "a/b", "/~", "/~2", "#/a"])
def test_what_is_no_pointer_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        path_of(text)


def test_a_path_leads_through_objects_and_lists() -> None:
    value = {"a": [{"": None}, 7], "0": "key"}

    assert at(value, ()) is value
    assert at(value, ("a", "1")) == 7
    assert at(value, ("a", "0", "")) is None
    assert at(value, ("0",)) == "key"


@pytest.mark.parametrize("last", ["2", "-1", "-", "01", "+1", "1.0", "x", "", "\u0661", "9" * 5000])
def test_what_is_no_index_of_the_list_is_missing(last: str) -> None:
    assert at({"a": [1, 2]}, ("a", last)) is MISSING


@pytest.mark.parametrize("path", [("b",), ("a", "b"), ("a", "b", "c"), ("text", "0")])
def test_what_is_not_there_is_missing(path: tuple[str, ...]) -> None:
    assert at({"a": {"c": 1}, "text": "abc"}, path) is MISSING


def test_missing_stays_itself_when_it_is_copied() -> None:
    assert copy.deepcopy([MISSING])[0] is MISSING


def test_differences_name_each_value_with_what_it_was_and_is() -> None:
    old = {"a": {"x": 1, "y": [1]}, "gone": 1, "same": [1]}
    new = {"a": {"x": 2, "y": [1, 2]}, "same": [1], "new/key": None}

    found = delta.differences(old, new)

    assert sorted(found) == [
        ("/a/x", 1, 2),
        ("/a/y", [1], [1, 2]),
        ("/gone", 1, MISSING),
        ("/new~1key", MISSING, None),
    ]


def test_very_many_differences_are_named_by_top_level_key() -> None:
    old: dict[str, Any] = {"many": {str(n): n for n in range(100)}, "same": {"a": 1}, "null": None}
    new: dict[str, Any] = {"many": {str(n): -n for n in range(1, 100)}, "same": {"a": 1}, "n": None}

    assert delta.few_differences(old, new, 20) is None
    found = delta.key_differences(old, new)

    assert [each.path for each in found] == ["/null", "/many", "/n"]


def test_finding_many_changes_is_given_up_and_finding_few_is_not() -> None:
    old = {str(n): n for n in range(100)}

    assert delta.diff_unless_more(old, dict.fromkeys(old, -1), 20) is None
    assert delta.diff_unless_more(old, {}, 20) is None
    assert delta.diff_unless_more(old, old | {"3": 0}, 20) == {"set": {"/3": 0}}


def notes(number: int) -> dict[str, Any]:
    return {f"doc-{n}": {"pages": n + number, "text": f"{number} {n}"} for n in range(50)}


@pytest.mark.parametrize(
    ("old", "new", "is_all_new"),
    [
        (notes(1), notes(2), True),
        ({"a": 1}, {"b": 1}, True),
        # One value from before, wherever it stands, may be nearly all there is.
        (notes(1) | {"long": ["x"] * 100}, notes(2) | {"long": ["x"] * 100}, False),
        (notes(1), notes(2) | {"doc-7": notes(1)["doc-7"]}, False),
        ({"all": notes(1)}, {"all": notes(1) | {"doc-7": 1}}, False),
        ({"all": {"deep": notes(1)}}, {"all": {"deep": notes(2)}}, True),
        # What has grown is written as what was added.
        ({"found": [1, 2]}, {"found": [1, 2, 3]}, False),
    ],
)
def test_what_is_all_new_is_known_without_looking_at_everything(
    old: Any, new: Any, is_all_new: bool
) -> None:
    assert delta.is_all_new(old, new) is is_all_new


def test_a_key_differs_whose_value_is_equal_and_yet_not_the_same() -> None:
    assert delta.keys_that_differ({"a": 1, "b": [1], "c": 2}, {"a": True, "b": [1]}) == ["c", "a"]


@given(OBJECTS, OBJECTS)
def test_known_changes_tell_what_looking_for_them_would(a: Any, b: Any) -> None:
    known = delta.diff(a, b)

    assert delta.few_differences(a, b, 1000, known) == delta.differences(a, b)
