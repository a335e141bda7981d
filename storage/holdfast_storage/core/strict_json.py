"""Let nothing but plain JSON in, whoever wrote it, so that whatever was kept can be read again."""

from __future__ import annotations

import gc
import json
import re
from collections import deque
from itertools import compress, repeat
from math import isfinite
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeGuard, TypeVar

import orjson
import pydantic_core

from holdfast_storage.core.errors import InvalidValue, TooLarge, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

JsonObject = dict[str, Any]
T = TypeVar("T")

MAX_DEPTH = 64
# In its file a state stands one level below the top and an answer three; the deepest allowed must be
# readable there.
_FILE_DEPTH = MAX_DEPTH + 4
# Python and pydantic_core read integers of up to 4,300 digits.
_FILE_DIGITS = 4300
_VALUE_DIGITS = 4000
_TOO_LONG = 10**_VALUE_DIGITS

_SURROGATE = re.compile("[\ud800-\udfff]")


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Say whether a JSON value is an object."""
    return type(value) is dict


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Say whether a JSON value is an array."""
    return type(value) is list


def pointer(path: Sequence[str]) -> str:
    """Write a path as a JSON Pointer (RFC 6901): `("a/b", "c")` is `/a~1b/c`."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


# --- our own lines ----------------------------------------------------------------------------

# Nothing that is not quite a dict, a list, a text or a number is to be taken for one.
_STRICTLY = (
    orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
)
_FOR_PEOPLE = _STRICTLY | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


class _WithLong(bytes):
    """An encoding with an integer of more than 64 bits."""


def encode(value: Any) -> bytes:
    """Write a value that was checked before, as compact UTF-8."""
    try:
        # In a fifth of the time that pydantic_core takes.
        return orjson.dumps(value, option=_STRICTLY)
    except TypeError:
        return _encode_long(value)


def _encode_long(value: Any) -> bytes:
    """Write the same where there are integers of more than 64 bits."""
    return _WithLong(pydantic_core.to_json(value, inf_nan_mode="constants"))


def decode(raw: bytes) -> Any:
    """Read what `encode` wrote, every number exactly; ValueError for anything that is not JSON.

    Not with orjson, which makes floats of long integers.
    """
    # Keys come again and again; values, cached too, would fill a megabyte and be of no use.
    return pydantic_core.from_json(raw, allow_inf_nan=False, cache_strings="keys")


def decode_own(raw: bytes) -> Any:
    """Read what `encode` or `check` gave, the same object: it tells whether orjson can, which is quicker."""
    return decode(raw) if isinstance(raw, _WithLong) else orjson.loads(raw)


def apart(value: T) -> T:
    """Copy values that were checked: what a program does with its objects is no change to ours.

    As they would be read again: one list in two places is two.
    """
    copy: T = decode(encode(value))
    return copy


def pretty(value: Any) -> bytes:
    """Write a value that was checked before for people: indented, in the order given, a newline at the end."""
    try:
        return orjson.dumps(value, option=_FOR_PEOPLE)
    except TypeError:
        return pydantic_core.to_json(value, indent=2) + b"\n"


def same(a: object, b: object) -> bool:
    """Say whether two JSON values are equal; 1, 1.0 and true are not, the order of keys is no matter.

    What the two share is not looked into.
    """
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is dict:
        return _same_members(a, b)
    if kind is list:
        return _same_items(a, b)
    # -0.0 == 0.0, yet they are written differently.
    return a == b and (kind is not float or a != 0 or str(a) == str(b))


def _same_members(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(key in b and same(value, b[key]) for key, value in a.items())


# Two values of one of these kinds are the same if they are equal.
_EXACT = frozenset({str, int, bool, type(None)})


def _same_items(a: Any, b: Any) -> bool:
    if len(a) != len(b):
        return False
    kinds = list(map(type, a))
    if _EXACT.issuperset(kinds):
        # In C, which matters for long lists.
        return bool(a == b) and kinds == list(map(type, b))
    return all(x is y or same(x, y) for x, y in zip(a, b, strict=True))


# --- values that agents and programs give -----------------------------------------------------

_PLAIN = frozenset({*_EXACT, float, list, dict})
_HOLDERS = frozenset({list, dict})
# So few values are sooner looked at one by one; and so many nest at most as deep.
_FEW = 32
# So many objects and lists are looked into at a time.
_GROUP = 256
_SHORT = 1 << 64  # integers nearer to zero than this need no closer look
_INSTEAD = {
    "bytes": "use text, for example base64",
    "date": "use text in ISO 8601",
    "datetime": "use text in ISO 8601",
    "defaultdict": "use a dict",
    "frozenset": "use a list",
    "mappingproxy": "use a dict",
    "OrderedDict": "use a dict",
    "set": "use a list",
    "tuple": "use a list",
}


def check(value: Any, where: str, *, max_bytes: int, max_depth: int = MAX_DEPTH) -> bytes:
    """Encode a value, or refuse it and name the place in it that is not plain JSON.

    `where` is what the caller calls the value ("state"); places are named as "state/totals/pages".
    """
    if max_depth < _FEW or not _are_few_and_plain(value):
        _go_through(value, where, max_bytes, max_depth)
    try:
        raw = orjson.dumps(value, option=_STRICTLY)
    except TypeError:
        # A long integer, or something is no key or no text.
        _go_through(value, where, max_bytes, max_depth, _is_sound)
        try:
            raw = _encode_long(value)
        except pydantic_core.PydanticSerializationError:
            _refuse(value, where, max_depth)
    if len(raw) > max_bytes:
        raise TooLarge(where, len(raw), max_bytes)
    return raw


def _are_few_and_plain(value: Any) -> bool:
    """Say whether all is well with a small value; if not, or if it is none, others look closer."""
    values: list[Any] = [value]
    for item, kind in zip(values, map(type, values), strict=False):
        if kind in _EXACT:
            if isinstance(item, int) and not -_SHORT < item < _SHORT:
                return False
        elif kind is dict:
            if len(item) > _FEW or not set(map(type, item)) <= {str}:
                return False
            values += item.values()
        elif kind is list:
            if len(item) > _FEW:
                return False
            values += item
        elif kind is not float or not isfinite(item):
            return False
        if len(values) > _FEW:
            return False
    return True


class _Level(NamedTuple):
    """Many values of one depth together, so that C does the looping and no depth exhausts a stack."""

    values: list[Any]
    kinds: list[type]
    found: set[type]


def _go_through(
    value: Any,
    where: str,
    max_bytes: int,
    max_depth: int,
    is_well: Callable[[_Level], bool] | None = None,
) -> None:
    """Refuse what is of no plain kind, or too deep, or too much, or on a level where not all is well."""
    values: list[Any] = [value]
    groups: Iterable[list[Any]] = (values,)
    count = 0
    for depth in range(max_depth + 1):
        holders: list[Any] = []
        for values in groups:
            kinds = list(map(type, values))
            level = _Level(values, kinds, set(kinds))
            is_nested = not level.found.isdisjoint(_HOLDERS)
            is_too_deep = is_nested and depth == max_depth
            is_plain = level.found <= _PLAIN and _are_finite(level)
            if is_too_deep or not is_plain or (is_well is not None and not is_well(level)):
                _refuse(value, where, max_depth)
            if is_nested:
                holders += _holders_of(level)
        if not holders:
            return
        count += sum(map(len, holders))
        # Each takes two bytes at least, with its comma or bracket. A program can name one list
        # a million times over, so this is asked before the next level is gathered.
        if 2 * count > max_bytes:
            raise TooLarge(where, 2 * count, max_bytes)
        groups = _held_by(holders)


def _held_by(holders: list[Any]) -> Iterator[list[Any]]:
    """Gather what they hold, so little at a time that it is still in the cache when it is looked at."""
    for start in range(0, len(holders), _GROUP):
        # Twice as quick as chaining their iterators.
        yield gc.get_referents(*holders[start : start + _GROUP])


def _holders_of(level: _Level) -> list[Any]:
    """Pick the objects and lists of a level on which all values are of plain kinds."""
    values, kinds, found = level
    if found <= _HOLDERS:
        return values
    if dict not in found:
        # The collector follows every list and no text or number, and can tell in half of the time.
        return list(filter(gc.is_tracked, values))
    return list(compress(values, map(_HOLDERS.__contains__, kinds)))


def _are_finite(level: _Level) -> bool:
    """Say whether all floats of a level are numbers, which no encoding would tell."""
    if float not in level.found:
        return True
    # Very large ones may have no finite sum.
    return isfinite(sum(_floats_of(level))) or all(map(isfinite, _floats_of(level)))


def _floats_of(level: _Level) -> Iterator[float]:
    return compress(level.values, map(is_, level.kinds, repeat(float)))


def _is_sound(level: _Level) -> bool:
    """Say whether all keys are texts, and no integer is too long."""
    values, kinds, found = level
    if int in found and any(map(_is_too_long, compress(values, map(is_, kinds, repeat(int))))):
        return False
    # One that equals a text and is none may be missed here, but where not all keys are texts the
    # referents of an object are its keys too, so the next level has it.
    objects = compress(values, map(is_, kinds, repeat(dict)))
    return set(map(type, set[object]().union(*objects))) <= {str}


def _is_too_long(number: int) -> bool:
    return not -_TOO_LONG < number < _TOO_LONG


def _refuse(value: Any, where: str, max_depth: int) -> NoReturn:
    """Name the place that `check` stumbled over."""
    for path, item in _places(value):
        if problem := _problem_of(item, len(path), max_depth):
            raise InvalidValue(where + _shortened(pointer(path), 200), problem)
    raise InvalidValue(where, "it was changed while it was looked at; hand over a copy")


def _places(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Go level by level, as `check` did, so as not to look at more than it did."""
    yield (), value
    waiting: deque[tuple[tuple[str, ...], Any]] = deque([((), value)])
    while waiting:
        path, holder = waiting.popleft()
        for key, item in _members(holder):
            yield (here := (*path, str(key))), item
            if is_object(item) or is_array(item):
                waiting.append((here, item))


