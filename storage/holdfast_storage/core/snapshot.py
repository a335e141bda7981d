"""A state as it was at one moment, as bytes or as objects, each made of the other when it is asked for.

A program may go on changing what it handed over, so it has to be copied. The bytes that go into the
journal are such a copy; the objects, which cost three times as much, are often never looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast_storage.core import strict_json
from holdfast_storage.core.strict_json import JsonObject

if TYPE_CHECKING:
    from collections.abc import KeysView

# So many places of a state, and so many bytes at each, tell whether it has anything of another.
_WINDOWS, _WINDOW_BYTES = 8, 48
# Multiples of this, without their whole part, lie all over and in step with nothing.
_GOLDEN = 0.6180339887498949


class Snapshot:
    """A state that nobody changes: what comes after it is another one, which may share its objects."""

    __slots__ = ("_keys", "_names", "_value", "raw")

    def __init__(self, value: JsonObject) -> None:
        self._value: JsonObject | None = value
        # Of a state that was kept as bytes the names of its keys, and an object of them, if anybody asked.
        self._names: tuple[str, ...] | None = None
        self._keys: JsonObject | None = None
        # Its bytes, if anybody has encoded it.
        self.raw = b""

    @classmethod
    def encoded(cls, state: JsonObject, raw: bytes) -> Snapshot:
        """Keep a state that somebody else may change from now on, as the bytes that encoding it gave."""
        kept = cls({})
        kept._value, kept._names, kept.raw = None, tuple(state), raw
        return kept

    @classmethod
    def of(cls, state: JsonObject | Snapshot) -> Snapshot:
        """Give a state as a snapshot, if it is none."""
        return state if isinstance(state, Snapshot) else cls(state)

    @property
    def value(self) -> JsonObject:
        """The objects, never to be changed."""
        value = self._value
        if value is None:
            self._value = value = strict_json.decode_own(self.raw)
            self._keys = None
        return value

    @property
    def keys(self) -> KeysView[str]:
        """Its keys, which are known without the objects."""
        keys = self._keys if self._value is None else self._value
        if keys is None:
            self._keys = keys = dict.fromkeys(self._names or ())
        return keys.keys()

    @property
    def is_empty(self) -> bool:
        """Say whether it has no keys."""
        return not (self._names if self._value is None else self._value)

    def is_known_to_have_the_keys_of(self, other: Snapshot) -> bool:
        """Say whether its keys are those of another, if that can be told in a fifth of the usual time.

        From then on the two share their names, and it can be told at once.
        """
        names, others = self._names, other._names
        if names is None or others is None or names != others:
            return False
        self._names = others
        return True

    def encoding(self) -> bytes:
        """Give its bytes, made now if nobody has."""
        return self.raw or strict_json.encode(self.value)

    def __eq__(self, other: object) -> bool:
        return self is other or self.value == plain(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Snapshot({self.value!r})"

    def apart(self) -> JsonObject:
        """Give objects that are nobody else's."""
        if not self.raw:
            return strict_json.apart(self.value)
        copy: JsonObject = strict_json.decode_own(self.raw)
        return copy


def plain(value: Any) -> Any:
    """Give the objects of what may be a snapshot: in records that were not read from the disk it is."""
    return value.value if isinstance(value, Snapshot) else value


def have_nothing_in_common(old: bytes, new: bytes) -> bool:
    """Guess from some places all over `new` whether nothing of it stood in `old`.

    Of states of which half stayed about where it was one in 256 is taken for new, and then written in
    full; of those of which half moved further one in four.
    """
    last = max(0, len(new) - _WINDOW_BYTES)
    # Not at equal distances: states have parts of equal length, and the same in each may have changed.
    starts = [int(number * _GOLDEN % 1 * last) for number in range(1, _WINDOWS + 1)]
    # What was put in or taken out before a place moved it by as much, if that was all there was.
    near, grown = len(old) // 64, len(new) - len(old)
    most = len(old) // 8
    left, right = min(near + max(grown, 0), most), min(near + max(-grown, 0), most)
    for start in starts:
        window = new[start : start + _WINDOW_BYTES]
        if old.find(window, max(0, start - left), start + right + _WINDOW_BYTES) >= 0:
            return False
    # To look everywhere for each takes four times as long as all of this.
    return not any(new[start : start + _WINDOW_BYTES] in old for start in starts[1::4])
