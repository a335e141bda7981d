"""An agent that keeps its messages by `append`, and rebuilds the conversation after a kill.

The loop is the usual one: ask the model, call the tool it wants, give it the result, ask again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shared.over_mcp import connected
from shared.stage import Stage, play, tell

TASK = "trip-to-lisbon"
Message = dict[str, Any]


# --- the agent --------------------------------------------------------------------------------


async def plan_trip(folder: Path) -> None:
    async with connected(folder, agent="travel-agent") as holdfast:

        async def keep(message: Message) -> None:
            # One message is one line in the journal, however long the conversation has become.
            await holdfast("save_checkpoint", task=TASK, append={"messages": [message]})
            messages.append(message)

        brief = await holdfast("load_checkpoint", task=TASK, path="/messages", max_tokens=100_000)
        messages: list[Message] = brief["state"] or []
        tell(f"messages: {len(messages)}")
        if not messages:
            await keep({"role": "user", "content": "Plan two days in Lisbon."})
        while (said := messages[-1])["role"] != "assistant" or "call" in said:
            if "call" not in said:
                await keep(model(messages))
                continue
            result = use_tool(folder, said["call"])
            answer = {"role": "tool", "content": result}
            # The result and the message that carries it: both, or after a crash neither.
            await holdfast(
                "mark_step_done",
                task=TASK,
                step=said["call"],
                result=result,
                append={"messages": [answer]},
            )
            messages.append(answer)
            tell(f"called {said['call']}")
        await holdfast("finish_task", task=TASK, summary=said["content"])


# --- what stands in for a model and its tools -------------------------------------------------

CALLS = ["weather", "flights", "hotels", "museums"]


def model(messages: list[Message]) -> Message:
    """Ask for one tool after the other, then answer from what they said."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if len(results) < len(CALLS):
        return {"role": "assistant", "call": CALLS[len(results)]}
    return {"role": "assistant", "content": f"Your plan: {', '.join(results)}."}


def use_tool(folder: Path, name: str) -> str:
    with (folder / "bill.txt").open("a") as bill:
        bill.write(f"{name}\n")  # every call costs money
    return f"{name} looked up"


# --- the story --------------------------------------------------------------------------------


def story(stage: Stage) -> str:
    stage.run("travel-agent", kill_at="called flights")
    second = stage.run("travel-agent")

    stage.check("the conversation was rebuilt", holds=second[0] == "messages: 5")
    stage.check("it went on with the next call", holds=second[1] == "called hotels")
    bill = (stage.folder / "bill.txt").read_text().split()
    stage.check("no tool was called twice", holds=bill == CALLS)
    stage.check("every result is recorded", holds=sorted(stage.results(TASK)) == sorted(CALLS))
    return "killed at flights, resumed at hotels, effects done once (4 tool calls)"


if __name__ == "__main__":
    play({"travel-agent": plan_trip}, story)
