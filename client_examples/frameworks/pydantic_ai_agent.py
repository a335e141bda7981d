"""Pydantic AI: an agent that sends invoices, is killed in the middle, and sends none twice."""

from __future__ import annotations

from pathlib import Path

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from scripted_model import FINISHED, INSTRUCTIONS, Call, next_call
from stage import Office, play

# --- the agent --------------------------------------------------------------------------------


async def send_invoices(folder: Path) -> None:
    office = Office(folder)
    serve = ["serve", "--workspace", str(folder / ".holdfast")]
    holdfast = MCPToolset(StdioTransport("holdfast", serve), init_timeout=60)
    agent = Agent(
        FunctionModel(scripted),  # or "anthropic:claude-…", "openai:gpt-…"
        instructions=INSTRUCTIONS,
        toolsets=[holdfast],
        tools=[office.send_invoice, office.look_into_outbox],
    )
    await agent.run("Go on with the invoices.")


# --- instead of a model -----------------------------------------------------------------------


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    parts = [part for message in messages for part in message.parts]
    answers = {
        part.tool_call_id: part.content for part in parts if isinstance(part, ToolReturnPart)
    }
    calls = [
        Call(part.tool_name, part.args_as_dict(), answers[part.tool_call_id])
        for part in parts
        if isinstance(part, ToolCallPart)
    ]
    call = next_call(calls)
    if call is None:
        return ModelResponse(parts=[TextPart(FINISHED)])
    return ModelResponse(parts=[ToolCallPart(call.tool, call.arguments)])


if __name__ == "__main__":
    play(send_invoices)
