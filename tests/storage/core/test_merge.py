from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_storage.core.delta import MISSING, at
from holdfast_storage.core.errors import InvalidValue
from holdfast_storage.core.merge import (
    Clash,
    Merged,
    append,
    merge_patch,
    repeats,
    three_way,
)
from holdfast_storage.core.strict_json import decode, encode, same

KEYS = st.sampled_from(["", "a", "b", "c/d"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, "", "a"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3)


def merged(base: Any, current: Any, wanted: Any) -> Merged:
    return three_way(base, current, wanted, prefer="current")


def clash_paths(outcome: Merged) -> set[tuple[str, ...]]:
    return {clash.path for clash in outcome.clashes}


# --- merge patch ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"a": {"b": None}}, {"a": {}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": [None]}, {"a": [None]}),
        ({"a": 1}, {"a": True}, {"a": True}),
    ],
)
def test_patches_merge_as_in_rfc_7396(target: Any, patch: Any, result: Any) -> None:
    assert same(merge_patch(target, patch), result)


@given(OBJECTS, OBJECTS)
def test_patching_twice_is_patching_once(target: Any, patch: Any) -> None:
    once = merge_patch(target, patch)

    assert merge_patch(once, patch) is once


@given(OBJECTS, OBJECTS)
def test_patching_alters_neither_side(target: Any, patch: Any) -> None:
    before = encode([target, patch])

    merge_patch(target, patch)

    assert encode([target, patch]) == before


def test_a_patch_that_changes_nothing_gives_the_very_same_value() -> None:
    target = {"a": {"b": [1, 2]}, "c": "text"}

    assert merge_patch(target, {"a": {"b": [1, 2], "x": None}, "y": None}) is target


def test_a_patch_shares_what_it_does_not_change() -> None:
    target: dict[str, Any] = {"a": {"b": [1], "c": 1}, "big": {"d": [2]}}

    result = merge_patch(target, {"a": {"b": [1], "c": 2}})

    assert result == {"a": {"b": [1], "c": 2}, "big": {"d": [2]}}
    assert result["a"]["b"] is target["a"]["b"]
    assert result["big"] is target["big"]


def test_a_patch_keeps_the_order_of_keys_and_adds_new_ones_last() -> None:
    assert list(merge_patch({"b": 1, "a": 1, "c": 1}, {"x": 1, "a": 2, "b": None})) == [
        "a",
        "c",
        "x",
    ]


# --- append -----------------------------------------------------------------------------------


def test_items_come_after_those_already_there() -> None:
    target = {"found": [1], "other": [2]}

    result = append(target, {"found": [3, [4]]})

    assert result == {"found": [1, 3, [4]], "other": [2]}
    assert target == {"found": [1], "other": [2]}
    assert result["other"] is target["other"]


def test_a_list_that_is_not_there_is_made() -> None:
    assert append({}, {"found": [1], "empty": []}) == {"found": [1], "empty": []}


def test_appending_nothing_gives_the_very_same_value() -> None:
    target = {"found": [1]}

    assert append(target, {"found": []}) is target
    assert append(target, {}) is target


