"""Values come back as they were; nothing that lies in the folder names code to be run."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from math import inf, isnan, nan
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.types import Command, Interrupt, Overwrite, Send
from pydantic import BaseModel

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import InvalidValue
from holdfast_storage.langgraph.values import Values


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    tags: frozenset[str] = frozenset()


class Person(BaseModel):
    name: str
    born: date | None = None


class Pair(NamedTuple):
    left: int
    right: Any


class Unlisted(BaseModel):
    name: str


OURS = (Colour, Point, Person, Pair)


def through_json(value: Any, allow: tuple[type[Any], ...] = OURS) -> Any:
    values = Values(allow)
    line = strict_json.encode(values.encode(value, "state"))
    return values.decode(strict_json.decode(line), "state")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_whatever_json_has_comes_back(value: Any) -> None:
    assert strict_json.same(through_json(value), value)


@pytest.mark.parametrize("value", [{"a": [1, 2.5, "x", None, True]}, [], "", 10**300])
def test_what_json_has_stays_as_it_is(value: Any) -> None:
    assert Values().encode(value, "state") == value


@pytest.mark.parametrize(
    "value",
    [
        (1, ("a", [2])),
        {1: "one", (2, 3): "pair"},
        {"$enc": "tuple", "$cut": 3},
        {1, 2, 3},
        frozenset({"a"}),
        deque([1, 2]),
        b"\x00\xff",
        bytearray(b"ab"),
        inf,
        "half \ud800",
        {"half \ud800": 1},
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4),
        datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=2))),
        date(2026, 1, 2),
        time(3, 4, 5, 6),
        timedelta(days=-1, microseconds=7),
        Decimal("1.10"),
        UUID(int=7),
        Path("a/b"),
        HumanMessage("hello", id="1"),
        SystemMessage([{"type": "text", "text": "be kind"}]),
        AIMessage(
            "",
            tool_calls=[{"name": "pay", "args": {"sum": 3}, "id": "c1", "type": "tool_call"}],
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        ),
        AIMessageChunk(content="hel"),
        ToolMessage("paid", tool_call_id="c1", artifact={"when": date(2026, 1, 2)}),
        RemoveMessage(id="1"),
        Document("text", metadata={"page": 1}),
        Send("node", {"x": (1,)}),
        Interrupt("sure?", id="7"),
        Command(update={"a": 1}, goto="b"),
        Overwrite([1]),
        Colour.RED,
        Point(1, frozenset({"a"})),
        Person(name="Ann", born=date(1990, 1, 1)),
        Pair(1, {2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_marked_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    back = through_json(value)

    assert (type(back), back) == (type(value), value)


def test_the_second_half_past_two_of_a_night_is_told_from_the_first() -> None:
    second = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)

    back = through_json(second)

    assert (back.tzinfo, back.fold, back.utcoffset()) == (second.tzinfo, 1, timedelta(hours=1))


def test_no_number_is_lost() -> None:
    assert isnan(through_json(nan))


def test_a_message_is_kept_so_that_people_can_read_it() -> None:
    assert Values().encode(HumanMessage("hello", id="1"), "state") == {
        "$enc": "HumanMessage",
        "content": "hello",
        "id": "1",
    }


def test_equal_sets_are_written_alike() -> None:
    # Both fall into the same place of the table, so which one comes first depends on who was there.
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other)

    assert Values().encode(one, "") == Values().encode(other, "")


@pytest.mark.parametrize(
    "value",
    [object(), Unlisted(name="x"), json.JSONDecoder(), lambda: None, type("Words", (dict,), {})()],
    ids=["object", "model", "instance", "function", "dict-subclass"],
)
def test_what_is_not_known_is_refused_with_its_place_and_what_to_do(value: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        Values().encode({"deep": [value]}, "state")

    assert refused.value.where == "state/deep/0"
    assert "HoldfastSaver(allow=[" in str(refused.value) or "plain" in str(refused.value)


def test_nesting_has_an_end() -> None:
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]

    with pytest.raises(InvalidValue):
        Values().encode(deep, "state")


@pytest.mark.parametrize(
    "planted",
    [
        {"$enc": "os:system", "value": "true"},
        {"$enc": "subprocess.Popen", "args": ["true"]},
        {"$enc": f"{Unlisted.__module__}:Unlisted", "name": "x"},
        {"$enc": "StateSnapshot", "values": 1},
        {"$enc": "__import__", "value": "os"},
        {"$enc": ["tuple"], "items": []},
        {"$enc": "uuid", "value": "no uuid"},
        {"$enc": "HumanMessage"},
        {"$enc": "Send", "nodes": 1},
        {"lc": 2, "type": "constructor", "$enc": "lc", "id": ["os", "system"]},
    ],
)
def test_what_somebody_planted_in_the_folder_makes_no_object_of_its_choice(planted: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        Values(OURS).decode({"x": [planted]}, "state")

    assert refused.value.where.startswith("state/x/0")


def test_langchains_own_mark_is_data_here() -> None:
    mark = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}}

    assert through_json(mark) == mark


def test_only_classes_that_can_be_made_from_plain_values_are_allowed() -> None:
    with pytest.raises(InvalidValue):
        Values([json.JSONDecoder])


def test_what_went_wrong_is_kept_as_text() -> None:
    assert through_json(ValueError("no")) == "ValueError('no')"
