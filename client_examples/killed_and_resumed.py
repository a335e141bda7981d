"""A Python program without MCP: a loop over `task.remaining`, and letters that must not go out twice."""

from __future__ import annotations

from pathlib import Path

from shared.stage import Stage, play, tell

from holdfast_storage import InDoubt, Workspace

ITEMS = [f"item-{number:02d}" for number in range(1, 51)]


# --- the programs -----------------------------------------------------------------------------


async def compute_all(folder: Path) -> None:
    """Work that may be repeated: mark each step when it is done."""
    async with Workspace.open(folder / ".holdfast") as workspace:
        task = workspace.task("compute")
        async for item in task.remaining(ITEMS):
            await task.done(item, result=len(item) * int(item[-2:]))
            tell(f"done {item}")
        await task.finish()


async def send_all(folder: Path) -> None:
    """Work that must not be repeated: begin each step before its effect."""
    outbox = folder / "outbox.txt"
    async with Workspace.open(folder / ".holdfast") as workspace:
        task = workspace.task("send")
        while True:
            try:
                async for item in task.remaining(ITEMS):
                    await task.begin(item)
                    with outbox.open("a") as letters:
                        letters.write(f"{item}\n")
                    tell(f"sent {item}")
                    await task.done(item)
                break
            except InDoubt as doubt:
                # It was begun and never confirmed. Look at the world, then say what you saw.
                happened = doubt.step in outbox.read_text().split()
                await workspace.resolve("send", doubt.step, happened=happened, by="send-program")
                tell(f"{'found' if happened else 'not found'} in the outbox: {doubt.step}")
        await task.finish()


# --- the story --------------------------------------------------------------------------------


def story(stage: Stage) -> str:
    stage.run("compute", kill_at="done item-20")
    computed = stage.run("compute")
    stage.run("send", kill_at="sent item-21")
    sent = stage.run("send")

    stage.check("the second start went on with item 21", holds=computed[0] == "done item-21")
    stage.check("50 results, each once", holds=sorted(stage.results("compute")) == ITEMS)
    stage.check("letter 21 was in doubt", holds=sent[0] == "found in the outbox: item-21")
    stage.check("50 letters are confirmed", holds=sorted(stage.results("send")) == ITEMS)
    letters = (stage.folder / "outbox.txt").read_text().split()
    stage.check("50 letters in the outbox, each once", holds=letters == ITEMS)
    return "killed at item-20 and letter 21, resumed at item-21, effects done once (50 letters)"


if __name__ == "__main__":
    play({"compute": compute_all, "send": send_all}, story)
