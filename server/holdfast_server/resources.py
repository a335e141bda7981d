"""Tasks as resources, for clients that read those."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp.types import Resource

from holdfast_server.tools.told import told
from holdfast_storage import HoldfastError, Workspace
from holdfast_storage.core.errors import InvalidName, Unavailable, Unknown
from holdfast_storage.core.strict_json import pretty
from holdfast_storage.results import Answer

TASKS = "holdfast://tasks"
_JSON = "application/json"
_LISTED = 100
_PAGE = 200
# A task's id is no path: the workspace turns whatever stands in it into a name inside the folder.
_ANY_ID = ResourceSecurity(exempt_params={"task"})


def uri_of(task: str) -> str:
    """Name a task's resource; an id may contain what an address may not."""
    return f"{TASKS}/{quote(task, safe='')}"


def uris_of(task: str) -> list[str]:
    """Name the resources that change when a task does."""
    return [TASKS, uri_of(task), f"{uri_of(task)}/steps"]


async def listed_tasks(workspace: Workspace) -> list[Resource]:
    """Give the tasks that a person may pick in a client, the most recently touched first."""
    return [
        Resource(
            uri=uri_of(line.task),
            name=line.task,
            title=line.task,
            description=f"{line.status}, {line.progress.done} of {line.progress.total} steps done",
            mime_type=_JSON,
        )
        for line in (await workspace.tasks())[:_LISTED]
    ]


def add_resources(server: MCPServer, workspace: Workspace) -> None:
    """Serve the list of tasks, each task, its checkpoints and its steps."""

    @server.resource(TASKS, title="Tasks", mime_type=_JSON)
    async def tasks() -> str:
        """All tasks with status and progress."""
        async with _put_into_words():
            return _json(await workspace.caller().list_checkpoints(limit=_PAGE))

    @server.resource(TASKS + "/{task}", title="Task", mime_type=_JSON, security=_ANY_ID)
    async def task(task: str) -> str:
        """Where a task stands, as load_checkpoint would answer."""
        async with _put_into_words():
            brief = await workspace.brief(task, max_tokens=10_000)
        if not brief.found:
            raise ResourceNotFoundError(f"there is no task {task[:80]!a}")
        return _json(brief)

    @server.resource(
        TASKS + "/{task}/checkpoints/{n}", title="Checkpoint", mime_type=_JSON, security=_ANY_ID
    )
    async def checkpoint(task: str, n: str) -> str:
        """The state saved at one checkpoint."""
        if not n.isdecimal():
            raise ResourceNotFoundError("a checkpoint is named by its number")
        async with _put_into_words():
            return pretty(await workspace.state_at(task, int(n[:20]))).decode()

    @server.resource(TASKS + "/{task}/steps", title="Steps", mime_type=_JSON, security=_ANY_ID)
    async def steps(task: str) -> str:
        """The first 200 steps of a task with their results."""
        async with _put_into_words():
            listed = await workspace.caller().list_checkpoints(task, show="steps", limit=_PAGE)
        return _json(listed, task=task, show="steps")


@asynccontextmanager
async def _put_into_words() -> AsyncGenerator[None]:
    """Tell what does not exist from what cannot be read: broken is never empty."""
    try:
        yield
    except (Unknown, Unavailable, InvalidName) as error:
        raise ResourceNotFoundError(str(error)) from error
    except HoldfastError as error:
        raise ResourceError(f"{error.code}: {error}. {error.hint}") from error


def _json(answer: Answer, **asked: Any) -> str:
    return pretty(told(answer, asked)).decode()
