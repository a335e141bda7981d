"""Claude Agent SDK: an agent that sends invoices, is killed in the middle, and sends none twice.

The SDK brings the real Claude Code with it. Only the model is scripted: a server on this machine
that speaks its language.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)
from scripted_claude import serving
from scripted_model import INSTRUCTIONS
from stage import Office, play

# --- the agent --------------------------------------------------------------------------------


async def send_invoices(folder: Path) -> None:
    serve = ["serve", "--workspace", str(folder / ".holdfast")]
    with serving() as address:
        options = ClaudeAgentOptions(
            system_prompt=INSTRUCTIONS,
            mcp_servers={
                "holdfast": {"type": "stdio", "command": "holdfast", "args": serve},
                "office": create_sdk_mcp_server("office", tools=office_tools(Office(folder))),
            },
            strict_mcp_config=True,
            tools=[],
            allowed_tools=["mcp__holdfast__*", "mcp__office__*"],
            setting_sources=[],
            cwd=folder,
            # Leave out these three to talk to the real model.
            env={
                "ANTHROPIC_BASE_URL": address,
                "ANTHROPIC_API_KEY": "none",
                "HOME": str(folder),
            },
        )
        async for message in query(prompt="Go on with the invoices.", options=options):
            if isinstance(message, ResultMessage) and message.is_error:
                raise RuntimeError(message.result)


def office_tools(office: Office) -> list[Any]:
    customer = {"customer": str}

    @tool("send_invoice", "Send a customer the invoice of this month.", customer)
    async def send_invoice(arguments: dict[str, Any]) -> dict[str, Any]:
        return as_text(office.send_invoice(arguments["customer"]))

    @tool("look_into_outbox", "Say whether a customer's invoice went out.", customer)
    async def look_into_outbox(arguments: dict[str, Any]) -> dict[str, Any]:
        return as_text(office.look_into_outbox(arguments["customer"]))

    return [send_invoice, look_into_outbox]


def as_text(told: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": told}]}


if __name__ == "__main__":
    play(send_invoices)
