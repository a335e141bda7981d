"""Write Python values as JSON that people can read and edit, and read only known kinds back.

What JSON has stays as it is. Anything else becomes an object whose `$enc` names its kind. Reading
looks that name up among the kinds below and the classes the program allowed: what lies in the
folder can choose among these, and never names code to be run.
"""

from __future__ import annotations

import base64
import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from importlib import import_module
from math import isfinite
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from langchain_core import documents, messages
from langgraph.checkpoint.serde import types as checkpoint_types
from pydantic import BaseModel

from holdfast_storage.core.errors import InvalidValue
from holdfast_storage.core.strict_json import MAX_DEPTH, JsonObject, is_array, is_object, pointer

MARK = "$enc"
_LONGEST_NUMBER_BITS = 13_000  # what JSON readers take is counted in digits: some 3,900

_MODELS: tuple[type[BaseModel], ...] = (
    messages.HumanMessage,
    messages.AIMessage,
    messages.SystemMessage,
    messages.ToolMessage,
    messages.FunctionMessage,
    messages.ChatMessage,
    messages.RemoveMessage,
    messages.HumanMessageChunk,
    messages.AIMessageChunk,
    messages.SystemMessageChunk,
    messages.ToolMessageChunk,
    messages.FunctionMessageChunk,
    messages.ChatMessageChunk,
    documents.Document,
)

# Of langgraph itself, which a saver need not have installed: the fields that make such an object.
_OF_GRAPHS: dict[str, tuple[str, ...]] = {
    "Send": ("node", "arg", "timeout"),
    "Interrupt": ("value", "id", "response_schema"),
    "Command": ("graph", "update", "resume", "goto"),
    "Overwrite": ("value",),
    "TimeoutPolicy": ("run_timeout", "idle_timeout", "refresh_on"),
}
_GRAPH_TYPES = "langgraph.types"


@dataclasses.dataclass(frozen=True, slots=True)
class _Kind:
    """How values of one type are written and read."""

    name: str
    type: type[Any]
    write: Callable[[Any], JsonObject]
    read: Callable[[JsonObject], Any]


def _text(name: str, type_: type[Any], read: Callable[[str], Any]) -> _Kind:
    return _Kind(
        name, type_, lambda value: {"value": str(value)}, lambda found: read(found["value"])
    )


def _items(name: str, type_: type[Any]) -> _Kind:
    return _Kind(
        name, type_, lambda value: {"items": list(value)}, lambda found: type_(found["items"])
    )


def _moment(value: datetime | time) -> JsonObject:
    zone = {"zone": value.tzinfo.key} if isinstance(value.tzinfo, ZoneInfo) else {}
    # The second 02:30 of the night when clocks go back.
    fold = {"fold": 1} if value.fold else {}
    return {"value": value.isoformat(), **zone, **fold}


def _read_moment(found: JsonObject, read: Callable[[str], Any]) -> Any:
    value = read(found["value"])
    if "zone" in found:
        value = value.replace(tzinfo=ZoneInfo(found["zone"]))
    return value.replace(fold=1) if found.get("fold") else value


def _span(value: timedelta) -> JsonObject:
    return {"days": value.days, "seconds": value.seconds, "microseconds": value.microseconds}


def _read_span(found: JsonObject) -> timedelta:
    return timedelta(found["days"], found["seconds"], found["microseconds"])


_KINDS = (
    _Kind("datetime", datetime, _moment, lambda it: _read_moment(it, datetime.fromisoformat)),
    _Kind("time", time, _moment, lambda it: _read_moment(it, time.fromisoformat)),
    _Kind("timedelta", timedelta, _span, _read_span),
    _Kind(
        "date",
        date,
        lambda value: {"value": value.isoformat()},
        lambda it: date.fromisoformat(it["value"]),
    ),
    _Kind(
        "bytes",
        bytes,
        lambda value: {"base64": base64.b64encode(value).decode()},
        lambda it: base64.b64decode(it["base64"], validate=True),
    ),
    _Kind(
        "bytearray",
        bytearray,
        lambda value: {"base64": base64.b64encode(value).decode()},
        lambda it: bytearray(base64.b64decode(it["base64"], validate=True)),
    ),
    _Kind(
        "delta-snapshot",
        checkpoint_types._DeltaSnapshot,  # pyright: ignore[reportPrivateUsage]
        lambda value: {"value": value.value},
        lambda it: checkpoint_types._DeltaSnapshot(it["value"]),  # pyright: ignore[reportPrivateUsage]
    ),
    _text("uuid", UUID, UUID),
    _text("decimal", Decimal, Decimal),
    *(
        _text("path", each, Path)
        for each in (PosixPath, WindowsPath, PurePath, PurePosixPath, PureWindowsPath)
    ),
    *(
        _items(each.__name__, each)
        for each in cast("tuple[type, ...]", (tuple, set, frozenset, deque))
    ),
)


