"""Make a state fit a budget: what fits comes whole, the rest by name and size, fetched on demand.

A cut value is `{"$cut": bytes, "path": "/findings"}`, for a list with how many `items` it has; sent
back, it means unchanged.
"""

from __future__ import annotations

from typing import Any

from holdfast_storage.core import strict_json
from holdfast_storage.core.delta import MISSING, at, path_of
from holdfast_storage.core.errors import InvalidValue, TooLarge
from holdfast_storage.core.strict_json import JsonObject, is_array, is_object, pointer

RESERVED = ("$cut", "$enc")


def cut(value: Any, budget: int, path: tuple[str, ...] = ()) -> Any:
    """Give `value` in at most `budget` bytes of JSON, as much of it whole as will fit."""
    size = len(strict_json.encode(value))
    if size <= budget:
        return value
    if not is_object(value):
        return _placeholder(value, size, path)
    sizes = {key: len(strict_json.encode(child)) for key, child in value.items()}
    shown = {key: _smaller(value[key], sizes[key], (*path, key)) for key in value}
    spare = budget - len(strict_json.encode(shown))
    if spare < 0:
        return _placeholder(value, size, path)
    return _filled(value, shown, sizes, spare, path)


def _filled(
    value: JsonObject, shown: JsonObject, sizes: dict[str, int], spare: int, path: tuple[str, ...]
) -> JsonObject:
    """Spend what is spare on the small values first, then on a part of the large ones."""
    for key in sorted(sizes, key=lambda key: sizes[key]):
        if shown[key] is value[key]:
            continue
        placeholder = len(strict_json.encode(shown[key]))
        shown[key] = cut(value[key], spare + placeholder, (*path, key))
        spare -= len(strict_json.encode(shown[key])) - placeholder
    return shown


def _smaller(child: Any, size: int, path: tuple[str, ...]) -> Any:
    placeholder = _placeholder(child, size, path)
    return child if size <= len(strict_json.encode(placeholder)) else placeholder


def _placeholder(value: Any, size: int, path: tuple[str, ...]) -> JsonObject:
    cut_out: JsonObject = {"$cut": size, "path": pointer(path)}
    # A list that is too long by itself is fetched item by item: /findings/0.
    return cut_out | {"items": len(value)} if is_array(value) else cut_out


def is_cut(value: Any) -> bool:
    """Say whether this stands for a value that was cut."""
    return is_object(value) and "$cut" in value


def uncut(value: Any, base: JsonObject, where: str, max_bytes: int) -> Any:
    """Put back, from `base`, the values whose placeholders were sent; refuse other reserved keys.

    Refused as well are more than so many bytes: a short call can name one long text very often.
    """
    return _Originals(base, where, max_bytes).put_back(value)


class _Originals:
    """The values that were cut, and how much of them was put back."""

    def __init__(self, base: JsonObject, where: str, max_bytes: int) -> None:
        self._base, self._where, self._max_bytes = base, where, max_bytes
        self._found: dict[str, tuple[Any, int]] = {}
        self._size = 0

    def put_back(self, value: Any) -> Any:
        if is_array(value):
            items = [self.put_back(item) for item in value]
            return value if all(map(_is, items, value)) else items
        if not is_object(value):
            return value
        if "$cut" in value:
            return self._original(value)
        if "$enc" in value:
            raise InvalidValue(self._where, "the key $enc is reserved")
        changed = {key: self.put_back(child) for key, child in value.items()}
        return value if all(map(_is, changed.values(), value.values())) else changed

    def _original(self, placeholder: JsonObject) -> Any:
        path = placeholder.get("path")
        if not isinstance(path, str) or set(placeholder) - {"$cut", "path", "items"}:
            raise InvalidValue(self._where, "the key $cut is reserved")
        if path not in self._found:
            original = self._at(path)
            # What a placeholder says of it is the caller's.
            self._found[path] = original, len(strict_json.encode(original))
        original, size = self._found[path]
        self._size += size
        if self._size > self._max_bytes:
            raise TooLarge(self._where, self._size, self._max_bytes)
        return original

    def _at(self, path: str) -> Any:
        try:
            original = at(self._base, path_of(path))
        except ValueError:
            original = MISSING
        if original is MISSING:
            raise InvalidValue(self._where, f"there is nothing at {path} that was cut")
        return original


def _is(one: Any, other: Any) -> bool:
    return one is other
