"""A server with one tool that does nothing: on our front end, or on the SDK's own (`bare`)."""

from __future__ import annotations

import asyncio
import sys

from mcp.server import MCPServer

server = MCPServer("nothing", version="1", log_level="WARNING")


@server.tool()
async def nothing() -> dict[str, int]:
    """Do nothing."""
    return {"x": 1}


async def on_our_front_end() -> None:
    """Serve it as Holdfast serves its own tools."""
    from holdfast_server.stdio import Connection, Wire

    wire = Wire.of_process()
    low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    await Connection(wire).serve(low, line_limit=2**24)
    wire.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["bare"]:
        server.run("stdio")
    else:
        asyncio.run(on_our_front_end())
