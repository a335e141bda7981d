"""An agent summarises 200 documents, is killed after 47, and goes on with the 48th."""

from __future__ import annotations

from pathlib import Path

from shared.over_mcp import connected
from shared.stage import Stage, play, tell

TASK = "summarise-200-documents"
DOCUMENTS = [f"doc-{number:03d}" for number in range(1, 201)]


# --- the agent --------------------------------------------------------------------------------


async def summarise_all(folder: Path) -> None:
    async with connected(folder, agent="summariser") as holdfast:
        brief = await holdfast("load_checkpoint", task=TASK)
        if not brief["found"]:
            goal = "One summary for each document; finished when all 200 have one."
            await holdfast("save_checkpoint", task=TASK, goal=goal, plan=DOCUMENTS)
            brief = await holdfast("load_checkpoint", task=TASK)
        # The brief shows the beginning of what remains; after that each answer names the next.
        document = brief["remaining"][0]
        while document:
            summary = f"{document} in one sentence."  # here your model thinks
            marked = await holdfast("mark_step_done", task=TASK, step=document, result=summary)
            tell(f"done {document}")
            document = marked["next_step"]
        await holdfast("finish_task", task=TASK, summary="All 200 are summarised.")


# --- the story --------------------------------------------------------------------------------


def story(stage: Stage) -> str:
    first = stage.run("summariser", kill_at="done doc-047")
    second = stage.run("summariser")

    stage.check("the second start went on with 48", holds=second[0] == "done doc-048")
    stage.check("no document was done twice", holds=not set(first) & set(second))
    stage.check("each has a summary", holds=sorted(stage.results(TASK)) == DOCUMENTS)
    return "killed at doc-047, resumed at doc-048, effects done once (200 summaries)"


if __name__ == "__main__":
    play({"summariser": summarise_all}, story)
