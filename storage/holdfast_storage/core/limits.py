"""How large, deep and many things may be, and how long a claim lasts; people may change these."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import InvalidValue
from holdfast_storage.core.retention import Retention
from holdfast_storage.core.strict_json import JsonObject, is_object


@dataclass(frozen=True, slots=True)
class Limits:
    """Every input has a size, a depth and a count that it cannot exceed."""

    state_bytes: int = 16 * 2**20
    result_bytes: int = 64 * 2**10
    text_bytes: int = 16 * 2**10  # goal, next, summary, a question or its answer
    depth: int = 64
    steps: int = 1_000_000
    plan_at_once: int = 10_000
    refs: int = 1_000
    open_questions: int = 100


@dataclass(frozen=True, slots=True)
class Settings:
    """What `holdfast.json` says, with the defaults filled in."""

    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    lease_seconds: float = 900


def read_settings(document: JsonObject) -> Settings:
    """Read the settings people may edit; a wrong one is named, an unknown one too."""
    known = {"format", "workspace", "limits", "retention", "lease_seconds", "$schema", "help"}
    for key in document.keys() - known:
        raise InvalidValue(f"holdfast.json: {key}", "there is no such setting")
    return Settings(
        limits=_section(Limits, document, "limits"),
        retention=_section(Retention, document, "retention"),
        lease_seconds=_number(document.get("lease_seconds", 900), "lease_seconds", float),
    )


def _section(kind: type[Any], document: JsonObject, name: str) -> Any:
    section = document.get(name, {})
    if not is_object(section):
        raise InvalidValue(f"holdfast.json: {name}", "it must be an object")
    defaults = asdict(kind())
    values: dict[str, Any] = {}
    for key, value in section.items():
        if key not in defaults:
            raise InvalidValue(f"holdfast.json: {name}.{key}", "there is no such setting")
        # How long a checkpoint is kept may be half an hour; everything else is counted.
        is_fraction = key.endswith("hours")
        values[key] = _number(value, f"{name}.{key}", float if is_fraction else int)
    if values.get("depth", 0) > strict_json.MAX_DEPTH:
        most = strict_json.MAX_DEPTH
        raise InvalidValue("holdfast.json: limits.depth", f"it can be at most {most}")
    return kind(**values)


def _number(value: Any, where: str, kind: type[int | float]) -> Any:
    if type(value) is not int and type(value) is not kind:
        whole = "whole " if kind is int else ""
        raise InvalidValue(f"holdfast.json: {where}", f"it must be a {whole}number")
    if value < 0:
        raise InvalidValue(f"holdfast.json: {where}", "it must be at least 0")
    return value
