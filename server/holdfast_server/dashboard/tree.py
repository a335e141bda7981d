"""A JSON value as a tree to unfold, no larger than a page can bear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from holdfast_storage.core.strict_json import encode, is_array, is_object, pointer

_TEXT_SHOWN = 600
_MEMBERS_SHOWN = 100
_NODES_SHOWN = 600
_DEPTH_SHOWN = 8
_KINDS = {"True": "true", "False": "false", "None": "null"}


@dataclass(slots=True)
class Node:
    """One value: a leaf with its text, or a branch with what is shown of its members."""

    key: str
    path: str
    kind: str  # object, list, text, number, true, false, null
    text: str = ""
    count: int = 0
    children: list[Node] = field(default_factory=list["Node"])
    # Members that are not shown here; the address of this node shows them.
    left_out: int = 0
    is_cut: bool = False


class _Room:
    """How many nodes may still be shown."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes


def tree_of(value: Any, path: tuple[str, ...] = (), start: int = 0) -> Node:
    """Give the tree of a value; of its own members those from `start` on."""
    return _node(path[-1] if path else "", value, path, _Room(_NODES_SHOWN), 0, start)


def _node(
    key: str, value: Any, path: tuple[str, ...], room: _Room, depth: int, start: int = 0
) -> Node:
    where = pointer(path)
    if not is_object(value) and not is_array(value):
        return _leaf(key, where, value)
    node = Node(key, where, "object" if is_object(value) else "list", count=len(value))
    members: Iterable[tuple[str, Any]] = (
        value.items() if is_object(value) else ((str(at), each) for at, each in enumerate(value))
    )
    if depth < _DEPTH_SHOWN:
        for name, each in islice(members, start, start + _MEMBERS_SHOWN):
            if room.nodes <= 0:
                break
            room.nodes -= 1
            node.children.append(_node(name, each, (*path, name), room, depth + 1))
    node.left_out = len(value) - start - len(node.children)
    return node


def _leaf(key: str, where: str, value: Any) -> Node:
    if isinstance(value, str):
        is_cut = len(value) > _TEXT_SHOWN
        return Node(key, where, "text", value[:_TEXT_SHOWN], len(value), is_cut=is_cut)
    return Node(key, where, _KINDS.get(str(value), "number"), encode(value).decode())