@pytest.mark.parametrize("saved", [None, "text", 7, {"a": 1}])
def test_appending_to_what_is_no_list_is_refused(saved: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        append({"a/b": saved}, {"a/b": [1]})

    assert caught.value.where == "append/a~1b"


@pytest.mark.parametrize("items", [None, "text", {"a": 1}])
def test_appending_what_is_no_list_is_refused(items: Any) -> None:
    with pytest.raises(InvalidValue):
        append({"found": [1]}, {"found": items})


# --- three ways -------------------------------------------------------------------------------


@given(OBJECTS, OBJECTS)
def test_where_only_the_writer_changed_something_it_gets_what_it_wanted(b: Any, w: Any) -> None:
    outcome = merged(b, b, w)

    assert same(outcome.value, w)
    assert outcome.clashes == ()


@given(OBJECTS, OBJECTS)
def test_where_only_others_changed_something_it_stays(b: Any, c: Any) -> None:
    outcome = merged(b, c, b)

    assert outcome.value is c
    assert outcome.clashes == ()


@given(OBJECTS, OBJECTS)
def test_the_same_change_on_both_sides_is_no_clash(b: Any, x: Any) -> None:
    outcome = merged(b, x, decode(encode(x)))

    assert outcome.value is x
    assert outcome.clashes == ()


@given(OBJECTS, OBJECTS, OBJECTS)
def test_changes_of_different_keys_never_clash(b: Any, c: Any, w: Any) -> None:
    current = {**{f"mine {key}": value for key, value in c.items()}, **b}
    wanted = {**b, **{f"theirs {key}": value for key, value in w.items()}}

    outcome = merged(b, current, wanted)

    assert outcome.clashes == ()
    assert same(outcome.value, {**current, **wanted})


@given(OBJECTS, OBJECTS, OBJECTS)
def test_both_sides_see_the_same_clashes(b: Any, c: Any, w: Any) -> None:
    assert clash_paths(merged(b, c, w)) == clash_paths(merged(b, w, c))


@given(OBJECTS, OBJECTS, OBJECTS)
def test_it_does_not_matter_who_merges_into_whose(b: Any, c: Any, w: Any) -> None:
    mine = three_way(b, c, w, prefer="current")
    theirs = three_way(b, w, c, prefer="wanted")

    assert same(mine.value, theirs.value)


@given(OBJECTS, OBJECTS, OBJECTS)
def test_the_preferred_value_stands_where_both_changed_it(b: Any, c: Any, w: Any) -> None:
    kept = three_way(b, c, w, prefer="current")
    taken = three_way(b, c, w, prefer="wanted")

    assert kept.clashes == taken.clashes
    for clash in kept.clashes:
        assert same(at(b, clash.path), clash.base) or clash.base is MISSING
        assert at(kept.value, clash.path) is clash.current
        assert at(taken.value, clash.path) is clash.wanted


@given(OBJECTS, OBJECTS, OBJECTS)
def test_merging_alters_none_of_the_three(b: Any, c: Any, w: Any) -> None:
    before = encode([b, c, w])

    merged(b, c, w)

    assert encode([b, c, w]) == before


def test_a_clash_tells_all_three_values() -> None:
    outcome = merged({"a": {"ceo": "Ann"}}, {"a": {"ceo": "Bea"}}, {"a": {"ceo": "Cid"}})

    assert outcome.clashes == (Clash(("a", "ceo"), "Ann", "Bea", "Cid"),)


def test_what_is_not_there_is_missing_in_a_clash() -> None:
    assert merged({}, {"a": 1}, {"a": 2}).clashes == (Clash(("a",), MISSING, 1, 2),)
    assert merged({"a": 1}, {}, {"a": 2}).clashes == (Clash(("a",), 1, MISSING, 2),)


def test_an_object_that_gains_or_loses_keys_has_not_itself_changed() -> None:
    outcome = merged({"a": {"x": 1, "y": 1}}, {"a": {"x": 1, "z": 3}}, {"a": {"x": 2, "y": 1}})

    assert outcome == Merged({"a": {"x": 2, "z": 3}}, ())


def test_two_objects_where_none_was_are_merged() -> None:
    assert merged({}, {"a": {"x": 1}}, {"a": {"y": 2}}) == Merged({"a": {"x": 1, "y": 2}}, ())
    assert merged({"a": 0}, {"a": {"x": 1}}, {"a": {"y": 2}}) == Merged({"a": {"x": 1, "y": 2}}, ())


@pytest.mark.parametrize("instead", [{}, {"a": "gone"}, {"a": None}, {"a": []}])
def test_replacing_or_removing_an_object_clashes_with_a_change_below_it(instead: Any) -> None:
    base = {"a": {"x": {"y": 1}}}
    changed = {"a": {"x": {"y": 2}}}

    assert clash_paths(merged(base, changed, instead)) == {("a",)}
    assert clash_paths(merged(base, instead, changed)) == {("a",)}


def test_lists_are_atomic() -> None:
    assert clash_paths(merged({"a": [1]}, {"a": [1, 2]}, {"a": [1, 3]})) == {("a",)}
    assert merged({"a": [1], "b": [1]}, {"a": [2], "b": [1]}, {"a": [1], "b": [3]}).value == {
        "a": [2],
        "b": [3],
    }


def test_a_change_of_kind_alone_is_a_change() -> None:
    assert same(merged({"a": 1}, {"a": 1}, {"a": True}).value, {"a": True})


def test_the_result_is_the_current_value_if_nothing_new_is_wanted() -> None:
    base = {"a": {"x": [1]}}
    current = {"a": {"x": [2], "y": 1}}

    assert merged(base, current, {"a": {"x": [1]}}).value is current
    assert merged(base, current, {"a": {"x": [2], "y": 1}}).value is current


def test_the_result_shares_what_did_not_change_with_the_current_value() -> None:
    base: dict[str, Any] = {"a": {"x": [1]}, "big": {"z": [0]}, "n": 1}
    wanted = {"a": {"x": [1]}, "big": {"z": [0]}, "n": 2}

    result = merged(base, base, wanted).value

    assert result == wanted
    assert result["a"] is base["a"]
    assert result["big"] is base["big"]


def test_keys_keep_the_order_of_the_current_value_and_new_ones_come_last() -> None:
    outcome = merged({"b": 1, "a": 1}, {"b": 1, "a": 1, "c": 1}, {"x": 1, "a": 2, "b": 1})

    assert list(outcome.value) == ["b", "a", "c", "x"]


# --- repeated old values ----------------------------------------------------------------------


def test_an_old_value_sent_again_is_found_where_others_changed_it() -> None:
    base = {"ceo": "Ann", "pages": 1, "n": {"x": 1, "y": [1]}}
    current = {"ceo": "Bea", "pages": 1, "n": {"x": 2, "y": [2]}}

    found = repeats(base, current, {"ceo": "Ann", "pages": 1, "n": {"y": [1]}}, nulls_remove=True)

    assert found == (Clash(("ceo",), "Ann", "Bea", "Ann"), Clash(("n", "y"), [1], [2], [1]))


def test_a_new_value_is_not_a_repeated_one() -> None:
    base, current = {"a": 1, "b": 1}, {"a": 2, "b": 2}

    assert repeats(base, current, {"a": 3, "b": True, "c": 1}, nulls_remove=True) == ()


def test_the_current_value_sent_is_not_a_repeated_one() -> None:
    assert repeats({"a": 1}, {"a": 2}, {"a": 2}, nulls_remove=True) == ()


def test_removing_what_was_not_there_is_found_where_others_made_it() -> None:
    found = repeats({}, {"a": 5}, {"a": None}, nulls_remove=True)

    assert found == (Clash(("a",), MISSING, 5, MISSING),)


def test_null_can_be_a_repeated_value_if_it_does_not_remove() -> None:
    found = repeats({"a": None}, {"a": 5}, {"a": None}, nulls_remove=False)

    assert found == (Clash(("a",), None, 5, None),)
    assert repeats({"a": None}, {"a": 5}, {"a": None}, nulls_remove=True) == ()


@pytest.mark.parametrize("nulls_remove", [True, False])
def test_an_old_object_sent_again_is_found_whole_where_others_replaced_it(
    nulls_remove: bool,
) -> None:
    base = {"a": {"x": 1}}

    found = repeats(base, {"a": "gone"}, {"a": {"x": 1}}, nulls_remove=nulls_remove)

    assert found == (Clash(("a",), {"x": 1}, "gone", {"x": 1}),)
    assert repeats(base, {"a": "gone"}, {"a": {"x": 2}}, nulls_remove=nulls_remove) == ()


def test_an_old_value_sent_again_is_found_where_others_made_it_an_object() -> None:
    found = repeats({"a": 1}, {"a": {"x": 1}}, {"a": 1}, nulls_remove=True)

    assert found == (Clash(("a",), 1, {"x": 1}, 1),)


@given(OBJECTS, OBJECTS, OBJECTS)
def test_a_repeated_value_is_never_also_a_clash(b: Any, c: Any, patch: Any) -> None:
    repeated = {clash.path for clash in repeats(b, c, patch, nulls_remove=True)}

    assert not repeated & clash_paths(merged(b, c, merge_patch(b, patch)))


@given(OBJECTS, OBJECTS)
def test_nothing_is_repeated_where_nobody_else_changed_anything(b: Any, patch: Any) -> None:
    assert repeats(b, b, patch, nulls_remove=True) == ()
    assert repeats(b, {**b}, patch, nulls_remove=False) == ()


@given(OBJECTS, OBJECTS)
def test_sending_the_whole_old_value_again_finds_every_value_others_changed(b: Any, c: Any) -> None:
    found = repeats(b, c, b, nulls_remove=False)

    lost = {key for key in b if not same(b[key], c.get(key, MISSING))}
    assert {clash.path[0] for clash in found} <= lost
    assert {key for key in lost if not isinstance(b[key], dict)} <= {
        clash.path[0] for clash in found
    }
