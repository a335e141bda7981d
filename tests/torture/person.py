"""A person who edits state.json while agents work, in the ways in which editors save."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast_storage.core.ids import folder_name

Style = Callable[[Path, bytes], None]


def truncates_and_writes(path: Path, raw: bytes) -> None:
    """Save as VS Code does."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for start in range(0, len(raw), 4096):
            os.write(fd, raw[start : start + 4096])
        os.fdatasync(fd)
    finally:
        os.close(fd)


def renames_into_place(path: Path, raw: bytes) -> None:
    """Save as sed -i does."""
    temporary = path.with_name("sedPerson")
    temporary.write_bytes(raw)
    temporary.rename(path)


def moves_the_old_one_away(path: Path, raw: bytes) -> None:
    """Save as vim does: there is a moment without the file."""
    backup = path.with_name("state.json~")
    path.rename(backup)
    path.write_bytes(raw)
    backup.unlink()


def overwrites_and_cuts(path: Path, raw: bytes) -> None:
    """Save in place without truncating first."""
    with path.open("r+b") as file:
        file.write(raw)
        file.truncate()


STYLES: tuple[Style, ...] = (
    truncates_and_writes,
    renames_into_place,
    moves_the_old_one_away,
    overwrites_and_cuts,
)


class Person:
    """Writes words of their own into the state of tasks, each word once."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._tasks, self._chance = root / "tasks", chance
        self._waiting: dict[str, str] = {}

    def edit(self, task: str, word: str) -> bool:
        """Save a word, unless the last one in this task was not taken in yet."""
        if not self._is_taken_in(task):
            return False
        path = self._tasks / folder_name(task) / "state.json"
        try:
            document: dict[str, Any] = json.loads(path.read_bytes())
        except FileNotFoundError:
            return False
        document["state"].setdefault("person", {})[self._chance.choice("abc")] = word
        raw = json.dumps(document, indent=2).encode()
        try:
            self._chance.choice(STYLES)(path, raw)
        except FileNotFoundError:
            return False  # a gap that another one left; nothing was saved
        self._waiting[task] = word
        return True

    def _is_taken_in(self, task: str) -> bool:
        """Whoever saves twice from one view overwrites a save that nobody has seen yet."""
        word = self._waiting.get(task)
        if word and not was_seen(self._tasks / folder_name(task), word):
            return False
        self._waiting.pop(task, None)
        return True


def was_seen(folder: Path, word: str) -> bool:
    """Say whether a person's word was recorded as an edit, or kept for them to find."""
    raw = word.encode()
    for segment in sorted(folder.glob("journal/*.jsonl"), reverse=True):
        if any(raw in line and b'"op":"edit"' in line for line in _lines(segment)):
            return True
    return any(raw in kept.read_bytes() for kept in folder.glob("conflicts/*"))


def _lines(segment: Path) -> list[bytes]:
    return segment.read_bytes().split(b"\n")
