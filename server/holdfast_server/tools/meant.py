"""Work out which call a wrong one was meant to be, so that the refusal can show it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from holdfast_server.tools import shapes, words
from holdfast_server.tools.arguments import Arguments, fits, problem_of
from holdfast_server.tools.specs import Spec
from holdfast_storage.core.strict_json import is_object

_SHOWN = 4000
_TASK_IF_NOTHING_IS_KNOWN = "my-task"
# In these arguments a surplus value has a place of its own.
_ROOM_FOR_MORE = {"save_checkpoint": "state", "mark_step_done": "result"}


@dataclass(frozen=True, slots=True)
class Around:
    """What is known beside the call."""

    tools: Collection[str]
    last_task: str = ""
    open_tasks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Meant:
    """A call that would be taken."""

    tool: str
    arguments: Arguments


def hint_for(spec: Spec, arguments: Mapping[str, Any], around: Around) -> str:
    """Say how to call again, whole if that is short enough to be read."""
    meant = meant_call(spec, arguments, around)
    if meant is None:
        return ""
    if whole := readable(meant):
        return f"Call again: {whole}"
    changed = {
        name: value
        for name, value in meant.arguments.items()
        if name not in arguments or arguments[name] is not value
    }
    if rest := _written(changed):
        return f"Call again with the rest as you sent it, and with {rest}"
    return ""


def readable(call: Meant) -> str:
    """Write a call down, if it is short enough to be read and can be written at all."""
    arguments = _written(call.arguments)
    return f"{call.tool} with {arguments}" if arguments else ""


def _written(arguments: Arguments) -> str:
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text if len(text.encode()) <= _SHOWN else ""
    except (ValueError, RecursionError):
        # Half a surrogate pair, NaN, or too deep: what could be said would be as wrong.
        return ""


def meant_call(spec: Spec, arguments: Mapping[str, Any], around: Around) -> Meant | None:
    """Give the call that was probably meant, if it can be told and would be taken."""
    named, surplus = _named(spec, _unwrapped(spec, arguments))
    _move_outcome(spec, named)
    if spec.name == "mark_step_done" and words.is_under_way(named.get("outcome")):
        return _begin_instead(named, around)
    if spec.name == "list_checkpoints" and words.means_tasks(named.get("show")):
        named = {"limit": named["limit"]} if "limit" in named else {}
    shaped = {
        name: shapes.shaped(name, value, spec.properties[name])
        for name, value in named.items()
        if value is not None or not spec.properties[name].get("type")
    }
    misfits = [n for n, value in shaped.items() if problem_of(n, value, spec.properties[n])]
    unfit = {name: shaped.pop(name) for name in misfits}
    surplus |= {name: value for name, value in unfit.items() if name not in spec.required}
    _make_room(spec, shaped, surplus)
    return _completed(spec, shaped, around)


# --- names ------------------------------------------------------------------------------------


def right_name(spec: Spec, name: str, taken: Collection[str] = ()) -> str:
    """Find the argument that a wrong name stands for."""
    free = [known for known in spec.properties if known not in taken]
    plain = _plain(name)
    for known in free:
        if plain == _plain(known):
            return known
    # Of two arguments a guess may mean, the required one is the likelier.
    by_likelihood = sorted(free, key=lambda known: known not in spec.required)
    for known in by_likelihood:
        if plain in map(_plain, words.SYNONYMS.get(known, ())):
            return known
    for known in by_likelihood:
        if words.in_another_unit(known, name):
            return known
    close = get_close_matches(plain, [_plain(known) for known in free], n=1, cutoff=0.75)
    return next((known for known in free if close and _plain(known) == close[0]), "")


def right_tool(name: str, tools: Collection[str]) -> str:
    """Find the tool that a wrong name stands for."""
    plain = _plain(name)
    for tool in tools:
        if plain == _plain(tool) or plain in map(_plain, words.TOOL_SYNONYMS.get(tool, ())):
            return tool
    close = get_close_matches(plain, [_plain(tool) for tool in tools], n=1, cutoff=0.6)
    return next((tool for tool in tools if close and _plain(tool) == close[0]), "")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _unwrapped(spec: Spec, arguments: Mapping[str, Any]) -> Arguments:
    """Take the arguments out of one more object around them."""
    flat: Arguments = {}
    for name, value in arguments.items():
        inner = shapes.parsed(value) if isinstance(value, str) else value
        is_wrapping = name not in spec.properties and _plain(name) in words.WRAPPERS
        if is_wrapping and is_object(inner) and any(right_name(spec, key) for key in inner):
            flat |= inner
        else:
            flat[name] = value
    return flat


def _named(spec: Spec, arguments: Arguments) -> tuple[Arguments, Arguments]:
    """Give every value its right name; what has none is surplus."""
    named = {name: value for name, value in arguments.items() if name in spec.properties}
    surplus: Arguments = {}
    for name, value in arguments.items():
        if name in spec.properties:
            continue
        right = right_name(spec, name, named)
        if right:
            named[right] = words.converted(right, name, value)
        else:
            surplus[name] = value
    return named, surplus


def _move_outcome(spec: Spec, named: Arguments) -> None:
    """A word for how it ended, said as the state, is the outcome."""
    said = named.get("state")
    if "outcome" in spec.properties and "outcome" not in named and isinstance(said, str):
        known: list[str] = spec.properties["outcome"]["enum"]
        word = shapes.right_word(said, known)
        if word in known:
            named["outcome"] = word
            del named["state"]


def _begin_instead(named: Arguments, around: Around) -> Meant | None:
    if "begin_step" not in around.tools:
        return None
    step = {name: named[name] for name in ("task", "step") if isinstance(named.get(name), str)}
    return Meant("begin_step", step) if "task" in step else None


# --- what is left over, and what is missing ---------------------------------------------------


def _make_room(spec: Spec, shaped: Arguments, surplus: Arguments) -> None:
    """Keep what has no argument of its own where the tool takes free JSON."""
    surplus = {name: value for name, value in surplus.items() if value is not None}
    place = _ROOM_FOR_MORE.get(spec.name, "")
    if not surplus or not place:
        return
    if place == "state":
        shaped["state"] = {**surplus, **shaped.get("state", {})}
    elif place not in shaped:
        shaped[place] = surplus


def _completed(spec: Spec, shaped: Arguments, around: Around) -> Meant | None:
    if "task" in spec.required and "task" not in shaped:
        task = _task(shaped, around)
        if not task:
            return Meant("list_checkpoints", {})
        shaped["task"] = task
    if "step" in spec.required and "step" not in shaped:
        # Which step it was nobody can tell; the brief names those that remain.
        return Meant("load_checkpoint", {"task": shaped["task"]})
    arguments = {name: shaped[name] for name in spec.properties if name in shaped}
    return Meant(spec.name, arguments) if fits(spec, arguments) else None


def _task(shaped: Arguments, around: Around) -> str:
    """Name the one task that can be meant, or none if there are several."""
    if around.last_task:
        return around.last_task
    if len(around.open_tasks) == 1:
        return around.open_tasks[0]
    if around.open_tasks:
        return ""
    return _from_goal(str(shaped.get("goal", ""))) or _TASK_IF_NOTHING_IS_KNOWN


def _from_goal(goal: str) -> str:
    return "-".join(_words(goal))[:40].strip("-")


def _words(text: str) -> Iterator[str]:
    for count, word in enumerate(re.findall(r"[a-z0-9]+", text.lower())):
        if count == 5:
            return
        yield word
