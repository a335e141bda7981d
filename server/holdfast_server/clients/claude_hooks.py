"""The hooks that keep Claude Code's thread: as they stand in its settings."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from holdfast_server.clients import jsonc
from holdfast_server.clients.known import NAME, Scope, Surroundings
from holdfast_storage.core.strict_json import is_array, is_object

_SECONDS = 10
_MARK = "hook claude-code"
_MATCHERS = {
    "PostToolUse": f"mcp__{NAME}__.*",
    "PreCompact": "",
    "SessionStart": "startup|resume|compact",
}


def settings_file(scope: Scope, here: Surroundings) -> Path:
    """Give the file in which Claude Code keeps its hooks."""
    if scope == "project":
        return here.project / ".claude" / "settings.json"
    return here.folder("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"


def hooks(command: list[str], workspace: str) -> dict[str, Any]:
    """Give what each event has to call."""
    where = ["--workspace", workspace] if workspace else []
    # Whatever becomes of this installation: a hook that fails would be in the agent's way.
    line = shlex.join([*command, *_MARK.split(), *where]) + " || true"
    called = [{"type": "command", "command": line, "timeout": _SECONDS}]
    return {
        event: {**({"matcher": matcher} if matcher else {}), "hooks": called}
        for event, matcher in _MATCHERS.items()
    }


def put(text: str, wanted: dict[str, Any]) -> str:
    """Add our hooks to the settings, or bring them up to date."""
    for event, group in wanted.items():
        known = _groups(text, event)
        ours = next((number for number, each in enumerate(known) if _is_ours(each)), len(known))
        text = jsonc.put(text, ("hooks", event, ours), group)
    return text


def drop(text: str) -> str:
    """Remove our hooks from the settings."""
    for event in _MATCHERS:
        for number, group in reversed(list(enumerate(_groups(text, event)))):
            if _is_ours(group):
                text = jsonc.drop(text, ("hooks", event, number))
    return text


def _groups(text: str, event: str) -> list[Any]:
    settings = jsonc.parse(text).value
    events = settings.get("hooks") if is_object(settings) else None
    groups = events.get(event) if is_object(events) else None
    return groups if is_array(groups) else []


def _is_ours(group: object) -> bool:
    called = group.get("hooks") if is_object(group) else None
    if not is_array(called) or len(called) != 1 or not is_object(called[0]):
        return False
    command = str(called[0].get("command", ""))
    return NAME in command and _MARK in command
