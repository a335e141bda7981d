"""What happens when Claude Code tells us of something: remember the task, save it, or print its brief.

The tool calls of a conversation come by here, so what they need is all that is imported.
"""

from __future__ import annotations

import json
import os
from typing import Any

from holdfast_server.clients import conversations
from holdfast_server.clients.conversations import Conversation

# Looking at tasks, or pruning them, is not working on one.
_WORKING = (
    *("save_checkpoint", "load_checkpoint", "mark_step_done"),
    *("finish_task", "begin_step", "ask_human"),
)


def handle(raw: bytes, workspace: str) -> str:
    """Do what one event asks for, and give what the agent is to read."""
    event = json.loads(raw)
    # The current folder moves with the agent; the project, where its server was started, does not.
    folder = os.environ.get("CLAUDE_PROJECT_DIR") or event["cwd"]
    happened = event["hook_event_name"]
    if happened == "PostToolUse":
        _remember(event, Conversation(_task_of(event), workspace, folder))
    elif happened == "PreCompact":
        from holdfast_server.clients import thread

        thread.save(conversations.recall(event["session_id"]), event["transcript_path"])
    elif happened == "SessionStart":
        from holdfast_server.clients import thread

        conversations.forget_old()
        known = conversations.recall(event["session_id"])
        return thread.told(known or Conversation("", workspace, folder))
    return ""


def _remember(event: dict[str, Any], found: Conversation) -> None:
    if found.task and event["tool_name"].rpartition("__")[2] in _WORKING:
        conversations.remember(event["session_id"], found)


def _task_of(event: dict[str, Any]) -> str:
    """Find the task of a call: in what was asked, or, where none was named, in the answer."""
    return str(event["tool_input"].get("task") or _answered(event.get("tool_response")))


def _answered(answer: Any) -> str:
    # Some versions give the text of the answer, others its blocks.
    texts = [answer] if isinstance(answer, str) else [each.get("text") for each in answer or ()]
    for text in texts:
        try:
            return str(json.loads(text)["task"])
        except (ValueError, TypeError, KeyError):
            continue
    return ""
