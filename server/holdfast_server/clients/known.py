"""The clients we know: where each keeps its settings, and what an entry looks like there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomlkit

Scope = Literal["project", "user"]
NAME = "holdfast"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides where a client's files are."""

    home: Path
    project: Path
    environment: Mapping[str, str]
    is_mac: bool = False

    @property
    def settings(self) -> Path:
        """The folder in which applications keep their settings."""
        if self.is_mac:
            return self.home / "Library" / "Application Support"
        return self.folder("XDG_CONFIG_HOME", ".config")

    def folder(self, variable: str, below_home: str) -> Path:
        """Give the folder that a variable names, else one below home."""
        named = self.environment.get(variable)
        return Path(named) if named else self.home / below_home


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers for its agent."""

    name: str
    title: str
    # What the table of servers is called.
    section: str
    # Below the project's folder; empty if the client has no settings there.
    project_file: str
    then: str
    # What a project's entry waits for.
    trust: str = ""
    # Which entries say that they are commands.
    says_type: bool = False
    # Started from a menu: with another PATH, and in no particular folder.
    is_application: bool = False
    has_hooks: bool = False

    @property
    def is_toml(self) -> bool:
        """Say whether its settings are TOML; otherwise they are JSON with comments."""
        return self.project_file.endswith(".toml")

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes it has, the usual one first."""
        return ("project", "user") if self.project_file else ("user",)

    def entry(self, command: list[str], workspace: str) -> dict[str, Any]:
        """Describe the server as this client wants it."""
        kind = {"type": "stdio"} if self.says_type else {}
        where = ["--workspace", workspace] if workspace else []
        return {**kind, "command": command[0], "args": [*command[1:], "serve", *where]}

    def snippet(self, entry: dict[str, Any]) -> str:
        """Give the least file that has this entry."""
        document = {self.section: {NAME: entry}}
        if self.is_toml:
            return tomlkit.dumps(document)
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def file(self, scope: Scope, here: Surroundings) -> Path:
        """Give the file in which it keeps its servers."""
        return here.project / self.project_file if scope == "project" else _user_file(self, here)

    def workspace(self, scope: Scope, here: Surroundings) -> str:
        """Say what the command must be told about the workspace, where it does not find it."""
        if not self.is_application:
            return ""
        return (
            "${workspaceFolder}/.holdfast" if scope == "project" else str(here.home / ".holdfast")
        )


def _user_file(client: Client, here: Surroundings) -> Path:
    files = {
        "claude-code": here.folder("CLAUDE_CONFIG_DIR", "") / ".claude.json",
        "claude-desktop": here.settings / "Claude" / "claude_desktop_config.json",
        "cursor": here.home / ".cursor" / "mcp.json",
        "vscode": here.settings / "Code" / "User" / "mcp.json",
        "codex": here.folder("CODEX_HOME", ".codex") / "config.toml",
        "gemini": here.home / ".gemini" / "settings.json",
    }
    return files[client.name]


_RESTART = "Restart it, if it is running."
CLIENTS = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            "mcpServers",
            ".mcp.json",
            "`claude mcp list` shows it.",
            "Claude Code asks once whether you trust it.",
            says_type=True,
            has_hooks=True,
        ),
        Client("claude-desktop", "Claude Desktop", "mcpServers", "", _RESTART, is_application=True),
        Client("cursor", "Cursor", "mcpServers", ".cursor/mcp.json", _RESTART, is_application=True),
        Client(
            "vscode",
            "VS Code",
            "servers",
            ".vscode/mcp.json",
            _RESTART,
            "VS Code asks once whether you trust it.",
            says_type=True,
            is_application=True,
        ),
        Client(
            "codex",
            "Codex",
            "mcp_servers",
            ".codex/config.toml",
            "`codex mcp list` shows it.",
            "Codex reads it only in a project that it trusts.",
        ),
        Client(
            "gemini",
            "Gemini CLI",
            "mcpServers",
            ".gemini/settings.json",
            "`gemini mcp list` shows it.",
            "Gemini CLI starts it only in a folder that it trusts.",
        ),
    )
}
# What nearly every other client takes.
ANY = Client("", "another client", "mcpServers", "", "")
