"""A workspace as a folder: journals and views as files that people can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast_storage.engines.folder.engine import FolderEngine

__all__ = ["FolderEngine"]


def __getattr__(name: str) -> object:
    """Import the engine when it is asked for: whoever only lists tasks does without."""
    if name != "FolderEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast_storage.engines.folder.engine import FolderEngine

    return FolderEngine
