"""Task ids and checkpoint numbers completed while somebody types them."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

from holdfast_storage import HoldfastError, Workspace

_MOST = 100


def add_completions(server: MCPServer, workspace: Workspace) -> None:
    """Complete `task` of the prompt and the resource templates, and `n` of a task's checkpoints."""

    # The SDK's decorator carries no types of its own.
    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion | None:
        if argument.name == "task":
            return _matching([line.task for line in await workspace.tasks()], argument.value)
        task = ((context.arguments if context else None) or {}).get("task", "")
        if argument.name == "n" and task:
            return _matching(await _checkpoints(workspace, task), argument.value)
        return None


async def _checkpoints(workspace: Workspace, task: str) -> list[str]:
    try:
        listed = await workspace.caller().list_checkpoints(task, limit=_MOST)
    except HoldfastError:
        # Somebody is still typing the task.
        return []
    return [str(line.checkpoint) for line in listed.checkpoints]


def _matching(names: list[str], typed: str) -> Completion:
    """Give the names that begin with what was typed, the most recent first."""
    found = [name for name in names if name.lower().startswith(typed.lower())]
    return Completion(values=found[:_MOST], total=len(found), has_more=len(found) > _MOST)
