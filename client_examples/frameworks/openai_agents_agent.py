"""OpenAI Agents SDK: an agent that sends invoices, is killed in the middle, and sends none twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool
from agents.items import TResponseInputItem, TResponseStreamEvent
from agents.mcp import MCPServerStdio
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from scripted_model import FINISHED, INSTRUCTIONS, Call, next_call
from stage import Office, play

# --- the agent --------------------------------------------------------------------------------


async def send_invoices(folder: Path) -> None:
    office = Office(folder)
    serve = ["serve", "--workspace", str(folder / ".holdfast")]
    async with MCPServerStdio(
        {"command": "holdfast", "args": serve}, client_session_timeout_seconds=60
    ) as holdfast:
        agent = Agent(
            name="invoices",
            instructions=INSTRUCTIONS,
            model=Scripted(),  # or "gpt-…"
            mcp_servers=[holdfast],
            tools=[function_tool(office.send_invoice), function_tool(office.look_into_outbox)],
        )
        await Runner.run(agent, "Go on with the invoices.", max_turns=60)


# --- instead of a model -----------------------------------------------------------------------


class Scripted(Model):
    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        *arguments: Any,
        **more: Any,
    ) -> ModelResponse:
        calls = calls_in(input if isinstance(input, list) else [])
        answer = said(next_call(calls), number=len(calls))
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **more: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError("this scripted model answers whole; nothing here streams")


def calls_in(items: list[Any]) -> list[Call]:
    answers = {
        item["call_id"]: item["output"]
        for item in items
        if item.get("type") == "function_call_output"
    }
    return [
        Call(item["name"], json.loads(item["arguments"]), answers[item["call_id"]])
        for item in items
        if item.get("type") == "function_call"
    ]


def said(call: Call | None, number: int) -> ResponseFunctionToolCall | ResponseOutputMessage:
    if call is None:
        text = ResponseOutputText(text=FINISHED, type="output_text", annotations=[])
        return ResponseOutputMessage(
            id="last", content=[text], role="assistant", status="completed", type="message"
        )
    return ResponseFunctionToolCall(
        call_id=f"call-{number}",
        name=call.tool,
        arguments=json.dumps(call.arguments),
        type="function_call",
    )


if __name__ == "__main__":
    play(send_invoices)
