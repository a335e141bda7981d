"""A prompt people can pick to send an agent back to its work."""

from __future__ import annotations

import json

from mcp.server import MCPServer


def add_prompts(server: MCPServer) -> None:
    """Serve the prompt `resume`."""

    @server.prompt(title="Resume a task")
    def resume(task: str = "") -> str:
        """Load where a task stands and go on from there."""
        named = f" with {json.dumps({'task': task}, ensure_ascii=False)}" if task else ""
        return (
            f"Call load_checkpoint{named}. Read what is done, what people changed and what is in "
            "doubt. Do not redo any step that is done. Then go on with next and the remaining steps, "
            "marking each step as it ends and saving at natural boundaries."
        )
