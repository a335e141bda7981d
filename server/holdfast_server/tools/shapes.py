"""Bring a value into the shape an argument takes, as whoever sent it probably meant it."""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from math import isnan
from typing import Any

from holdfast_server.tools import words
from holdfast_server.tools.arguments import STATUSES, problem_of
from holdfast_server.tools.specs import Schema
from holdfast_storage.core import ids
from holdfast_storage.core.strict_json import is_array, is_object

_NAMING_KEYS = (
    *("step", "name", "id", "title", "content", "task", "label", "description", "text"),
    *("path", "url", "file", "value"),
)
_NAMES = ("task", "step", "label")
_NOT_IN_A_NAME = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]+"
    "|[\ud800-\udfff]"
)


def shaped(name: str, value: Any, schema: Schema) -> Any:
    """Give the value as the argument would take it; unchanged if nobody can tell."""
    if not problem_of(name, value, schema):
        return value
    if name in words.CAREFUL:
        return _as_certain(name, value, schema)
    if "enum" in schema:
        return right_word(value, schema["enum"])
    return _SHAPERS[schema["type"]](name, value, schema)


def _as_certain(name: str, value: Any, schema: Schema) -> Any:
    """Read what can only be read in one way: nothing likely, nothing brought within bounds."""
    if schema["type"] == "boolean":
        said = words.flag(value)
        return value if said is None else said
    if isinstance(value, str) and name.endswith("_hours"):
        return words.hours(value)
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,9}\s*", value):
        return int(value)
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole and schema["type"] == "integer" else value


# --- texts ------------------------------------------------------------------------------------


def _as_text(name: str, value: Any, schema: Schema) -> Any:
    text = _text_of(name, value)
    if name in _NAMES:
        return _as_name(text)
    if name == "status":
        return right_word(text, list(STATUSES))
    return _as_pointer(text) if name == "path" else text


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if is_array(value) and value:
        texts = [_name_of(item) for item in value]
        # One call is about one step of one task.
        return texts[0] if name in (*_NAMES, "claim", "cursor") else "; ".join(texts)
    return _name_of(value) if is_object(value) else _compact(value)


def _as_name(text: str) -> str:
    name = _NOT_IN_A_NAME.sub(" ", text)
    return name.encode()[: ids.MAX_BYTES].decode(errors="ignore").strip()


def _as_pointer(text: str) -> str:
    keys = re.findall(r"[^.\[\]\"'/$]+", text)
    return "".join(f"/{key}" for key in keys)


def right_word(value: Any, known: list[str]) -> Any:
    """Find the word among those known that a model's own word stands for."""
    if is_array(value) and len(value) == 1:
        value = value[0]
    plain = str(value).lower().strip()
    for word in known:
        if plain == word or plain in words.WORDS_FOR.get(word, ()):
            return word
    close = get_close_matches(plain, known, n=1, cutoff=0.6)
    return close[0] if close else value


# --- lists and objects ------------------------------------------------------------------------


def _as_names(name: str, value: Any, schema: Schema) -> Any:
    if isinstance(value, str):
        inner = parsed(value)
        if is_array(inner) or is_object(inner):
            return _as_names(name, inner, schema)
        # A file's name may have a comma in it.
        apart = r"\n" if name == "refs" else r"[\n,;]"
        value = [part.strip(" -*•\t") for part in re.split(apart, value)]
    if is_object(value):
        lists = [item for item in value.values() if is_array(item)]
        value = lists[0] if len(value) == 1 and lists else list(value)
    if not is_array(value):
        value = [value]
    names = [_name_of(item) for item in value]
    return [_as_name(each) for each in names if each.strip()] if name == "plan" else names


def _name_of(item: Any) -> str:
    if is_object(item):
        for key in _NAMING_KEYS:
            if isinstance(item.get(key), str | int):
                return str(item[key])
    return item if isinstance(item, str) else _compact(item)


def _as_object(name: str, value: Any, schema: Schema) -> Any:
    if isinstance(value, str):
        value = parsed(value)
    if not is_object(value):
        value = {"items" if is_array(value) else "notes": value}
    if name == "append":
        return {key: item if is_array(item) else [item] for key, item in value.items()}
    return value


# --- numbers and flags ------------------------------------------------------------------------


def _as_number(name: str, value: Any, schema: Schema) -> Any:
    if isinstance(value, str):
        value = _number_in(name, value)
    if isinstance(value, bool) or not isinstance(value, int | float) or isnan(value):
        return value
    bounded = min(max(value, schema["minimum"]), schema["maximum"])
    return int(bounded) if schema["type"] == "integer" else bounded


def _number_in(name: str, text: str) -> Any:
    if name.endswith("_hours"):
        return words.hours(text)
    if text.strip().lower() in ("latest", "newest", "last", "current"):
        return 0
    found = re.search(r"(?:^-)?\d+(?:\.\d+)?", text.replace(",", "").replace("_", ""))
    return float(found[0]) if found else text


def _as_flag(name: str, value: Any, schema: Schema) -> Any:
    if value in (0, 1):
        return bool(value)
    said = parsed(value) if isinstance(value, str) else value
    return said if isinstance(said, bool) else value


def parsed(text: str) -> Any:
    """Read a text as JSON if it is some, or as yes or no."""
    said = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
    if text.strip().lower() in said:
        return said[text.strip().lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_SHAPERS = {
    "string": _as_text,
    "array": _as_names,
    "object": _as_object,
    "integer": _as_number,
    "number": _as_number,
    "boolean": _as_flag,
}
