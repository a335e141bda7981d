"""Two agents of different kinds: one works over MCP and dies, the other is a Python program and goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from shared.over_mcp import connected
from shared.stage import Stage, play, tell

from holdfast_storage import Workspace

TASK = "translate-manual"
CHAPTERS = [f"chapter-{number}" for number in range(1, 9)]


# --- the first agent: a model with tools, over MCP --------------------------------------------


async def translate_over_mcp(folder: Path) -> None:
    async with connected(folder, agent="translator") as holdfast:
        brief = await holdfast("load_checkpoint", task=TASK)
        if not brief["found"]:
            # Whoever comes next knows nothing but this: say what it is about, and how it is done.
            await holdfast(
                "save_checkpoint",
                task=TASK,
                goal="Translate the manual into German, chapter by chapter.",
                plan=CHAPTERS,
                state={"glossary": {"checkpoint": "Sicherungspunkt"}, "form_of_address": "Sie"},
            )
            brief = await holdfast("load_checkpoint", task=TASK)
        for chapter in brief["remaining"]:
            await holdfast(
                "mark_step_done",
                task=TASK,
                step=chapter,
                result=f"{chapter} auf Deutsch",
                append={"translated_by": ["translator"]},
            )
            tell(f"done {chapter}")


# --- the second agent: a program, without MCP -------------------------------------------------


async def translate_in_python(folder: Path) -> None:
    async with Workspace.open(folder / ".holdfast", by="night-shift") as workspace:
        task = workspace.task(TASK)
        brief = await task.load()
        tell(f"took over from {brief.saved_by}, with {len(brief.state['glossary'])} word")
        async for chapter in task.remaining(brief.remaining):
            await task.done(
                chapter,
                result=f"{chapter} auf Deutsch",
                append={"translated_by": ["night-shift"]},
            )
            tell(f"done {chapter}")
        await task.finish(summary="Both had a part in it.")


# --- the story --------------------------------------------------------------------------------


async def state_of(folder: Path) -> dict[str, Any]:
    async with Workspace.open(folder / ".holdfast") as workspace:
        state: dict[str, Any] = (await workspace.brief(TASK)).state
        return state


def story(stage: Stage) -> str:
    first = stage.run("over-mcp", kill_at="done chapter-5")
    second = stage.run("in-python")

    stage.check(
        "it knew whose work it was", holds=second[0].startswith("took over from translator")
    )
    stage.check("no chapter was done twice", holds=first + second[1:] == done_chapters())
    stage.check("all are there", holds=sorted(stage.results(TASK)) == CHAPTERS)
    authors = asyncio.run(state_of(stage.folder))["translated_by"]
    stage.check("both signed", holds=authors == ["translator"] * 5 + ["night-shift"] * 3)
    return "killed at chapter-5, resumed at chapter-6, effects done once (8 chapters)"


def done_chapters() -> list[str]:
    return [f"done {chapter}" for chapter in CHAPTERS]


if __name__ == "__main__":
    play({"over-mcp": translate_over_mcp, "in-python": translate_in_python}, story)
