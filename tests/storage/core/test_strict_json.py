from __future__ import annotations

import json
import math
from collections import OrderedDict
from datetime import UTC, date, datetime
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import InvalidValue, TooLarge, Unreadable

KEYS = st.sampled_from(["", "a", "b", "é", "/", "~", "Infinity"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)
)
OBJECTS = st.dictionaries(KEYS, VALUES)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def check(value: Any, **limits: int) -> bytes:
    return strict_json.check(value, "state", **{"max_bytes": 1 << 20, **limits})


def place_refused(value: Any) -> str:
    with pytest.raises(InvalidValue) as caught:
        check(value)
    return caught.value.where


def unreadable(raw: bytes | str) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        strict_json.parse_object(raw.encode() if isinstance(raw, str) else raw)
    return caught.value


def place_unreadable(raw: bytes | str) -> tuple[int, int]:
    error = unreadable(raw)
    return error.line, error.column


# --- our own lines ----------------------------------------------------------------------------


@given(VALUES)
@example([2**70, -(2**70), 10**4000 - 1, 2**63, 2**64])
@example([1e22, 0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0, 1e16])
def test_what_was_encoded_is_decoded_exactly(value: Any) -> None:
    assert strict_json.same(strict_json.decode(strict_json.encode(value)), value)


def test_lines_are_compact_and_in_utf_8() -> None:
    assert strict_json.encode({"é": [1, None]}) == '{"é":[1,null]}'.encode()


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a":NaN}', b"[" * 100_000, b'"\\ud800"', b'"\xff"'])
def test_decoding_what_is_not_json_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        strict_json.decode(raw)


def test_pretty_is_indented_in_the_order_given_and_ends_with_a_newline() -> None:
    assert strict_json.pretty({"b": ["é"], "a": {}}).decode() == (
        '{\n  "b": [\n    "é"\n  ],\n  "a": {}\n}\n'
    )


@given(OBJECTS)
def test_what_is_written_for_people_is_read_back_exactly(value: dict[str, Any]) -> None:
    found = strict_json.parse_object(strict_json.pretty(value))

    assert strict_json.same(found, value)
    assert list(found) == list(value)


# --- same -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0.0, False),
        (0.0, -0.0),
        (None, False),
        ("", None),
        ([], {}),
        ([1], [True]),
        ([1, "x"], [1.0, "x"]),
        ([[1]], [[1.0]]),
        ([0.0], [-0.0]),
        ([1], [1, 2]),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"b": 1}),
        ({"a": None}, {}),
    ],
)
def test_values_that_are_written_differently_are_not_the_same(a: Any, b: Any) -> None:
    assert not strict_json.same(a, b)
    assert not strict_json.same(b, a)


def test_the_order_of_keys_does_not_matter() -> None:
    assert strict_json.same({"a": 1, "b": [{"c": 2, "d": 3}]}, {"b": [{"d": 3, "c": 2}], "a": 1})


@given(VALUES, VALUES)
def test_same_means_written_the_same_with_keys_sorted(a: Any, b: Any) -> None:
    written = [json.dumps(value, sort_keys=True) for value in (a, b)]

    assert strict_json.same(a, b) == (written[0] == written[1])


