"""Say what changed between two states, so that keeping a save costs what changed and no more.

States are never altered in place: an old and a new one share what did not change, and where they
share there is nothing to look for.
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import compress
from operator import eq, is_not
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast_storage.core.strict_json import JsonObject, is_array, is_object, pointer, same

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MISSING", "Changes", "Missing", "apply", "at", "diff", "path_of", "pointer"]

Changes = dict[str, Any]
"""As it stands in the journal: `{"set": {"/a": 1}, "add": {"/list": [2]}, "drop": ["/b"]}`."""


class Difference(NamedTuple):
    """A value that differs between two states; MISSING where there is none."""

    path: str
    old: Any
    new: Any


class Missing(Enum):
    """The type of `MISSING`; an enum, because its member stays the same one when it is copied."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""Stands for a value that is not there, which null would not: null is a value."""

_PARTS: Final[dict[str, type]] = {"set": dict, "add": dict, "drop": list}
# Of each object so many members, and of all of them so many values.
_SAMPLE, _LOOKED_AT = 16, 50
_BAD_ESCAPE = re.compile("~(?![01])")
_INDEX = re.compile("0|[1-9][0-9]{0,17}")


def path_of(pointer: str) -> tuple[str, ...]:
    """Read a JSON Pointer; ValueError if it is none."""
    if not pointer:
        return ()
    if not pointer.startswith("/") or _BAD_ESCAPE.search(pointer):
        raise ValueError(f"{pointer[:80]!a} is not a JSON Pointer such as /totals/pages")
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in pointer[1:].split("/"))


def at(value: Any, path: Sequence[str]) -> Any:
    """Give what lies at a path, through objects by key and lists by index, or MISSING."""
    for key in path:
        if is_object(value):
            value = value.get(key, MISSING)
        elif is_array(value) and _INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


def diff(old: JsonObject, new: JsonObject) -> Changes:
    """Give the changes that make `new` of `old`; nothing changed is `{}`."""
    changes: Changes = {"set": {}, "add": {}, "drop": []}
    _note_changes(old, new, "", changes, None)
    return {part: noted for part, noted in changes.items() if noted}


def diff_unless_more(old: JsonObject, new: JsonObject, most: int) -> Changes | None:
    """Give the changes if they are not more than so many; finding out costs no more than that."""
    changes: Changes = {"set": {}, "add": {}, "drop": []}
    if not _note_changes(old, new, "", changes, most):
        return None
    return {part: noted for part, noted in changes.items() if noted}


