"""A small agent program: fifty items over MCP, each marked done as it ends.

There is no model in it; where a real agent would think, this one naps. Everything else is what a real
one does: it loads first, does what remains, and marks each step.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from holdfast_server.demo.items import ITEMS, TASK

_WORK_SECONDS = 0.02


async def work(folder: Path, hang_after: int) -> None:
    """Go on from wherever the task stands; hang after so many items, if any."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "holdfast_server", "serve", "--workspace", str(folder / ".holdfast")],
    )
    with (folder / "server.log").open("a") as log:
        async with Client(stdio_client(server, errlog=log)) as client:
            await _work(client, hang_after)


async def _work(client: Client, hang_after: int) -> None:
    brief = await _told(client, "load_checkpoint")
    if not brief["found"]:
        await _told(client, "save_checkpoint", goal="One summary for each document.", plan=ITEMS)
    done = brief["progress"]["done"]
    print(f"resumed {done}", flush=True)
    for item in ITEMS[done:]:
        await asyncio.sleep(_WORK_SECONDS)
        summary = {"summary": f"{item} in one sentence.", "pages": len(item)}
        await _told(client, "mark_step_done", step=item, result=summary)
        print(f"done {item}", flush=True)
        if ITEMS.index(item) + 1 == hang_after:
            await asyncio.Event().wait()
    await _told(client, "finish_task", summary="All summarised.")


async def _told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, {"task": TASK, **arguments})
    if result.is_error:
        raise SystemExit(f"{tool} was refused: {result.content}")
    told: dict[str, Any] = result.structured_content
    return told


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
