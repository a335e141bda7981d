"""Which folder is the workspace, when nobody says so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = ".holdfast"


@dataclass(frozen=True, slots=True)
class Location:
    """A workspace's folder and the project that it serves, if it is one."""

    root: Path
    project: Path | None


def locate(given: str | Path | None, environment: Mapping[str, str], start: Path) -> Location:
    """Find the workspace: as given, by environment, the nearest above, else a new one."""
    named = given or environment.get("HOLDFAST_WORKSPACE")
    if named:
        root = Path(str(named).removeprefix("file://")).expanduser().absolute()
        return Location(root, _project_of(root))
    top = _git_root(start)
    for folder in _upwards(start, top):
        if (folder / FOLDER).is_dir():
            return Location(folder / FOLDER, _project_of(folder / FOLDER))
    folder = top or start
    if _is_too_wide(folder) or not os.access(folder, os.W_OK):
        return Location(Path.home() / FOLDER, None)
    return Location(folder / FOLDER, folder)


def _upwards(start: Path, top: Path | None) -> list[Path]:
    """List the folders to look in: a repository is not served by a workspace outside of it."""
    above = [start, *start.parents]
    return above[: above.index(top) + 1] if top else above


def _git_root(start: Path) -> Path | None:
    return next((each for each in (start, *start.parents) if (each / ".git").exists()), None)


def _is_too_wide(folder: Path) -> bool:
    """Say whether a folder is no project: everything, or all that belongs to a person."""
    return folder == Path(folder.anchor) or folder == Path.home()


def _project_of(root: Path) -> Path | None:
    return None if _is_too_wide(root.parent) else root.parent
