"""Turn what went wrong into an answer: a stable code, what happened, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast_server.tools.meant import Meant, readable
from holdfast_storage.core.errors import (
    HoldfastError,
    InDoubt,
    LoadFirst,
    RevisionNeeded,
    RunClosed,
    Unknown,
)


class UnknownTool(HoldfastError):
    """There is no tool of that name."""

    code = "unknown_tool"

    def __init__(self, name: str, right: str, tools: list[str]) -> None:
        super().__init__(f"there is no tool {name[:80]!a}; there are {', '.join(tools)}")
        self.name = name
        self.hint = f"You probably mean {right}." if right else "Call one of those."


class Bug(HoldfastError):
    """Holdfast itself is wrong somewhere."""

    code = "internal_error"

    def __init__(self, tool: str) -> None:
        super().__init__(f"{tool} failed inside Holdfast, through no fault of this call")
        self.hint = (
            "Whether anything was saved is not certain: call load_checkpoint to see. "
            "A person finds the cause in the server's log."
        )


def in_words(error: HoldfastError, hint: str = "") -> str:
    """Say it so that a model can go on from there."""
    said = f"{error.code}: {error}".rstrip(".")
    return f"{said}. {hint or error.hint}".rstrip()


def next_call(
    error: HoldfastError, tool: str, arguments: Mapping[str, Any], *, has_begin: bool
) -> str:
    """Give the hint of a refusal with the call that follows from it, where there is one."""
    following = _following(error, tool, arguments, has_begin=has_begin)
    written = readable(following) if following else ""
    return f"{error.hint} Call: {written}" if written else error.hint


def _following(
    error: HoldfastError, tool: str, arguments: Mapping[str, Any], *, has_begin: bool
) -> Meant | None:
    if isinstance(error, RevisionNeeded):
        return Meant(tool, {**arguments, "revision": error.revision})
    if isinstance(error, InDoubt) and has_begin:
        return Meant("begin_step", {"task": error.task, "step": error.step})
    if isinstance(error, LoadFirst | RunClosed):
        return Meant("load_checkpoint", {"task": error.task})
    if isinstance(error, Unknown):
        return _known_instead(error, tool, arguments)
    return None


def _known_instead(error: Unknown, tool: str, arguments: Mapping[str, Any]) -> Meant | None:
    if error.kind == "task" and tool == "prune" and error.name.lower() in ("all", "any"):
        # A guess never takes anything away: whoever means it calls again without dry_run.
        return Meant(tool, {**arguments, "task": "*", "dry_run": True})
    if error.kind == "path" and (path := _without_state(error)):
        return Meant(tool, {**arguments, "path": path})
    if error.kind == "checkpoint" and error.similar:
        return Meant(tool, {**arguments, "checkpoint": int(error.similar[0])})
    return Meant("list_checkpoints", {}) if error.kind == "task" else None


def _without_state(error: Unknown) -> str:
    """A path is into the state already; some begin at the brief around it."""
    if error.name.startswith("/state/"):
        return error.name.removeprefix("/state")
    return error.similar[0] if error.similar else ""
