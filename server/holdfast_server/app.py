"""Put the server together: one workspace, the tools, and what surrounds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, InputRequiredResult, Resource

from holdfast_server import __version__
from holdfast_server.callers import Callers
from holdfast_server.completions import add_completions
from holdfast_server.metrics import Metrics
from holdfast_server.observe import LOG
from holdfast_server.prompts import add_prompts
from holdfast_server.resources import add_resources, listed_tasks
from holdfast_server.subscriptions import Subscriptions
from holdfast_server.tools import specs
from holdfast_server.tools.meant import right_tool
from holdfast_server.tools.refusals import UnknownTool, in_words
from holdfast_server.tools.served import Reply, ServedTool
from holdfast_server.tools.shortcut import Shortcut
from holdfast_storage import HoldfastError, Workspace

INSTRUCTIONS = (
    "Holdfast keeps your progress across crashes, time-outs and context compaction. "
    "Load first: call load_checkpoint before starting or resuming any task longer than a few minutes. "
    "Save at natural unit boundaries: after each finished unit, after success, before asking a person, "
    "and whenever losing the work since would cost more than five minutes or two dollars. "
    "Mark every step as it ends and never redo a step that is done. {begin}"
    "People read and correct the same progress: when an answer lists changes, they are right and your "
    "memory is wrong. Answers carry a hint: follow it. Finish with finish_task."
)
_BEGIN = (
    "Before any effect outside (mail, payment, deploy) call begin_step and act only if go is true. "
)


class HoldfastServer(MCPServer[Any]):
    """The SDK's server, with tasks among the resources and a word for those who call no tool of ours."""

    def __init__(self, workspace: Workspace, tools: list[ServedTool], **more: Any) -> None:
        super().__init__("holdfast", tools=[*tools], **more)
        self._workspace = workspace
        self._names = [tool.name for tool in tools]

    async def list_resources(self) -> list[Resource]:
        """List the tasks themselves too: a person picks one from them."""
        return [*await super().list_resources(), *await listed_tasks(self._workspace)]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; a wrong name is answered with the right one."""
        if name not in self._names:
            unknown = UnknownTool(name, right_tool(name, self._names), self._names)
            return Reply(in_words(unknown)).as_result()
        return await super().call_tool(name, arguments, context)


def build(
    workspace: Workspace,
    *,
    agent: str = "",
    tools: Literal["all", "core"] = "all",
    is_shared: bool = False,
    metrics: Metrics | None = None,
) -> tuple[MCPServer, Subscriptions]:
    """Build the server for one workspace."""
    core_only = tools == "core"
    callers = Callers(workspace, agent=agent, core_only=core_only, is_shared=is_shared)
    subscriptions = Subscriptions()
    chosen = specs.CORE if core_only else specs.ALL
    names = [spec.name for spec in chosen]
    metrics = metrics or Metrics()
    served = [ServedTool.of(spec, callers, workspace, metrics, names) for spec in chosen]
    server = HoldfastServer(
        workspace,
        served,
        title="Holdfast",
        version=__version__,
        instructions=INSTRUCTIONS.format(begin="" if core_only else _BEGIN),
        subscriptions=subscriptions.bus,
        cache_hints={"tools/list": CacheHint(ttl_ms=3_600_000, scope="public")},
        middleware=[Shortcut(served)],
        log_level="WARNING",
    )
    add_resources(server, workspace)
    add_prompts(server)
    add_completions(server, workspace)
    subscriptions.add_to(server)
    return server, subscriptions


@asynccontextmanager
async def watching(workspace: Workspace, subscriptions: Subscriptions) -> AsyncGenerator[None]:
    """Announce changes while this lasts."""
    watch = asyncio.create_task(subscriptions.publish_changes(workspace))
    tidy = asyncio.create_task(_tidy(workspace))
    try:
        yield
    finally:
        for task in (watch, tidy):
            task.cancel()
        await asyncio.gather(watch, tidy, return_exceptions=True)


async def _tidy(workspace: Workspace) -> None:
    """Let go of what is past keeping, once, while agents are served already."""
    try:
        await workspace.tidy()
    except HoldfastError as error:
        LOG.warning("could not tidy: %s", error)
    except Exception:  # noqa: BLE001 - a bug here must not end the serving
        LOG.exception("could not tidy")
