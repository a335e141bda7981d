"""An agent that prepares something and waits until a person has corrected it in `state.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp.shared.subscriptions import ResourceUpdated
from shared.over_mcp import Holdfast, connected
from shared.stage import Stage, play, tell

TASK = "newsletter"


# --- the agent --------------------------------------------------------------------------------


async def send_newsletter(folder: Path) -> None:
    async with connected(folder, agent="editor") as holdfast:
        brief = await holdfast("load_checkpoint", task=TASK)
        if not brief["found"]:
            draft = {"subject": "Our new brigdes", "ready": False}
            goal = "Send the newsletter when a person has set ready to true."
            await holdfast("save_checkpoint", task=TASK, goal=goal, state=draft, plan=["send"])
        state = await ready(holdfast)
        begun = await holdfast("begin_step", task=TASK, step="send")
        if begun["go"]:
            with (folder / "outbox.txt").open("a") as outbox:
                outbox.write(f"{state['subject']}\n")
            await holdfast("mark_step_done", task=TASK, step="send", result=state["subject"])
            tell(f"sent: {state['subject']}")
        await holdfast("finish_task", task=TASK)


async def ready(holdfast: Holdfast) -> dict[str, Any]:
    """Wait until the state says so; a change is announced, so nobody has to ask all the time."""
    resource = f"holdfast://tasks/{TASK}"
    async with holdfast.client.listen(resource_subscriptions=[resource]) as events:
        # Listen first, then look: what changes in between is announced too.
        state = await current_state(holdfast)
        while not state["ready"]:
            tell("waiting")
            await anext(event async for event in events if isinstance(event, ResourceUpdated))
            state = await current_state(holdfast)
    return state


async def current_state(holdfast: Holdfast) -> dict[str, Any]:
    state: dict[str, Any] = (await holdfast("load_checkpoint", task=TASK))["state"]
    return state


# --- the story --------------------------------------------------------------------------------


def story(stage: Stage) -> str:
    def correct(view: dict[str, Any]) -> None:
        view["state"]["subject"] = "Our new bridges"

    def release(view: dict[str, Any]) -> None:
        view["state"]["ready"] = True

    stage.run("editor", kill_at="waiting")
    print("  Ann corrects the subject, while no agent runs.")
    stage.edit(TASK, correct)
    print("  The agent waits again; Ann sets ready to true.")
    second = stage.run("editor", meanwhile={"waiting": lambda: stage.edit(TASK, release)})

    stage.check("it went on by itself", holds=second[-1] == "sent: Our new bridges")
    outbox = (stage.folder / "outbox.txt").read_text().splitlines()
    stage.check("it was sent once, corrected", holds=outbox == ["Our new bridges"])
    return "killed at waiting, resumed at Ann's edit, effects done once (1 newsletter)"


if __name__ == "__main__":
    play({"editor": send_newsletter}, story)
