"""Holdfast's storage: tasks that survive any crash, kept as files people can read and correct."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast_storage.caller import Caller
    from holdfast_storage.core.errors import HoldfastError, InDoubt
    from holdfast_storage.task import Task
    from holdfast_storage.workspace import Workspace

__all__ = ["Caller", "HoldfastError", "InDoubt", "Task", "Workspace"]

_WHERE = {
    "Caller": "caller",
    "HoldfastError": "core.errors",
    "InDoubt": "core.errors",
    "Task": "task",
    "Workspace": "workspace",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is: `holdfast ls` needs a tenth of it and must be quick."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
