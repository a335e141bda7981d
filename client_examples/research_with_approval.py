"""A research pipeline: milestones on the way, a person's approval in the middle, killed while it waits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from shared.over_mcp import Holdfast, connected
from shared.stage import Stage, play, tell

from holdfast_storage import Workspace

TASK = "market-report"
QUESTION = "Is this outline right?"


# --- the agent --------------------------------------------------------------------------------


async def research(folder: Path) -> None:
    async with connected(folder, agent="researcher") as holdfast:
        brief = await holdfast("load_checkpoint", task=TASK)
        if not brief["found"]:
            plan = ["collect", "outline", "approval", "write"]
            await holdfast("save_checkpoint", task=TASK, goal="A report on bridges.", plan=plan)
            brief = await holdfast("load_checkpoint", task=TASK)
        state: dict[str, Any] = brief["state"]
        for step in brief["remaining"]:
            if not await work(holdfast, step, state):
                return
            tell(f"done {step}")
        await holdfast("finish_task", task=TASK, summary="The report is written.")


async def work(holdfast: Holdfast, step: str, state: dict[str, Any]) -> bool:
    """Do one step, and say whether to go on."""
    if step == "approval" and not await is_approved(holdfast, state):
        return False
    found = think(step, state)
    # The step and what it found are one operation: after a crash, both are there or neither.
    await holdfast("mark_step_done", task=TASK, step=step, result=found, state={step: found})
    state[step] = found
    if step == "outline":
        # A milestone is kept for good, and named so that people can come back to it.
        await holdfast("save_checkpoint", task=TASK, label="outline complete", milestone=True)
    return True


async def is_approved(holdfast: Holdfast, state: dict[str, Any]) -> bool:
    # Asked again, after a restart, this is the same question: it may have an answer by now.
    asked = await holdfast(
        "ask_human", task=TASK, question=QUESTION, options=["yes", "no"], step="approval"
    )
    tell(f"asked: {asked['status']}")
    answer: str | None = asked["answer"]
    return answer == "yes"


def think(step: str, state: dict[str, Any]) -> Any:
    """Stand in for a model."""
    thoughts = {"collect": ["arch", "beam", "cable"], "approval": "yes"}
    if step == "outline":
        return [f"Chapter on {kind} bridges" for kind in state["collect"]]
    if step == "write":
        return f"A report in {len(state['outline'])} chapters."
    return thoughts[step]


# --- the story --------------------------------------------------------------------------------


def a_person_says_yes(folder: Path) -> None:
    async def answer() -> None:
        # In a terminal: holdfast answer market-report yes. In an editor: "answer" in state.json.
        async with Workspace.open(folder / ".holdfast") as workspace:
            await workspace.answer(TASK, "yes", by="human:ann")

    asyncio.run(answer())


def story(stage: Stage) -> str:
    first = stage.run("researcher", kill_at="asked: waiting")
    print("  Ann says yes, while no agent runs.")
    a_person_says_yes(stage.folder)
    second = stage.run("researcher")

    stage.check("it waited for the person", holds=first[-1] == "asked: waiting")
    stage.check("it went on with the answer", holds=second[0] == "asked: answered")
    steps = [line for line in first + second if line.startswith("done ")]
    stage.check("each step was done once", holds=len(steps) == len(set(steps)) == 4)
    report = stage.results(TASK)["write"]
    stage.check("the report has what was found first", holds=report == "A report in 3 chapters.")
    return "killed at the question, resumed at its answer, effects done once (4 steps)"


if __name__ == "__main__":
    play({"researcher": research}, story)
