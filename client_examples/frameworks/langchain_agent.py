"""LangChain: an agent that sends invoices, is killed in the middle, and sends none twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from scripted_model import FINISHED, INSTRUCTIONS, Call, next_call
from stage import Office, play

# --- the agent --------------------------------------------------------------------------------


async def send_invoices(folder: Path) -> None:
    office = Office(folder)
    serve = ["serve", "--workspace", str(folder / ".holdfast")]
    client = MultiServerMCPClient(
        {"holdfast": {"transport": "stdio", "command": "holdfast", "args": serve}}
    )
    # One session for all calls: client.get_tools() would start a server for each of them, and
    # whoever begins a step must still be there to confirm it.
    async with client.session("holdfast") as session:
        agent = create_agent(
            Scripted(),  # or "anthropic:claude-…", "openai:gpt-…"
            tools=[
                *await load_mcp_tools(session),
                office.send_invoice,
                office.look_into_outbox,
            ],
            system_prompt=INSTRUCTIONS,
        )
        begin = {"messages": [{"role": "user", "content": "Go on with the invoices."}]}
        await agent.ainvoke(begin, {"recursion_limit": 200})  # type: ignore[call-overload]


# --- instead of a model -----------------------------------------------------------------------


class Scripted(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **more: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **more: Any) -> ChatResult:
        answers = {it.tool_call_id: it.content for it in messages if isinstance(it, ToolMessage)}
        asked = [call for it in messages if isinstance(it, AIMessage) for call in it.tool_calls]
        calls = [Call(it["name"], it["args"], answers[it["id"] or ""]) for it in asked]
        call = next_call(calls)
        said = AIMessage(FINISHED)
        if call is not None:
            number = f"call-{len(calls)}"
            tool_call = {"name": call.tool, "args": call.arguments, "id": number}
            said = AIMessage("", tool_calls=[tool_call])
        return ChatResult(generations=[ChatGeneration(message=said)])


if __name__ == "__main__":
    play(send_invoices)
