"""The words models use for our arguments, their values and the tools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any

from holdfast_storage.core.strict_json import is_array

SYNONYMS: dict[str, tuple[str, ...]] = {
    "task": (
        *("task_id", "task_name", "taskname", "id", "name", "thread_id", "project", "job"),
        *("job_id", "key", "run_id", "workflow", "workflow_id", "tasks", "session", "session_id"),
    ),
    "step": (
        *("step_id", "step_name", "item", "item_id", "id", "name", "subtask", "todo", "steps"),
        *("current_step", "unit", "step_number", "index"),
    ),
    "state": (
        *("data", "value", "content", "payload", "context", "memory", "checkpoint", "values"),
        *("checkpoint_data", "state_data", "json", "body", "new_state", "variables", "progress"),
    ),
    "result": (
        *("output", "response", "return", "return_value", "data", "value", "results", "summary"),
        *("notes", "note", "message", "reason", "details", "outputs", "content"),
    ),
    "outcome": (
        *("status", "step_status", "success", "succeeded", "done", "completed", "complete"),
        *("finished", "is_done", "new_status", "final_status", "failed", "skipped"),
        *("error", "failure"),
    ),
    "plan": (
        "steps",
        "todos",
        "items",
        "todo",
        "step_names",
        "all_steps",
        "todo_list",
        "checklist",
    ),
    "next": (
        *("next_step", "next_action", "next_steps", "position", "resume_at", "resume_from"),
        *("step", "current_step", "cursor"),
    ),
    "goal": ("description", "objective", "purpose", "title", "instructions", "prompt"),
    "label": ("name", "title", "tag", "checkpoint_name", "message", "comment", "checkpoint_label"),
    "milestone": ("is_milestone", "important", "keep", "pin", "pinned"),
    "summary": ("message", "reason", "note", "notes", "result", "description", "output"),
    "question": ("prompt", "message", "text", "query", "ask", "content"),
    "options": ("choices", "answers", "suggestions", "enum"),
    "checkpoint": (
        *("checkpoint_id", "version", "number", "checkpoint_number", "n", "checkpoint_no"),
        *("checkpoints", "index"),
    ),
    "keep_last": ("keep", "max_checkpoints", "keep_latest", "retain", "keep_n", "keep_count"),
    "older_than_hours": ("older_than", "max_age_hours", "max_age", "hours", "age", "before"),
    "dry_run": ("preview", "dryrun", "simulate", "what_if"),
    "refs": ("files", "references", "artifacts", "paths", "urls", "attachments", "links", "file"),
    "claim": ("claim_id", "token", "lease", "claim_token", "lease_id"),
    "retry": ("again", "redo"),
    "revision": ("rev", "base_revision", "expected_revision", "version", "base", "etag"),
    "max_tokens": ("tokens", "token_limit", "budget", "max_size"),
    "expires_in_hours": ("expires", "timeout", "expires_in", "ttl", "deadline_hours", "expiry"),
    "replace": ("overwrite", "reset", "replace_state"),
    "append": ("add", "extend", "append_to", "push"),
    "limit": ("count", "page_size", "n", "max", "max_results", "top"),
    "show": ("type", "kind", "what", "view", "list"),
    "status": ("filter", "state", "with_status", "outcome"),
    "cursor": ("page", "page_token", "next_cursor", "after", "offset"),
    "path": ("pointer", "json_pointer", "field", "key", "state_path", "select"),
}
# A wrong guess at one of these loses work or calls it done: they are read with certainty or not at all.
CAREFUL = frozenset(
    {"outcome", "dry_run", "keep_last", "older_than_hours", "replace", "retry"},
)
# How to save is not what to save, so these never belong into the state.
MODES = frozenset({"mode", "merge", "mergemode", "mergestrategy", "strategy", "writemode"})
# Whoever says these selects nothing by them.
ASSENTS = frozenset({"confirm", "confirmed", "yes", "force", "verbose"})
WRAPPERS = frozenset(
    {"arguments", "args", "params", "parameters", "input", "kwargs", "request", "options"}
)
TOOL_SYNONYMS: dict[str, tuple[str, ...]] = {
    "save_checkpoint": ("save", "checkpoint", "save_state", "create_checkpoint", "save_progress"),
    "load_checkpoint": ("load", "resume", "resume_task", "get_checkpoint", "restore", "load_task"),
    "list_checkpoints": ("list", "list_tasks", "get_tasks", "list_steps", "history", "ls"),
    "mark_step_done": (
        "mark_done",
        "complete_step",
        "step_done",
        "done",
        "mark_step",
        "finish_step",
    ),
    "prune": ("prune_checkpoints", "cleanup", "delete_checkpoints", "delete_checkpoint"),
    "finish_task": ("finish", "complete_task", "end_task", "close_task", "pause_task"),
    "begin_step": ("start_step", "begin", "claim_step", "claim"),
    "ask_human": ("ask", "ask_user", "ask_person", "request_input", "human_input"),
}
WORDS_FOR: dict[str, tuple[str, ...]] = {
    "done": (
        *("complete", "completed", "success", "succeeded", "finished", "ok", "true", "passed"),
        *("successful", "closed", "resolved", "finish", "yes"),
    ),
    "failed": ("fail", "failure", "error", "errored", "false", "no", "broken", "crashed"),
    "skipped": ("skip", "cancelled", "canceled", "ignored", "not_needed", "n/a"),
    "abandoned": ("abandon", "cancelled", "canceled", "aborted", "abort", "dropped"),
    "paused": (
        *("pause", "waiting", "blocked", "suspended", "stopped", "in_progress", "running"),
        *("incomplete", "partial", "active", "interrupted", "on_hold"),
    ),
    "checkpoints": ("checkpoint", "history", "all", "saves", "versions"),
    "steps": ("step", "todos", "plan", "results"),
    "events": ("event", "log", "logs", "journal", "activity"),
    "active": ("in_progress", "open", "ongoing", "unfinished", "in progress"),
    "pending": ("todo", "remaining", "not_started", "queued"),
    "running": ("in_progress", "started", "in progress"),
    "in_doubt": ("in doubt", "unknown", "uncertain", "unconfirmed"),
}
_ENDS = ("done", "failed", "skipped", "abandoned", "paused")
_NAMES_OF_THE_END = (
    *("outcome", "status", "state", "step_status", "task_status", "new_status", "final_status"),
)
_NAMES_OF_A_FAILURE = ("err", "errors", "exception", "traceback", "timed_out")
_NAMES_OF_NO_END = ("retry", "undone", "todo", "unfinished", "unsuccessful", "continue", "pending")
_NOTHING = ("", "none", "null")
_UNDER_WAY = ("in_progress", "in progress", "running", "started", "pending", "begun", "active")
_HOURS_IN = {"second": 1 / 3600, "minute": 1 / 60, "hour": 1, "day": 24, "week": 168}
_UNITS = {
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
}


def is_under_way(word: Any) -> bool:
    """Say whether this is said of a step that has not ended."""
    return isinstance(word, str) and word.strip().lower() in _UNDER_WAY


def tells_the_end(name: str) -> bool:
    """Say whether an argument of this name says how something ended."""
    plain = _bare(name)
    if plain in (*_NAMES_OF_THE_END, *_NAMES_OF_A_FAILURE, *_NAMES_OF_NO_END):
        return True
    affirmed = re.sub(r"^(not_?|non_?|un|in)", "", plain)
    return bool(end_for(plain, _ENDS) or end_for(affirmed, _ENDS))


def end_told(name: str, value: Any, known: Sequence[str]) -> str | None:
    """Read how it ended from one argument: nothing if it does not say, None if nobody can tell."""
    plain = _bare(name)
    if value is None:
        return ""
    if plain in _NAMES_OF_THE_END:
        return _end_in(value, known)
    own = "failed" if plain in _NAMES_OF_A_FAILURE else end_for(plain, known)
    if not own:
        return None
    if own == "done":
        return _end_in(flag(value), known) or _end_in(value, known)
    return "" if says_nothing(value) else own


def end_for(word: str, known: Sequence[str]) -> str:
    """Find the end that a word stands for; never by likeness, for "undone" is like "done"."""
    plain = re.sub(r"[\s_-]+", "_", word.strip().lower())
    ends = (end for end in known if plain == end or plain in WORDS_FOR.get(end, ()))
    return next(ends, "")


def _end_in(value: Any, known: Sequence[str]) -> str | None:
    if is_array(value) and len(value) == 1:
        value = value[0]
    if value is True:
        return "done"
    if value is False:
        # A step that is not done has failed; a task that is not may as well be paused.
        return "failed" if "paused" not in known else None
    return (end_for(value, known) or None) if isinstance(value, str) else None


def flag(value: Any) -> bool | None:
    """Read yes or no, if it is certain."""
    if isinstance(value, str):
        said = {"true": True, "yes": True, "on": True, "1": True}
        return (said | dict.fromkeys(("false", "no", "off", "0"), False)).get(value.strip().lower())
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def says_nothing(value: Any) -> bool:
    """Say whether a value is only there to be there, as in failed=false."""
    if isinstance(value, str):
        return value.strip().lower() in _NOTHING or flag(value) is False
    return not value


def _bare(name: str) -> str:
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("-", "_")
    return re.sub(r"^(is|has|was|step|task)_(?!status)", "", plain)


def means_tasks(word: Any) -> bool:
    """Say whether somebody wants the tasks listed."""
    return isinstance(word, str) and word.strip().lower() in ("task", "tasks")


def in_another_unit(known: str, name: str) -> bool:
    """Say whether `name` is the argument of hours `known`, in days or minutes."""
    if not known.endswith("_hours"):
        return False
    stem, unit = _split_unit(name)
    known_stem = known.removesuffix("_hours")
    return bool(unit) and stem in ("", known_stem, *SYNONYMS[known], "max_age", "timeout")


def converted(known: str, name: str, value: Any) -> Any:
    """Give a value as it is meant under its right name: hours for days."""
    if known.endswith("_hours"):
        value = _counted(value)
    if known.endswith("_hours") and _is_count(value):
        return _tidy(value * _HOURS_IN[_split_unit(name)[1] or "hour"])
    return value


def _counted(value: Any) -> Any:
    """Read a bare number as one, so that "7" days are not taken for 7 hours."""
    is_bare = isinstance(value, str) and re.fullmatch(r"\s*\d+(\.\d+)?\s*", value)
    return float(value) if is_bare else value


def _is_count(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and isfinite(value)


def hours(text: str) -> float | None:
    """Read "7d", "30 minutes" or "24h" as hours."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if not found:
        return None
    unit = _unit(found[2]) if found[2] else "hour"
    return _tidy(float(found[1]) * _HOURS_IN[unit]) if unit else None


def _split_unit(name: str) -> tuple[str, str]:
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    stem, _, last = plain.rpartition("_")
    unit = _unit(last)
    return (stem, unit) if unit else (plain, "")


def _unit(word: str) -> str:
    unit = _UNITS.get(word, word.removesuffix("s"))
    return unit if unit in _HOURS_IN else ""


def _tidy(number: float) -> float:
    return int(number) if number == int(number) else round(number, 4)