def _members(holder: object) -> Iterable[tuple[object, Any]]:
    if is_object(holder):
        return holder.items()
    return enumerate(holder) if is_array(holder) else ()


def _problem_of(item: object, depth: int, max_depth: int) -> str:
    kind = type(item)
    if kind not in _PLAIN:
        advice = _INSTEAD.get(kind.__name__, "use None, bool, int, float, str, list or dict itself")
        return f"{kind.__name__} is not plain JSON; {advice}"
    if kind in (dict, list) and depth >= max_depth:
        return f"nested more than {max_depth} levels deep; make it flatter"
    if is_object(item):
        return next((problem for key in item if (problem := _key_problem(key))), "")
    if isinstance(item, float) and not isfinite(item):
        return f"{item} is not JSON; use null or text"
    if isinstance(item, int) and _is_too_long(item):
        return f"an integer of more than {_VALUE_DIGITS:,} digits; use text"
    if isinstance(item, str) and _SURROGATE.search(item):
        return "half a surrogate pair is not text; send the whole character or remove it"
    return ""


def _key_problem(key: object) -> str:
    if type(key) is not str:
        return f"a key is of type {type(key).__name__}; use str itself"
    if _SURROGATE.search(key):
        return f"the key {key[:80]!a} has half a surrogate pair; remove it"
    return ""


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


