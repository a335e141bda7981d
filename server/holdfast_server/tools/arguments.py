"""Take a model's arguments strictly: as they are, or not at all.

Models guess names (`task_id`), words (`complete`) and shapes (a plan of objects). Guessing back on
their behalf would save the wrong thing silently; a refusal that contains the corrected call is
understood in one try. What that call is, is worked out in `meant`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from holdfast_server.tools.specs import Schema, Spec
from holdfast_storage.core import ids
from holdfast_storage.core.errors import HoldfastError, InvalidName
from holdfast_storage.core.strict_json import is_array, is_object

Arguments = dict[str, Any]

_NAME_SHOWN = 60
STATUSES = (
    *("active", "waiting", "paused", "failed", "done", "abandoned", "damaged"),
    *("pending", "running", "in_doubt", "skipped"),
)


class WrongCall(HoldfastError):
    """The arguments do not fit the tool."""

    code = "wrong_arguments"
    hint = "Correct these arguments and call again; nothing was done."

    def __init__(self, tool: str, problems: list[str]) -> None:
        super().__init__(f"{tool}: {'; '.join(problems)}")
        self.tool, self.problems = tool, problems


def checked(
    spec: Spec, arguments: Mapping[str, Any], right_name: Callable[[Spec, str], str]
) -> Arguments:
    """Give the arguments as they are if they fit, or say everything that is wrong with them."""
    if problems := _problems(spec, arguments, right_name):
        raise WrongCall(spec.name, problems)
    return dict(arguments)


def fits(spec: Spec, arguments: Mapping[str, Any]) -> bool:
    """Say whether the arguments would be taken."""
    return not _problems(spec, arguments, _no_name)


def _no_name(_: Spec, __: str) -> str:
    return ""


def _problems(
    spec: Spec, arguments: Mapping[str, Any], right_name: Callable[[Spec, str], str]
) -> list[str]:
    known = spec.properties
    unknown = [
        _unknown(spec, name, right_name(spec, name)) for name in arguments if name not in known
    ]
    missing = [f"{name} is missing" for name in spec.required if name not in arguments]
    wrong = [
        f"{name} {problem}"
        for name, value in arguments.items()
        if name in known and (problem := problem_of(name, value, known[name]))
    ]
    return unknown + missing + wrong


def _unknown(spec: Spec, name: str, right: str) -> str:
    meant = f"; it is called {right}" if right else f"; there are {', '.join(spec.properties)}"
    return f"there is no argument {name[:_NAME_SHOWN]!a}{meant}"


# --- does a value fit -------------------------------------------------------------------------


def allowed(name: str, schema: Schema) -> str:
    """Say which values an argument takes."""
    if "enum" in schema:
        return f"{name} is one of {', '.join(schema['enum'])}"
    if "minimum" in schema:
        return f"{name} is {_WORDS[schema['type']]} from {schema['minimum']} to {schema['maximum']}"
    return f"{name} is {_WORDS[schema['type']]}"


def problem_of(name: str, value: Any, schema: Schema) -> str:
    """Say what is wrong with a value, or nothing."""
    kind = schema.get("type")
    if kind is None:
        return ""
    if not _KINDS[kind](value):
        return f"must be {_WORDS[kind]}, not {word_for(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(schema['enum'])}"
    if kind == "array" and not all(isinstance(item, str) for item in value):
        return "must be a list of texts"
    if kind in ("integer", "number"):
        return _out_of_range(value, schema)
    if kind == "string" and len(value) < schema.get("minLength", 0):
        return "is empty"
    return _MORE[name](value) if name in _MORE else ""


def _out_of_range(value: float, schema: Schema) -> str:
    if not isfinite(value):
        return "must be a finite number"
    if value < schema["minimum"]:
        return f"must be at least {schema['minimum']}"
    if value > schema["maximum"]:
        return f"must be at most {schema['maximum']}"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "object": is_object,
    "array": is_array,
}
_WORDS = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a JSON object",
    "array": "a list of texts",
}


def word_for(value: Any) -> str:
    """Name the kind of a JSON value, for somebody who sent the wrong one."""
    if value is None:
        return "null (leave it out instead)"
    for kind in ("boolean", "integer", "number", "string", "object"):
        if _KINDS[kind](value):
            return _WORDS[kind]
    return "a list"


# --- what a schema could only say at a price --------------------------------------------------


def _name_problem(name: str) -> str:
    if not name:
        return ""
    try:
        ids.check_id("name", name)
    except InvalidName as error:
        return f"cannot be used: {error.problem}"
    return ""


def _plan_problem(names: list[str]) -> str:
    for name in names:
        if problem := _name_problem(name) or ("" if name else "has an empty name in it"):
            return problem
    return ""


def _append_problem(additions: Mapping[str, Any]) -> str:
    if all(map(is_array, additions.values())):
        return ""
    return "must have a list of items for each key"


def _path_problem(path: str) -> str:
    return (
        "" if not path or path.startswith("/") else "must be a JSON pointer such as /totals/pages"
    )


def _status_problem(status: str) -> str:
    return "" if not status or status in STATUSES else f"must be one of {', '.join(STATUSES)}"


_MORE: dict[str, Callable[[Any], str]] = {
    "task": _name_problem,
    "step": _name_problem,
    "label": _name_problem,
    "plan": _plan_problem,
    "append": _append_problem,
    "path": _path_problem,
    "status": _status_problem,
}
