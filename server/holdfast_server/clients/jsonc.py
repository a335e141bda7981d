"""Change one value in a person's JSON file and leave every other byte, comments included, as it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from holdfast_storage.core.errors import Unreadable

Key = str | int
Path = tuple[Key, ...]

_TRIVIA = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|[-+.\w]+')
_CLOSING = {"{": "}", "[": "]"}


@dataclass(slots=True)
class Node:
    """A value and where it stands in the text."""

    start: int
    end: int
    value: Any
    children: dict[Key, Child] = field(default_factory=dict["Key", "Child"])

    @property
    def last(self) -> Child | None:
        """The child that stands last."""
        return max(self.children.values(), key=lambda child: child.start, default=None)


@dataclass(slots=True)
class Child:
    """A member or an item: its value, and the comma behind it, if there is one."""

    start: int
    node: Node
    comma: int | None = None

    @property
    def end(self) -> int:
        """Where it ends, its comma included."""
        return self.node.end if self.comma is None else self.comma + 1


def parse(text: str) -> Node:
    """Read JSON in which comments and trailing commas are allowed; no text at all is `{}`."""
    if not _after_trivia(text, 0) < len(text):
        return Node(len(text), len(text), {})
    node = _value(text, _after_trivia(text, 0))
    if (rest := _after_trivia(text, node.end)) < len(text):
        raise _unreadable(text, rest, "something follows the end")
    return node


def put(text: str, path: Path, value: Any) -> str:
    """Set the value at a path; what is missing on the way there is made."""
    node = parse(text)
    if node.start == node.end:
        start = text if not text or text.endswith("\n") else text + "\n"
        return start + _lines(text, _nested(path, value), "") + "\n"
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict if isinstance(key, str) else list):
            kind = "an object" if isinstance(key, str) else "a list"
            raise _unreadable(text, node.start, f"{kind} is expected here")
        if key not in node.children:
            return _inserted(text, node, key, _nested(path[depth + 1 :], value))
        node = node.children[key].node
    if node.value == value:
        return text
    written = _lines(text, value, _indent_at(text, node.start))
    return text[: node.start] + written + text[node.end :]


def drop(text: str, path: Path) -> str:
    """Remove what stands at a path, and whatever holds nothing else."""
    holders = [parse(text)]
    for key in path:
        if key not in holders[-1].children:
            return text
        holders.append(holders[-1].children[key].node)
    depth = len(path) - 1
    while depth > 0 and _holds_only(text, holders[depth], path[depth]):
        depth -= 1
    return _dropped(text, holders[depth], path[depth])


# --- reading ----------------------------------------------------------------------------------


def _after_trivia(text: str, index: int) -> int:
    found = _TRIVIA.match(text, index)
    return found.end() if found else index


def _value(text: str, start: int) -> Node:
    if text[start : start + 1] in _CLOSING:
        return _container(text, start)
    found = _SCALAR.match(text, start)
    if not found:
        raise _unreadable(text, start, "a value is expected here")
    try:
        return Node(start, found.end(), json.loads(found[0]))
    except ValueError as error:
        raise _unreadable(text, start, "this is no JSON") from error


def _container(text: str, start: int) -> Node:
    is_object = text[start] == "{"
    node = Node(start, start, {} if is_object else [])
    last: Child | None = None
    at = _after_trivia(text, start + 1)
    while text[at : at + 1] != _CLOSING[text[start]]:
        if last and last.comma is None:
            raise _unreadable(text, at, "a comma or the end is expected here")
        first = at
        key: Key = len(node.children)
        if is_object:
            key, at = _key(text, at)
        child = _value(text, at)
        last = node.children[key] = Child(first, child)
        at = _after_trivia(text, child.end)
        if text[at : at + 1] == ",":
            last.comma = at
            at = _after_trivia(text, at + 1)
    node.end = at + 1
    if is_object:
        node.value = {key: each.node.value for key, each in node.children.items()}
    else:
        node.value = [each.node.value for each in node.children.values()]
    return node


def _key(text: str, at: int) -> tuple[str, int]:
    found = _SCALAR.match(text, at)
    colon = _after_trivia(text, found.end()) if found else at
    if not found or not found[0].startswith('"') or text[colon : colon + 1] != ":":
        raise _unreadable(text, at, "a name in quotes and a colon are expected here")
    return json.loads(found[0]), _after_trivia(text, colon + 1)


def _unreadable(text: str, at: int, problem: str) -> Unreadable:
    line = text.count("\n", 0, at) + 1
    return Unreadable(problem, line, at - text.rfind("\n", 0, at))


# --- writing ----------------------------------------------------------------------------------


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value} if isinstance(key, str) else [value]
    return value


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, at: int) -> str:
    """Give the white space that the line of this place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _is_first_on_its_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t")


def _unit(text: str) -> str:
    """Give one level of indentation, as the file has it."""
    root = parse(text)
    own = next((_indent_at(text, child.start) for child in root.children.values()), "")
    return own or "  "


def _lines(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (_newline(text) + indent).join(lines)


def _inserted(text: str, node: Node, key: Key, value: Any) -> str:
    outer = _indent_at(text, node.start)
    inner = outer + _unit(text)
    close, last = node.end - 1, node.last
    if last and _is_first_on_its_line(text, last.start):
        inner = _indent_at(text, last.start)
    if last and last.comma is None:
        head = text[: last.node.end] + "," + text[last.node.end : close]
    else:
        head = text[:close]
    name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
    # Whoever ends each line with a comma gets one more such line.
    comma = "," if last and last.comma is not None else ""
    body = _newline(text) + inner + name + _lines(text, value, inner) + comma
    return head.rstrip() + body + _newline(text) + outer + text[close:]


def _holds_only(text: str, holder: Node, key: Key) -> bool:
    """Say whether nothing else stands in there, not even a comment."""
    child = holder.children[key]
    around = text[holder.start + 1 : child.start] + text[child.end : holder.end - 1]
    return len(holder.children) == 1 and not around.strip()


def _dropped(text: str, holder: Node, key: Key) -> str:
    if _holds_only(text, holder, key):
        return text[: holder.start + 1] + text[holder.end - 1 :]
    child = holder.children[key]
    start, end = child.start, child.end
    rest_of_line = text[end : (text + "\n").index("\n", end)]
    if _is_first_on_its_line(text, start) and not rest_of_line.strip():
        start = len(text[:start].rstrip())
    else:
        end += len(rest_of_line) - len(rest_of_line.lstrip(" \t"))
    before = [each for each in holder.children.values() if each.start < child.start]
    if child is holder.last and child.comma is None and before:
        comma = max(each.end for each in before) - 1
        return text[:comma] + text[comma + 1 : start] + text[end:]
    return text[:start] + text[end:]