# --- files that people write ------------------------------------------------------------------

_STRING = r'"(?:[^"\\]++|\\.)*+"?+'  # the end is optional: an unclosed one must not be tried again
_NO_BRACKETS = re.compile(rf'(?:{_STRING}|[^\[\]{{}}"]++)++', re.DOTALL)
# As `json` reads them, garbage behind them left aside.
_NUMBER = r"NaN|-?Infinity|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
_TOKEN = re.compile(rf"{_STRING}|[\[\]{{}}]|{_NUMBER}", re.DOTALL)
_COLON = re.compile(r"\s*:")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class _Refused(Exception):
    """`json` came across something that is not for us; it cannot tell where."""


def parse_object(raw: bytes) -> JsonObject:
    """Read a file that people may have edited, or raise Unreadable with line and column."""
    text = _text_of(raw)
    try:
        if _is_too_deep(text):
            raise _Refused
        found: Any = json.loads(
            text,
            object_pairs_hook=_object_of,
            parse_constant=_float_of,
            parse_float=_float_of,
            parse_int=_integer_of,
        )
    except json.JSONDecodeError as error:
        raise Unreadable(_in_plain_words(error), error.lineno, error.colno) from error
    except _Refused:
        _raise_first_fault(text)
        raise AssertionError("the file was refused and nothing in it is wrong") from None
    # Most such escapes are halves of whole pairs: some programs write emoji so.
    if _SURROGATE_ESCAPE.search(text) and not _is_text_throughout(found):
        _raise_first_fault(text)
    if not is_object(found):
        start = len(text) - len(text.lstrip())
        raise _unreadable("the file must hold an object: { … }", text, start)
    return found


