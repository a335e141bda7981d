"""Talk to Holdfast over MCP. Copy this with the agent that you copy."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


class Holdfast:
    """The tools of a Holdfast server, as calls: `await holdfast("load_checkpoint", task="…")`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.client.call_tool(tool, arguments)
        if answer.is_error:
            # It says what was wrong and what to do next: a model would read it and try again.
            raise RuntimeError(f"{tool}: {answer.content}")
        told: dict[str, Any] = answer.structured_content
        return told


@asynccontextmanager
async def connected(folder: Path, agent: str) -> AsyncGenerator[Holdfast]:
    """Start a server for this agent alone; any number of them may work in one folder."""
    serve = ["-m", "holdfast_server", "serve", "--workspace", str(folder / ".holdfast")]
    server = StdioServerParameters(command=sys.executable, args=[*serve, "--agent", agent])
    async with Client(stdio_client(server)) as client:
        yield Holdfast(client)