class Untouchable:
    """Two of these would be compared by a look inside; nothing may look."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("looked inside what is shared")

    __hash__ = None  # type: ignore[assignment]


def test_what_is_shared_is_not_looked_into() -> None:
    shared: Any = Untouchable()

    assert strict_json.same({"a": [shared, 1.5], "b": shared}, {"a": [shared, 1.5], "b": shared})


# --- values that agents and programs give -----------------------------------------------------


@given(VALUES)
def test_checking_plain_json_gives_its_encoding(value: Any) -> None:
    assert check(value) == strict_json.encode(value)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Shape(Enum):
    ROUND = "round"


@pytest.mark.parametrize(
    "foreign",
    [
        (1, 2),
        {1, 2},
        b"bytes",
        datetime(2026, 1, 1, tzinfo=UTC),
        OrderedDict[str, int](),
        Colour.RED,
        Level.LOW,
        Shape.ROUND,
        UUID(int=1),
        date(2026, 1, 1),
        object(),
        {1: "number as key"},
        {None: "null as key"},
        {Colour.RED: "enum as key"},
        float("nan"),
        float("inf"),
        float("-inf"),
        "\ud800",
        {"\udfff": "lone surrogate in a key"},
        10**4000,
        -(10**4000),
    ],
)
def test_what_is_not_plain_json_is_refused_and_its_place_named(foreign: Any) -> None:
    assert place_refused(foreign) == "state"
    assert place_refused({"fine": 1, "a/b": [0, {"~": foreign}]}) == "state/a~1b/1/~0"
    assert place_refused([*range(100), foreign]) == "state/100"


def test_a_refusal_says_what_to_use_instead() -> None:
    with pytest.raises(InvalidValue) as caught:
        check({"pair": (1, 2)})

    assert "list" in caught.value.problem


def test_an_integer_of_4000_digits_is_taken() -> None:
    largest = 10**4000 - 1

    assert strict_json.decode(check([largest, -largest])) == [largest, -largest]


def test_64_levels_are_taken_and_65_are_not() -> None:
    check(nested(64))

    assert place_refused(nested(65)) == "state" + "/0" * 64


def test_a_lower_limit_of_levels_counts_for_small_values_too() -> None:
    check(nested(3), max_depth=3)

    with pytest.raises(InvalidValue):
        check(nested(4), max_depth=3)


@given(VALUES)
@example([2**64 - 1, -(2**63), 2**64, -(2**63) - 1, 0.1, -0.0, 1e300, 5e-324])
@example([[2**64 - 1, -(2**63)], {"a": 1e16, "b": 1.0, "é": "\x00"}])
def test_what_was_checked_is_read_back_exactly(value: Any) -> None:
    for raw in (check(value), strict_json.encode(value)):
        assert strict_json.same(strict_json.decode_own(raw), value)


@pytest.mark.parametrize("depth", [200, 2_000, 100_000])
def test_no_depth_exhausts_the_stack(depth: int) -> None:
    place_refused(nested(depth))


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    place_refused({"a": endless})


def test_a_value_that_unfolds_without_end_is_refused_before_it_is_unfolded() -> None:
    bomb: list[Any] = [1]
    for _ in range(60):
        bomb = [bomb] * 1000

    with pytest.raises(TooLarge):
        check(bomb)


@pytest.mark.parametrize(
    "wrong",
    [math.nan, (1,), {1: 2}, "\ud800", 10**5000],
    ids=["nan", "tuple", "key", "half", "long"],
)
@pytest.mark.parametrize("place", [0, 255, 256, 999])
def test_what_is_wrong_is_found_wherever_it_stands_among_many(wrong: Any, place: int) -> None:
    notes: list[Any] = [{"title": f"note {n}", "tags": [n, 0.5, None]} for n in range(1000)]
    notes[place]["tags"][1] = wrong

    with pytest.raises(InvalidValue, match=f"state/notes/{place}/tags/1"):
        check({"notes": notes})


@given(VALUES)
def test_the_limit_is_that_of_the_encoding(value: Any) -> None:
    size = len(strict_json.encode(value))

    check(value, max_bytes=size)
    with pytest.raises(TooLarge):
        check(value, max_bytes=size - 1)


def test_too_large_says_how_large() -> None:
    with pytest.raises(TooLarge) as caught:
        check("x" * 98, max_bytes=99)

    assert (caught.value.where, caught.value.size, caught.value.limit) == ("state", 100, 99)


def test_the_name_of_a_place_stays_short_however_long_its_keys() -> None:
    assert len(place_refused({"k" * 100_000: (1,)})) < 250


# --- files that people write ------------------------------------------------------------------


def test_a_byte_order_mark_is_no_matter() -> None:
    assert strict_json.parse_object(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    assert place_unreadable(b'\xef\xbb\xbf{"a" 1}') == (1, 6)


def test_a_key_given_twice_is_named_with_the_place_of_the_second() -> None:
    text = '{\n  "state": {"pages": 1,\n    "pages": 2},\n  "next": "pages"\n}'

    assert place_unreadable(text) == (3, 5)
    assert '"pages"' in unreadable(text).problem


def test_the_same_key_in_two_objects_is_fine() -> None:
    found = strict_json.parse_object(b'{"a": {"a": "a"}, "b": [{"a": 1}, {"a": 2}]}')

    assert found == {"a": {"a": "a"}, "b": [{"a": 1}, {"a": 2}]}


def test_a_key_is_given_twice_even_if_it_is_escaped_once() -> None:
    assert place_unreadable('{"a": 1, "\\u0061": 2}') == (1, 10)


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 400 + ".0"]
)
def test_what_is_not_a_number_in_json_is_refused(number: str) -> None:
    assert place_unreadable('{"fine": [1, -2.5e3, true],\n "n": [0, ' + number + "]}") == (2, 11)


def test_the_name_of_such_a_number_is_fine_as_text() -> None:
    assert strict_json.parse_object(b'{"NaN": "Infinity 1e999"}') == {"NaN": "Infinity 1e999"}


@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_of_4300_digits_are_read_and_longer_ones_refused(sign: str) -> None:
    digits = sign + "7" * 4300

    assert strict_json.parse_object(f'{{"n": {digits}}}'.encode()) == {"n": int(digits)}
    assert place_unreadable(f'{{"n": {digits}7}}') == (1, 7)


def test_half_a_surrogate_pair_is_refused_and_a_whole_one_is_text() -> None:
    assert strict_json.parse_object(b'{"a": "\\ud83d\\ude00 \\\\ud800"}') == {"a": "😀 \\ud800"}
    assert place_unreadable('{"fine": "\\ud83d\\ude00",\n"a": "\\ud83d"}') == (2, 6)
    assert place_unreadable('{"fine": 1,\n"\\uDE00": 1}') == (2, 1)


def test_utf_16_is_refused_with_advice() -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        assert "UTF-8" in unreadable('{"a": 1}'.encode(encoding)).problem


def test_a_byte_that_is_not_utf_8_is_named_with_its_place() -> None:
    raw = '{"é": 1,\n "é": "'.encode() + b'\xe9"}'

    assert place_unreadable(raw) == (2, 8)
    assert "0xe9" in unreadable(raw).problem


def test_the_deepest_state_that_is_taken_can_be_read_in_its_file() -> None:
    deepest = {"a": nested(63)}
    check(deepest)

    strict_json.parse_object(strict_json.pretty({"state": deepest}))


def test_a_file_that_is_too_deep_is_refused_where_it_becomes_so() -> None:
    assert place_unreadable('{"a":\n' + "[" * 68 + "]" * 68 + "}") == (2, 68)
    assert place_unreadable('{"a":\n' + "[" * 1_000_000) == (2, 68)
    assert place_unreadable('{"\\x": 1-2, "a":\n' + "[" * 1_000_000) == (2, 68)


def test_brackets_in_text_are_not_depth() -> None:
    text = "[{" * 1000 + '\\"' + "[{" * 1000

    assert strict_json.parse_object(f'{{"a": "{text}"}}'.encode()) == {"a": text.replace("\\", "")}


def test_brackets_beside_each_other_are_not_depth() -> None:
    assert strict_json.parse_object(b'{"a": [' + b"[]," * 1000 + b"{}]}")


@pytest.mark.parametrize("text", ["[1]", '"a"', "1", "null"])
def test_a_file_without_an_object_is_refused(text: str) -> None:
    assert place_unreadable("\n  " + text) == (2, 3)


@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
def test_an_empty_file_is_called_empty(text: str) -> None:
    assert "empty" in unreadable(text).problem


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ('{"a": 1,\n}', (2, 1), "comma"),
        ('{"a": [1,\n]}', (2, 1), "comma"),
        ('{"a": 1\n "b": 2}', (2, 2), "delimiter"),
        ('{\n// mine\n"a": 1}', (2, 1), "comments"),
        ('{"a": # mine\n1}', (1, 7), "comments"),
        ("{'a': 1}", (1, 2), "double quotes"),
        ('{"a": "', (1, 7), "unterminated"),
        ('{"a": 1}\n}', (2, 1), "extra"),
    ],
)
def test_the_usual_slips_are_named_with_their_place(
    text: str, place: tuple[int, int], word: str
) -> None:
    assert place_unreadable(text) == place
    assert word in unreadable(text).problem


BROKEN = st.text(st.sampled_from('{}[]",:\\ \n1-.eNaud8')).map(str.encode)


@given(BROKEN | BROKEN.map(lambda part: b'{"a": [1e999, %b], "a": 2}' % part) | st.binary())
@example(b'{"a": "' + b'\\"' * 1000)
@example(b'{"a": 1e999-}')
@example(b'{"a": NaNNaN}')
def test_any_bytes_at_all_are_read_or_called_unreadable(raw: bytes) -> None:
    try:
        strict_json.parse_object(raw)
    except Unreadable as error:
        assert error.line >= 1
        assert error.column >= 1


@pytest.mark.parametrize("number", [10**400, -(10**3999), 10**3999])
def test_a_number_that_no_float_can_hold_is_fine_among_floats(number: int) -> None:
    value = [0.5, number, True, None]

    assert strict_json.decode(strict_json.check(value, "v", max_bytes=10**5)) == value


@pytest.mark.parametrize("number", [2**63 - 1, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**300])
def test_integers_are_kept_to_the_last_digit(number: int) -> None:
    for value in ({"a": number}, {"many": [*range(100), number]}):
        assert strict_json.decode(check(value)) == value


def test_floats_whose_sum_is_none_are_fine() -> None:
    value = [1.7e308] * 100 + [-1.7e308] * 300

    assert strict_json.decode(check(value)) == value


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 10**4000])
def test_beside_such_a_number_a_wrong_one_is_still_found(wrong: float) -> None:
    with pytest.raises(InvalidValue, match="v/1"):
        strict_json.check([10**400, wrong], "v", max_bytes=10**5)


class Text(str):
    """Equal to a text, and none."""

    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        [{"a": 1}, {Text("a"): 2}, *({"b": n} for n in range(50))],
        {"x": [{"a": 1}, {"a": 1, 1: 2}], "more": list(range(50))},
        {"x": [{"a": Text("a")}], "more": list(range(50))},
    ],
)
def test_what_only_equals_a_text_is_refused_among_many_that_are(value: Any) -> None:
    with pytest.raises(InvalidValue):
        strict_json.check(value, "state", max_bytes=10**6)
