"""Work out which call a wrong one was meant to be, so that the refusal can show it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from holdfast_server.tools import shapes, words
from holdfast_server.tools.arguments import Arguments, allowed, fits, problem_of
from holdfast_server.tools.specs import Spec
from holdfast_storage.core.strict_json import is_array, is_object

_SHOWN = 4000
_TASK_IF_NOTHING_IS_KNOWN = "my-task"
# In these arguments a surplus value has a place of its own.
_ROOM_FOR_MORE = {"save_checkpoint": "state", "mark_step_done": "result"}

_NAME_THE_TASK = ("prune", "finish_task")


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
    but: str = ""


class Unsure(Exception):
    """Nobody can tell which call was meant, and a wrong guess would do harm."""


def hint_for(spec: Spec, arguments: Mapping[str, Any], around: Around) -> str:
    """Say how to call again, whole if that is short enough to be read."""
    try:
        meant = meant_call(spec, arguments, around)
    except Unsure as unsure:
        return f"{unsure}. Nothing was done; say it so and call again."
    if meant is None:
        return ""
    if whole := readable(meant):
        return f"{meant.but}Call again: {whole}"
    changed = {
        name: value
        for name, value in meant.arguments.items()
        if name not in arguments or arguments[name] is not value
    }
    if rest := _written(changed):
        return f"{meant.but}Call again with the rest as you sent it, and with {rest}"
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
    sent = _unwrapped(spec, arguments)
    if spec.name == "mark_step_done" and any(map(words.is_under_way, _ends(spec, sent).values())):
        return _begin_instead(spec, _named(spec, sent)[0], around)
    named, surplus = _named(spec, _with_outcome(spec, sent))
    if spec.name == "list_checkpoints" and words.means_tasks(named.get("show")):
        named = {"limit": named["limit"]} if "limit" in named else {}
    shaped = _shaped(spec, named)
    surplus |= {n: named[n] for n in named if n not in (*shaped, *spec.required)}
    surplus = {name: value for name, value in surplus.items() if value is not None}
    _check_surplus(spec, shaped, surplus)
    left_out = _make_room(spec, shaped, surplus)
    _check_state(shaped, sent)
    if spec.name == "prune":
        shaped["dry_run"] = not _is_meant_for_real(spec, sent)
    meant = _completed(spec, shaped, around)
    return meant and replace(meant, but=_but(spec, meant, named, left_out))


def _shaped(spec: Spec, named: Arguments) -> Arguments:
    """Give the values that fit, after they were brought into shape."""
    fitting: Arguments = {}
    for name, value in named.items():
        schema = spec.properties[name]
        if value is None and schema.get("type"):
            continue
        if name == "task" and is_array(value) and len(value) > 1:
            raise Unsure("One call is about one task")
        shape = shapes.shaped(name, value, schema)
        if not problem_of(name, shape, schema):
            fitting[name] = shape
        elif name in words.CAREFUL:
            raise Unsure(_say(spec, name))
    return fitting


def _but(spec: Spec, meant: Meant, named: Arguments, left_out: Collection[str]) -> str:
    """Say where the call does less than was asked for."""
    if meant.tool != spec.name:
        return "Name the task; see which there are. " if "task" not in meant.arguments else ""
    steps = named.get("step")
    said = ""
    if "step" in meant.arguments and is_array(steps) and len(steps) > 1:
        said = "Make one call for each step; this is only the first of them. "
    if left_out:
        said += f"This leaves out {', '.join(f'{name[:60]!a}' for name in left_out)}. "
    return said


# --- what must not be guessed -----------------------------------------------------------------


def _say(spec: Spec, name: str) -> str:
    return f"What was meant is not certain: {allowed(name, spec.properties[name])}"


def _ends(spec: Spec, sent: Arguments) -> Arguments:
    """Pick the arguments that say how it ended."""
    if "outcome" not in spec.properties:
        return {}
    ends = {
        name: value
        for name, value in sent.items()
        if (name == "outcome" or name not in spec.properties)
        and (words.tells_the_end(name) or right_name(spec, name) == "outcome")
    }
    said = sent.get("state")
    # A single word said as the state is how it ended; an object is a state.
    if not ends and isinstance(said, str) and not is_object(shapes.parsed(said)):
        return {"state": said}
    return ends


def _with_outcome(spec: Spec, sent: Arguments) -> Arguments:
    """Read how it ended from all that was said of it, which has to agree."""
    ends = _ends(spec, sent)
    if not ends:
        return sent
    known: list[str] = spec.properties["outcome"]["enum"]
    told = {
        name: words.end_told(name if words.tells_the_end(name) else "outcome", value, known)
        for name, value in ends.items()
    }
    outcomes = {outcome for outcome in told.values() if outcome != ""}
    if None in outcomes or len(outcomes) > 1:
        raise Unsure(_say(spec, "outcome"))
    rest = {name: value for name, value in sent.items() if name not in ends}
    if not outcomes:
        return rest
    return _with_reason(spec, rest, ends) | {"outcome": outcomes.pop()}


def _with_reason(spec: Spec, rest: Arguments, ends: Arguments) -> Arguments:
    """Keep what was said beside the outcome, as in error="boom"."""
    place = "result" if "result" in spec.properties else "summary"
    known: list[str] = spec.properties["outcome"]["enum"]
    reasons = [
        value
        for value in ends.values()
        if words.flag(value) is None
        and not words.says_nothing(value)
        and not (isinstance(value, str) and words.end_for(value, known))
    ]
    is_taken = any(right_name(spec, name) == place for name in rest)
    return rest if is_taken or not reasons else rest | {place: reasons[0]}


def _check_surplus(spec: Spec, shaped: Arguments, surplus: Arguments) -> None:
    """What is left out may have been a selection, or how a task ended."""
    unclear = [name for name in surplus if _plain(name) not in words.ASSENTS]
    if not unclear:
        return
    shown = ", ".join(f"{name[:60]!a}" for name in unclear)
    if spec.name == "prune":
        what = "it removes by keep_last and older_than_hours only"
        raise Unsure(f"prune cannot do what {shown} asks for: {what}; see first with dry_run true")
    if spec.name == "finish_task" and "outcome" not in shaped:
        raise Unsure(_say(spec, "outcome"))


def _check_state(shaped: Arguments, sent: Arguments) -> None:
    """A null removes a key, so none may be there but where it was sent as one."""
    own = sent.get("state")
    kept: Mapping[str, Any] = own if is_object(own) else {}
    state: Mapping[str, Any] = shaped.get("state", {})
    if any(_holds_null(value) for key, value in state.items() if key not in kept):
        raise Unsure(
            "state is a JSON object, in which null removes a key; none was sent for certain"
        )
    if shaped.get("replace") and "state" in sent and "state" not in shaped:
        raise Unsure("With replace, state is a JSON object and all that is kept")


def _holds_null(value: Any) -> bool:
    left = [value]
    while left:
        item = left.pop()
        if item is None:
            return True
        if is_object(item):
            left.extend(item.values())
    return False


def _is_meant_for_real(spec: Spec, sent: Arguments) -> bool:
    """Only a prune that was right but for how it said dry_run=false is offered as a real one."""
    said = [name for name in sent if _plain(name) == "dryrun"]
    rest = {name: value for name, value in sent.items() if name not in said}
    return len(said) == 1 and words.flag(sent[said[0]]) is False and fits(spec, rest)


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
            if twice := [key for key in inner if key in arguments or key in flat]:
                raise Unsure(f"{twice[0][:60]!a} was sent twice, inside and outside of {name!a}")
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
        if right in ("replace", "retry") and not _is_known_name(right, name):
            raise Unsure(_say(spec, right))
        if right:
            named[right] = words.converted(right, name, value)
        else:
            surplus[name] = value
    return named, surplus


def _is_known_name(right: str, name: str) -> bool:
    return _plain(name) in map(_plain, (right, *words.SYNONYMS[right]))


def _begin_instead(spec: Spec, named: Arguments, around: Around) -> Meant:
    step = {name: named[name] for name in ("task", "step") if isinstance(named.get(name), str)}
    if "begin_step" not in around.tools or "task" not in step:
        raise Unsure(f"{_say(spec, 'outcome')}, and a step under way is not marked")
    return Meant("begin_step", step)


# --- what is left over, and what is missing ---------------------------------------------------


def _make_room(spec: Spec, shaped: Arguments, surplus: Arguments) -> list[str]:
    """Keep what has no argument of its own where the tool takes free JSON; give what is left out."""
    place = _ROOM_FOR_MORE.get(spec.name, "")
    more = {name: value for name, value in surplus.items() if _plain(name) not in words.MODES}
    if not place or not more or (place == "result" and place in shaped):
        return list(surplus)
    if place == "state":
        _add_to_state(shaped, more)
    else:
        shaped[place] = more
    return [name for name in surplus if name not in more]


def _add_to_state(shaped: Arguments, more: Arguments) -> None:
    state = shaped.get("state", {})
    if twice := [name for name in more if name in state]:
        raise Unsure(
            f"{twice[0][:60]!a} was sent twice, in state and beside it: it belongs into state"
        )
    shaped["state"] = {**more, **state}


def _completed(spec: Spec, shaped: Arguments, around: Around) -> Meant | None:
    if "task" in spec.required and "task" not in shaped:
        # What ends a task or removes from it names the task itself.
        task = "" if spec.name in _NAME_THE_TASK else _task(shaped, around)
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
