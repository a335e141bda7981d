"""See every task at once for the price of reading their summaries: what a listing needs and no more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast_storage.core.strict_json import is_object
from holdfast_storage.engines.folder import heads
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.workspace_folder import WorkspaceFolder
from holdfast_storage.location import locate

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALL = 1 << 30
_TEXTS = ("task", "status", "goal", "next", "by", "updated_at")
_COUNTS = ("done", "failed", "total")
_WAITING = ("questions", "begun", "in_doubt", "conflicts")


def glance(url: str | Path | None = None) -> list[Mapping[str, Any]] | None:
    """Give each task as `Workspace.tasks` would; None if a journal has to be read for that first."""
    if (url or os.environ.get("HOLDFAST_WORKSPACE")) == "memory:":
        return None
    disk = Disk()
    workspace = WorkspaceFolder(disk, locate(url, os.environ, Path.cwd()).root)
    try:
        tasks = workspace.tasks_folder()
        found = heads.listed(disk, tasks, "", _ALL)[0] if tasks is not None else []
    finally:
        workspace.close()
    lines = [head.summary for head in found if head.summary is not None and _is_whole(head.summary)]
    if len(lines) < len(found) or any(line.get("begun") for line in lines):
        # Whoever has begun a step may have died since.
        return None
    return sorted(lines, key=lambda line: line["updated_at"], reverse=True)


def _is_whole(line: Mapping[str, Any]) -> bool:
    """Say whether a summary is as we write it: somebody may have changed the file."""
    progress = line.get("progress")
    return (
        all(type(line.get(name)) is str for name in _TEXTS)
        and is_object(progress)
        and all(type(progress.get(name)) is int for name in _COUNTS)
        and all(type(line.get(name, 0)) is int for name in _WAITING)
        and type(line.get("damaged")) is bool
    )