def is_all_new(old: JsonObject, new: JsonObject) -> bool:
    """Guess, at little cost, whether the two have so little in common that nobody need look for it.

    They do not where any key of `new` has the value it had. Else some values from all over tell.
    """
    if any(map(eq, map(old.get, new), new.values())):
        return False
    looked_at = kept = 0
    waiting: list[tuple[Any, Any]] = [(old, new)]
    while waiting and looked_at < _LOOKED_AT:
        before, now = waiting.pop()
        if is_object(before) and is_object(now):
            some = list(now)[:: len(now) // _SAMPLE + 1]
            waiting += [(before.get(key, MISSING), now[key]) for key in some]
        else:
            looked_at += 1
            kept += before == now or _may_have_grown(before, now)
    return 4 * kept <= looked_at


def _may_have_grown(before: Any, now: Any) -> bool:
    if not is_array(before) or not is_array(now):
        return False
    return len(before) < len(now) and before[:1] == now[:1]


def _note_changes(
    old: JsonObject, new: JsonObject, above: str, changes: Changes, most: int | None
) -> bool:
    """Note what changed; False, and not all of it noted, if that is more than `most`."""
    changed, grown = changes["set"], changes["add"]
    for key in _keys_not_shared(old, new):
        before, now = old.get(key, MISSING), new[key]
        if is_object(now) and is_object(before):
            if not _note_changes(before, now, _below(above, key), changes, most):
                return False
        elif is_array(now) and _only_grew(before, now):
            grown[_below(above, key)] = now[len(before) :]
        elif before != now or not same(before, now):
            changed[_below(above, key)] = now
        if most is not None and len(changed) + len(grown) > most:
            return False
    if not old.keys() <= new.keys():
        changes["drop"].extend(_below(above, key) for key in old if key not in new)
    return most is None or len(changed) + len(grown) + len(changes["drop"]) <= most


def _keys_not_shared(old: JsonObject, new: JsonObject) -> list[str]:
    """Give the keys of `new` that have another object in `old`; of thousands they are often a few."""
    if list(old) == list(new):
        return list(compress(new, map(is_not, old.values(), new.values())))
    return [key for key, now in new.items() if old.get(key, MISSING) is not now]


def _below(above: str, key: str) -> str:
    return f"{above}/{key}" if "/" not in key and "~" not in key else above + pointer([key])


def _only_grew(before: Any, now: Any) -> bool:
    if not is_array(before) or not is_array(now):
        return False
    return len(before) < len(now) and same(before, now[: len(before)])


def differences(old: JsonObject, new: JsonObject) -> list[Difference]:
    """List what differs, value by value."""
    return _listed(old, new, diff(old, new))


def few_differences(
    old: JsonObject, new: JsonObject, most: int, known: Changes | None = None
) -> list[Difference] | None:
    """List what differs if that is not more than `most`; else None, which costs little to find out.

    `known` are the changes that made `new` of `old`, if somebody has them.
    """
    if known is None:
        known = diff_unless_more(old, new, most)
    if known is None or sum(map(len, known.values())) > most:
        return None
    return _listed(old, new, known)


def _listed(old: JsonObject, new: JsonObject, changes: Changes) -> list[Difference]:
    found = [path_of(where) for where in paths(changes)]
    return [Difference(pointer(path), at(old, path), at(new, path)) for path in found]


def key_differences(old: JsonObject, new: JsonObject) -> list[Difference]:
    """List the top-level keys that differ, whatever below them does."""
    return [
        Difference(_below("", key), old.get(key, MISSING), new.get(key, MISSING))
        for key in keys_that_differ(old, new)
    ]


def keys_that_differ(old: JsonObject, new: JsonObject) -> list[str]:
    """Name the top-level keys that differ, the dropped ones first."""
    found = [key for key in old if key not in new] if not old.keys() <= new.keys() else []
    found += [
        key
        for key in _keys_not_shared(old, new)
        # What is not equal, which C can tell, is not the same.
        if (before := old.get(key, MISSING)) != (now := new[key]) or not same(before, now)
    ]
    return found


def paths(changes: Changes) -> list[str]:
    """List the pointers of everything that changes."""
    return [where for part in _PARTS for where in changes.get(part, ())]


def apply(value: JsonObject, changes: Changes) -> JsonObject:
    """Make the changed state, sharing with `value` all that did not change; `value` stays as it is.

    ValueError if the changes are not changes to this value.
    """
    _check_form(changes)
    if not any(changes.values()):
        return value
    result = _Copy(value)
    for where in changes.get("drop", ()):
        result.drop(where)
    for where, new in changes.get("set", {}).items():
        result.set(where, new)
    for where, items in changes.get("add", {}).items():
        result.add(where, items)
    return result.root


def _check_form(changes: Changes) -> None:
    for part, content in changes.items():
        is_right_kind = type(content) is _PARTS.get(part)
        if not is_right_kind or not all(isinstance(where, str) for where in content):
            raise ValueError(f"changes cannot have the part {part[:80]!a} in this form")


class _Copy:
    """A copy that comes about only along the paths that are altered, each object once."""

    def __init__(self, value: JsonObject) -> None:
        self.root = dict(value)
        # By id, and held so that no id is given out again while we go by it.
        self._own = {id(self.root): self.root}

    def set(self, where: str, new: Any) -> None:
        holder, key = self._holder(where)
        holder[key] = new

    def add(self, where: str, items: Any) -> None:
        holder, key = self._holder(where)
        before = holder.get(key)
        if not is_array(before) or not is_array(items):
            raise _unfit(where)
        holder[key] = [*before, *items]

    def drop(self, where: str) -> None:
        holder, key = self._holder(where)
        if key not in holder:
            raise _unfit(where)
        del holder[key]

    def _holder(self, where: str) -> tuple[JsonObject, str]:
        path = path_of(where)
        if not path:
            raise _unfit(where)
        holder = self.root
        for key in path[:-1]:
            below = holder.get(key)
            if not is_object(below):
                raise _unfit(where)
            holder[key] = self._owned(below)
            holder = holder[key]
        return holder, path[-1]

    def _owned(self, found: JsonObject) -> JsonObject:
        if id(found) in self._own:
            return found
        copy = dict(found)
        self._own[id(copy)] = copy
        return copy


def _unfit(where: Any) -> ValueError:
    return ValueError(f"the change at {where[:80]!a} does not fit the value")
