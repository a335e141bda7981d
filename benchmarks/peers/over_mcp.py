"""What the peers that are MCP servers have in common: a client that costs next to nothing."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from benchmarks.client import Client


class OverMcp(ABC):
    """Starts a server for the folder and calls its tools."""

    @abstractmethod
    def command(self, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Give the command that serves a folder, and its environment."""

    async def open(self, folder: Path) -> None:
        command, environment = self.command(folder)
        self._client = Client(command, environment)

    async def close(self) -> None:
        self._client.close()

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and give what it says, parsed if it is JSON."""
        answer = self._client.call(tool, **arguments)
        if answer.get("structuredContent") is not None:
            return answer["structuredContent"]
        text = answer["content"][0]["text"] if answer["content"] else "null"
        try:
            return json.loads(text)
        except ValueError:
            return text
