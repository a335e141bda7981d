"""Every name in a workspace: what it is called and how it is told from what is not ours."""

from __future__ import annotations

import re

from holdfast_storage.core.errors import InvalidName

TASKS, TRASH, ALIVE, SCHEMA = "tasks", ".trash", ".alive", "schema"
SETTINGS, README, IGNORE, SCHEMA_FILE = (
    "holdfast.json",
    "README.md",
    ".gitignore",
    "state.schema.json",
)
VIEW, JOURNAL, HEAD = "state.json", "journal", ".head"
LOADS, OLD_LOADS = "loads.jsonl", "loads.1.jsonl"

# What shows that somebody has the view open in vim (the first three files it would make) or Emacs.
EDITOR_FILES = (".state.json.swp", ".state.json.swo", ".state.json.swn", ".#state.json")

_SEGMENT = re.compile(r"([0-9]{6,})\.jsonl")
# Exactly this: a looser pattern once took vim's swap file for ours.
_LEFTOVER = re.compile(r"\.hfview\.[0-9a-f]+")
_TEMPORARY = re.compile(r"\.new\.[0-9a-f]{8,64}")
_PROCESS = re.compile(r"[0-9a-f]{8,64}")
_KEPT = re.compile(r"[^/\x00-\x1f\x7f]{1,200}")


def segment_name(number: int) -> str:
    """Give the name of a journal's segment."""
    return f"{number:06d}.jsonl"


def segment_number(name: str) -> int | None:
    """Give the number of a segment, None if the name is not one."""
    found = _SEGMENT.fullmatch(name)
    return int(found[1]) if found and segment_name(int(found[1])) == name else None


def leftover_name(random: str) -> str:
    """Give the name under which a view is written, and which what it displaces then has."""
    return f".hfview.{random}"


def is_leftover(name: str) -> bool:
    """Say whether a file in a task's folder is a view of ours on its way, or what one displaced."""
    return _LEFTOVER.fullmatch(name) is not None


def temporary_name(random: str) -> str:
    """Give the name under which a file is written that nobody edits, before it takes its place."""
    return f".new.{random}"


def is_temporary(name: str) -> bool:
    """Say whether this is a file of ours that has not taken its place yet."""
    return _TEMPORARY.fullmatch(name) is not None


def is_process(name: str) -> bool:
    """Say whether this can be the name of a process."""
    return _PROCESS.fullmatch(name) is not None


def check_kept_name(name: str) -> str:
    """Give the name back, or refuse it as the name of a file kept beside a task."""
    if not _KEPT.fullmatch(name) or name.startswith("."):
        raise InvalidName("file", name, "it must be one plain file name")
    return name


def numbered(name: str, number: int) -> str:
    """Give a name of its own to another content: `a.json` becomes `a-2.json`."""
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}-{number}.{suffix}" if dot and stem else f"{name}-{number}"
