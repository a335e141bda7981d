"""Each tool as one call of the workspace's door: the arguments are its keywords, name for name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast_storage import Caller
from holdfast_storage.results import Answer

Call = Callable[..., Awaitable[Answer]]

_OPERATIONS: dict[str, Callable[[Caller], Call]] = {
    "save_checkpoint": lambda caller: caller.save,
    "load_checkpoint": lambda caller: caller.load,
    "list_checkpoints": lambda caller: caller.list_checkpoints,
    "mark_step_done": lambda caller: caller.mark,
    "prune": lambda caller: caller.prune,
    "finish_task": lambda caller: caller.finish,
    "begin_step": lambda caller: caller.begin,
    "ask_human": lambda caller: caller.ask,
}


async def call(caller: Caller, tool: str, arguments: dict[str, Any]) -> Answer:
    """Do what the tool says."""
    return await _OPERATIONS[tool](caller)(**arguments)
