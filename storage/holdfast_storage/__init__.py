"""Holdfast's storage: tasks that survive any crash, kept as files people can read and correct."""

from holdfast_storage.caller import Caller
from holdfast_storage.core.errors import HoldfastError, InDoubt
from holdfast_storage.task import Task
from holdfast_storage.workspace import Workspace

__all__ = ["Caller", "HoldfastError", "InDoubt", "Task", "Workspace"]
