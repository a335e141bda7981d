"""Changing one value of a person's JSON file leaves every other byte as it was."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast_server.clients.jsonc import drop, parse, put
from holdfast_storage.core.errors import Unreadable

COMMENTED = """\
// who may do what
{
  /* ours */ "theme": "dark", // of course
  "mcpServers": {
    "git": {"command": "git-mcp", "args": ["--url", "http://x/*y*/"]}, // needed
  },
  // the end
}
"""
PATH = ("mcpServers", "holdfast")
ENTRY = {"command": "holdfast", "args": ["serve"]}


def test_comments_and_trailing_commas_stay_where_they_are() -> None:
    changed = put(COMMENTED, PATH, ENTRY)

    assert parse(changed).value["mcpServers"]["holdfast"] == ENTRY
    added = [line for line in changed.splitlines() if line not in COMMENTED.splitlines()]
    assert added[0] == '    "holdfast": {'
    assert added[-1] == "    },"
    assert drop(changed, PATH) == COMMENTED


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{}\n",
        '{\n\t"a": [],\n\t"mcpServers": {\n\t\t"b": {}\n\t}\n}\n',
        '{\r\n    "a": 1 // last\r\n}\r\n',
        '\ufeff{\n  "a": 1\n}\n',
        '{\n  "a": 1\n  // nothing follows\n}',
        '{\n  "a": 1,\n}',
    ],
)
def test_what_was_added_can_be_removed_without_a_trace(text: str) -> None:
    changed = put(text, PATH, ENTRY)

    assert parse(changed).value["mcpServers"]["holdfast"] == ENTRY
    assert drop(changed, PATH) == text
    assert "\r\n" not in text or "\n" not in changed.replace("\r\n", "")


@pytest.mark.parametrize("text", ["", "\n", "// nothing yet"])
def test_an_empty_file_becomes_one_with_the_value(text: str) -> None:
    assert parse(put(text, PATH, ENTRY)).value == {"mcpServers": {"holdfast": ENTRY}}


def test_the_same_value_again_changes_nothing() -> None:
    changed = put(COMMENTED, PATH, ENTRY)

    assert put(changed, PATH, ENTRY) == changed


def test_removing_takes_whatever_held_nothing_else() -> None:
    text = put('{\n  "a": 1\n}\n', ("hooks", "Stop", 0), {"hooks": []})

    assert drop(text, ("hooks", "Stop", 0)) == '{\n  "a": 1\n}\n'


def test_a_holder_with_a_comment_in_it_stays() -> None:
    text = '{"mcpServers": { // servers go here\n  "holdfast": {}\n}}'

    assert parse(drop(text, PATH)).value == {"mcpServers": {}}
    assert "// servers go here" in drop(text, PATH)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{"a": 1', 1, 8),
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3),
        ("{\n  a: 1\n}", 2, 3),
        ('{"a": nope}', 1, 7),
        ('{"a": 1} x', 1, 10),
        ('{"a":\n}', 2, 1),
        ('{"mcpServers": []}', 1, 16),
    ],
)
def test_what_cannot_be_changed_is_named_by_line_and_column(
    text: str, line: int, column: int
) -> None:
    with pytest.raises(Unreadable) as refused:
        put(text, PATH, ENTRY)

    assert (refused.value.line, refused.value.column) == (line, column)


# --- for every file there could be ------------------------------------------------------------

keys = st.sampled_from(["a", "b", "mcpServers", "holdfast", 'q"\\', "ü"])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "// no", "/* no */", '"']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
trivia: st.SearchStrategy[list[str]] = st.lists(
    st.sampled_from([" ", "\n", "\t", "\r\n", "  ", "/*{}*/", "//{}\n", '/*,}}"{}*/']), max_size=3
)


@st.composite
def files(draw: st.DrawFn) -> str:
    """Write an object as nobody would: comments and white space wherever they may stand."""
    numbers = count()
    is_comma_last: bool = draw(st.booleans())

    def gap() -> str:
        return "".join(
            each.replace("{}", f"#{next(numbers)};") if "/" in each else each
            for each in draw(trivia)
        )

    def write(value: Any) -> str:
        if isinstance(value, dict):
            members = [f"{json.dumps(k)}{gap()}:{gap()}{write(v)}" for k, v in value.items()]  # pyright: ignore[reportUnknownVariableType]
            return "{" + joined(members) + "}"
        if isinstance(value, list):
            return "[" + joined([write(item) for item in value]) + "]"  # pyright: ignore[reportUnknownVariableType]
        return json.dumps(value)

    def joined(parts: list[str]) -> str:
        text = ",".join(f"{gap()}{part}{gap()}" for part in parts)
        return text + (f",{gap()}" if parts and is_comma_last else gap())

    return gap() + write(draw(st.dictionaries(keys, values, max_size=4))) + gap()


def comments_of(text: str) -> list[str]:
    return re.findall(r"#\d+;", text)


@settings(max_examples=50)
@given(files(), values)
def test_only_the_value_changes_whatever_the_file_looks_like(text: str, value: Any) -> None:
    before = parse(text).value
    servers = before.get("mcpServers", {})
    if not isinstance(servers, dict):
        return
    changed = put(text, PATH, value)

    assert parse(changed).value == {**before, "mcpServers": {**servers, "holdfast": value}}
    assert "holdfast" in servers or comments_of(changed) == comments_of(text)
    assert put(changed, PATH, value) == changed


@settings(max_examples=50)
@given(files())
def test_only_what_is_removed_goes_whatever_the_file_looks_like(text: str) -> None:
    before = parse(text).value
    servers = before.get("mcpServers")
    if not isinstance(servers, dict) or "holdfast" not in servers:
        assert drop(text, PATH) == text
        return
    left = {key: each for key, each in servers.items() if key != "holdfast"}  # pyright: ignore[reportUnknownVariableType]
    changed = parse(drop(text, PATH)).value

    others = {key: each for key, each in before.items() if key != "mcpServers"}
    assert changed in ({**before, "mcpServers": left}, others if not left else None)