class Values:
    """Writes and reads values of plain JSON, the kinds above, and the classes it was given.

    A class may be a pydantic model, a dataclass, an enum or a named tuple. It is known by its module
    and name, so renaming one makes what was saved with it unreadable until it is renamed there too.
    """

    def __init__(self, allow: Iterable[type[Any]] = ()) -> None:
        kinds = [*_KINDS, *map(_model_kind, _MODELS), *map(_allowed_kind, allow)]
        self._by_type = {kind.type: kind for kind in kinds}
        self._by_name = {kind.name: kind for kind in reversed(kinds)}

    # --- writing ------------------------------------------------------------------------------

    def encode(self, value: Any, where: str, depth: int = MAX_DEPTH) -> Any:
        """Give a value as plain JSON, sharing nothing that could change; `where` is for the refusal."""
        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            return value if _is_text(value) else _surrogates(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return _number(value, where)
        if kind is float:
            return value if isfinite(value) else {MARK: "float", "value": str(value)}
        if depth <= 0:
            raise InvalidValue(where, f"it is nested more than {MAX_DEPTH} levels deep")
        if kind is list:
            return [
                self.encode(item, f"{where}/{number}", depth - 1)
                for number, item in enumerate(value)
            ]
        if kind is dict:
            return self._encode_dict(value, where, depth)
        return self._encode_marked(value, where, depth)

    def encode_all(self, found: Mapping[str, Any], where: str) -> JsonObject:
        """Give several named values as plain JSON; the names stay as they are."""
        return {key: self.encode(item, where + pointer([key])) for key, item in found.items()}

    def _encode_dict(self, value: dict[Any, Any], where: str, depth: int) -> JsonObject:
        if all(type(key) is str and not key.startswith("$") and _is_text(key) for key in value):
            return {
                key: self.encode(item, where + pointer([key]), depth - 1)
                for key, item in value.items()
            }
        pairs = [[key, item] for key, item in value.items()]
        return {MARK: "dict", "items": self.encode(pairs, where, depth - 1)}

    def _encode_marked(self, value: Any, where: str, depth: int) -> Any:
        if isinstance(value, BaseException):
            # LangGraph keeps what went wrong for people to read; an exception is never revived.
            return self.encode(repr(value), where, depth)
        type_: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        kind = self._by_type.get(type_) or _graph_kind(type_)
        if kind is None:
            raise InvalidValue(where, _refusal(type_))
        fields = {
            key: self.encode(item, where + pointer([key]), depth - 1)
            for key, item in kind.write(value).items()
        }
        if kind.type in (set, frozenset):
            # Equal sets are written alike, so that an unchanged one costs nothing.
            fields["items"].sort(key=repr)
        return {MARK: kind.name, **fields}

    # --- reading ------------------------------------------------------------------------------

    def decode(self, value: Any, where: str) -> Any:
        """Give back what was written; a person may have changed it meanwhile."""
        if is_array(value):
            return [self.decode(item, f"{where}/{number}") for number, item in enumerate(value)]
        if not is_object(value):
            return value
        fields = {key: self.decode(item, where + pointer([key])) for key, item in value.items()}
        return self._revived(fields, where) if MARK in fields else fields

    def _revived(self, fields: JsonObject, where: str) -> Any:
        name = fields.pop(MARK)
        try:
            if name == "dict":
                return dict(fields["items"])
            if name == "float":
                return float(fields["value"])
            if name == "text":
                return base64.b64decode(fields["base64"]).decode("utf-8", "surrogatepass")
            kind = self._by_name.get(name) or _graph_kind_named(name)
            if kind is not None:
                return kind.read(fields)
        except Exception as error:
            raise InvalidValue(where, f"it cannot be read as {name}: {error}") from error
        raise InvalidValue(
            where,
            f"there is no kind {str(name)[:200]!a}; if it is a class of this program, give it to "
            "HoldfastSaver(allow=[...]), else correct it in state.json",
        )


def _is_text(value: str) -> bool:
    """Say whether it can be written: half of a surrogate pair cannot. Many times a regex's speed."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(value: int, where: str) -> int:
    if value.bit_length() > _LONGEST_NUMBER_BITS:
        raise InvalidValue(where, "the number has too many digits; keep it as text")
    return value


def _surrogates(value: str) -> JsonObject:
    raw = value.encode("utf-8", "surrogatepass")
    return {MARK: "text", "base64": base64.b64encode(raw).decode()}


def _refusal(kind: type[Any]) -> str:
    name = f"{kind.__module__}.{kind.__qualname__}"
    if _allowable(kind):
        return (
            f"{name} is a class of your own: give it to HoldfastSaver(allow=[{kind.__name__}]), "
            "or keep its plain values in the state"
        )
    return (
        f"{name} cannot be kept as JSON: keep plain values in the state (for a subclass of dict, "
        "list, str or int its plain form), and make the object anew in the node that needs it"
    )


# --- classes ----------------------------------------------------------------------------------


def _allowable(kind: type[Any]) -> bool:
    return (
        issubclass(kind, (BaseModel, Enum))
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "_fields")
    )


def _allowed_kind(kind: type[Any]) -> _Kind:
    name = f"{kind.__module__}:{kind.__qualname__}"
    if issubclass(kind, BaseModel):
        return dataclasses.replace(_model_kind(kind), name=name)
    if issubclass(kind, Enum):
        return _Kind(name, kind, lambda value: {"name": value.name}, lambda it: kind[it["name"]])
    if dataclasses.is_dataclass(kind):
        return _dataclass_kind(name, kind)
    if hasattr(kind, "_fields"):
        return _Kind(name, kind, lambda value: value._asdict(), lambda it: kind(**it))
    raise InvalidValue("allow", f"{kind!r} is no pydantic model, dataclass, enum or named tuple")


def _model_kind(kind: type[BaseModel]) -> _Kind:
    def write(value: BaseModel) -> JsonObject:
        # What stands at its default says nothing, and would hide from people what does.
        said = {
            name: getattr(value, name)
            for name, field in kind.model_fields.items()
            if field.is_required()
            or getattr(value, name)
            != field.get_default(call_default_factory=True, validated_data={})
        }
        return {**said, **(value.model_extra or {})}

    def read(found: JsonObject) -> Any:
        return kind.model_validate(found, by_name=True)

    return _Kind(kind.__name__, kind, write, read)


def _dataclass_kind(name: str, kind: type[Any]) -> _Kind:
    def write(value: Any) -> JsonObject:
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}

    def read(found: JsonObject) -> Any:
        given = {each.name for each in dataclasses.fields(kind) if each.init}
        made = kind(**{key: item for key, item in found.items() if key in given})
        for key in found.keys() - given:
            object.__setattr__(made, key, found[key])
        return made

    return _Kind(name, kind, write, read)


def _graph_kind(kind: type[Any]) -> _Kind | None:
    if kind.__module__ != _GRAPH_TYPES:
        return None
    return _graph_kind_named(kind.__name__)


def _graph_kind_named(name: str) -> _Kind | None:
    fields = _OF_GRAPHS.get(name)
    if fields is None:
        return None
    kind: type[Any] = getattr(import_module(_GRAPH_TYPES), name)

    def write(value: Any) -> JsonObject:
        said = {key: getattr(value, key) for key in fields}
        # A schema may be given as a class, which is nothing to keep.
        return {key: it for key, it in said.items() if it is not None and not isinstance(it, type)}

    return _Kind(name, kind, write, lambda found: kind(**found))