def _is_text_throughout(value: Any) -> bool:
    try:
        encode(value)
    except pydantic_core.PydanticSerializationError:
        return False
    return True


def _text_of(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unreadable("the file is in UTF-16; save it as UTF-8", 1, 1)
    if b"\0" in raw[:4]:
        problem = "the file has zero bytes: it is damaged or in UTF-16; save it as UTF-8"
        raise Unreadable(problem, 1, 1)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        good = error.object[: error.start].decode()
        problem = f"the byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise _unreadable(problem, good, len(good)) from error
    if not text.strip():
        raise Unreadable("the file is empty", 1, 1)
    return text


def _unreadable(problem: str, text: str, index: int) -> Unreadable:
    line = text.count("\n", 0, index) + 1
    return Unreadable(problem, line, index - text.rfind("\n", 0, index))


def _is_too_deep(text: str) -> bool:
    """Ask before parsing, because a parser that nests too deep dies of RecursionError."""
    if text.count("[") + text.count("{") <= _FILE_DEPTH:
        return False
    depth = 0
    for bracket in _NO_BRACKETS.sub("", text):
        depth += 1 if bracket in "[{" else -1
        if depth > _FILE_DEPTH:
            return True
    return False


def _object_of(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused
    return found


def _float_of(token: str) -> float:
    number = float(token)
    if not isfinite(number):
        raise _Refused
    return number


def _integer_of(token: str) -> int:
    if len(token) > _FILE_DIGITS and _number_problem(token):
        raise _Refused
    return int(token)


def _number_problem(token: str) -> str:
    digits = token.removeprefix("-")
    if not digits.isdigit():
        return "" if isfinite(float(token)) else f"{_shortened(token, 80)} is not a number in JSON"
    if len(digits) > _FILE_DIGITS:
        return f"an integer of more than {_FILE_DIGITS:,} digits; write it as text"
    return ""


def _in_plain_words(error: json.JSONDecodeError) -> str:
    """Name the slips that people make most often; the parser's own words do for the rest."""
    before, rest = error.doc[: error.pos].rstrip(), error.doc[error.pos :]
    if rest.startswith(("}", "]")) and before.endswith(","):
        return f"there is a comma too many before this {rest[0]}"
    if rest.startswith(("//", "/*", "#")):
        return "JSON has no comments; remove this one"
    if rest.startswith("'"):
        return "text stands in double quotes in JSON"
    return error.msg[:1].lower() + error.msg[1:]


def _raise_first_fault(text: str) -> None:
    """Go through the tokens of a file that `json` would not have, for the line and column."""
    keys_of_open: list[set[str]] = []  # for each open bracket; those of a list stay empty
    for token in _TOKEN.finditer(text):
        problem = _fault_of(token, keys_of_open)
        if problem:
            raise _unreadable(problem, text, token.start())


def _fault_of(token: re.Match[str], keys_of_open: list[set[str]]) -> str:
    word = token[0]
    if word in "[{":
        keys_of_open.append(set())
        too_deep = len(keys_of_open) > _FILE_DEPTH
        return f"nested more than {_FILE_DEPTH} levels deep" if too_deep else ""
    if word in "]}":
        del keys_of_open[-1:]
        return ""
    if word.startswith('"'):
        is_key = _COLON.match(token.string, token.end()) is not None
        return _string_problem(word, keys_of_open[-1] if is_key and keys_of_open else None)
    return _number_problem(word)


def _string_problem(word: str, keys: set[str] | None) -> str:
    try:
        content: str = json.loads(word)
    except json.JSONDecodeError:
        return ""  # there is a fault further down that counts more, or else `json` had named this
    if _SURROGATE.search(content):
        return "half a surrogate pair is not text; write the whole character or remove it"
    if keys is None:
        return ""
    if content in keys:
        return f"the key {_shortened(word, 80)} appears twice in one object; remove one of them"
    keys.add(content)
    return ""
