"""Bring together what several writers made of one state, so that nobody's change is lost unnoticed.

As in `delta`, states are never altered in place, and what two of them share has not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from holdfast_storage.core.delta import MISSING
from holdfast_storage.core.errors import InvalidValue
from holdfast_storage.core.strict_json import JsonObject, is_array, is_object, pointer, same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Prefer = Literal["current", "wanted"]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clash:
    """A value that two writers changed differently; MISSING stands for one that is not there."""

    path: Path
    base: Any
    current: Any
    wanted: Any


@dataclass(frozen=True, slots=True)
class Merged:
    """What came out of a merge, and where it had to choose."""

    value: JsonObject
    clashes: tuple[Clash, ...]


def merge_patch(target: JsonObject, patch: JsonObject) -> JsonObject:
    """Apply a merge patch (RFC 7396): deep, lists whole, null removes a key.

    What the patch does not change is shared with `target`; if that is all, `target` is the answer.
    """
    changed = {key: _patched(target.get(key, MISSING), value) for key, value in patch.items()}
    return _with_changes(target, changed)


def _patched(old: Any, value: Any) -> Any:
    if value is None:
        return MISSING
    if not is_object(value):
        return old if same(old, value) else value
    # Even where there is nothing to merge with: the nulls in the patch are no values.
    return merge_patch(old, value) if is_object(old) else merge_patch({}, value)


def _with_changes(target: JsonObject, changed: Mapping[str, Any]) -> JsonObject:
    """Copy only if something differs; keys keep their order, new ones come last."""
    if all(target.get(key, MISSING) is value for key, value in changed.items()):
        return target
    result = {**target, **changed}
    for key, value in changed.items():
        if value is MISSING:
            del result[key]
    return result


def append(target: JsonObject, additions: Mapping[str, list[Any]]) -> JsonObject:
    """Add items at the end of top-level lists, making those that are not there."""
    return _with_changes(
        target,
        {key: _appended(key, target.get(key, MISSING), items) for key, items in additions.items()},
    )


def _appended(key: str, old: Any, items: Any) -> Any:
    if not is_array(items):
        raise InvalidValue("append" + pointer([key]), "give a list of the items to add")
    if old is MISSING:
        return items
    if not is_array(old):
        problem = "what is saved there is not a list; set it through state instead"
        raise InvalidValue("append" + pointer([key]), problem)
    return [*old, *items] if items else old


def three_way(
    base: JsonObject, current: JsonObject, wanted: JsonObject, *, prefer: Prefer
) -> Merged:
    """Merge what made `wanted` of `base` into `current`; `prefer` decides where both changed a value.

    Lists are atomic. An object that gains or loses keys has not itself changed; replacing or
    removing it clashes with every change below it. The result shares what it can with `current`.
    """
    clashes: list[Clash] = []
    value = _Merge(prefer, clashes).objects((), base, current, wanted)
    return Merged(value, tuple(clashes))


@dataclass(frozen=True, slots=True)
class _Merge:
    prefer: Prefer
    clashes: list[Clash]

    def objects(
        self, path: Path, base: JsonObject, current: JsonObject, wanted: JsonObject
    ) -> JsonObject:
        changed: JsonObject = {}
        for key in _keys_that_differ(current, wanted):
            now, want = current.get(key, MISSING), wanted.get(key, MISSING)
            merged = self.values((*path, key), base.get(key, MISSING), now, want)
            if merged is not now:
                changed[key] = merged
        return _with_changes(current, changed)

    def values(self, path: Path, base: Any, current: Any, wanted: Any) -> Any:
        if wanted is base:
            return current
        if is_object(current) and is_object(wanted):
            return self.objects(path, base if is_object(base) else {}, current, wanted)
        if same(wanted, current) or same(wanted, base):
            return current
        if same(current, base):
            return wanted
        self.clashes.append(Clash(path, base, current, wanted))
        return current if self.prefer == "current" else wanted


def _keys_that_differ(current: JsonObject, wanted: JsonObject) -> Iterator[str]:
    for key, value in current.items():
        if wanted.get(key, MISSING) is not value:
            yield key
    for key in wanted:
        if key not in current:
            yield key


def repeats(
    base: JsonObject, current: JsonObject, wanted_patch: JsonObject, *, nulls_remove: bool
) -> tuple[Clash, ...]:
    """Find what a caller sends as it was in `base` while others have changed it since.

    A merge cannot see these: to it, sending the old value and not touching it are the same.
    `nulls_remove` says that null in `wanted_patch` means "remove" (a merge patch), else it is a value.
    """
    return tuple(_repeats((), base, current, wanted_patch, nulls_remove))


def _repeats(
    path: Path, base: JsonObject, current: JsonObject, patch: JsonObject, nulls_remove: bool
) -> Iterator[Clash]:
    for key, sent in patch.items():
        old, now = base.get(key, MISSING), current.get(key, MISSING)
        if old is now:
            continue
        # An object sent where an object was, and no longer is, is repeated as a whole or not at all.
        if is_object(sent) and (is_object(now) or not is_object(old)):
            below = (old if is_object(old) else {}), (now if is_object(now) else {})
            yield from _repeats((*path, key), *below, sent, nulls_remove)
            continue
        wanted = _patched(old, sent) if nulls_remove else sent
        if same(wanted, old) and not same(now, old):
            yield Clash((*path, key), old, now, wanted)
