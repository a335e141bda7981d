"""Kill a program in the middle of its work, start it again, and see that nothing is lost or repeated.

The first part of this file is all that a program needs. The rest starts that program as a process
of its own, kills it where it hurts, and checks what is left.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from holdfast_storage import InDoubt, Workspace

ITEMS = [f"item-{number:02d}" for number in range(1, 51)]


# --- the program ------------------------------------------------------------------------------


async def compute_all(folder: Path) -> None:
    """Work that may be repeated: mark each step when it is done."""
    async with Workspace.open(folder / ".holdfast") as workspace:
        task = workspace.task("compute")
        async for item in task.remaining(ITEMS):
            await task.done(item, result=len(item) * int(item[-2:]))
            tell("done", item)
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
                    tell("sent", item)
                    await task.done(item)
                    tell("done", item)
                break
            except InDoubt as doubt:
                # It was begun and never confirmed. Look at the world, then say what you saw.
                happened = doubt.step in outbox.read_text().split()
                await workspace.resolve("send", doubt.step, happened=happened, by="send-program")
                tell("found in the outbox" if happened else "not in the outbox", doubt.step)
        await task.finish()


def tell(what: str, item: str) -> None:
    """Tell whoever started us, and wait for a word: so we can be killed at exactly this point."""
    print(f"{what}: {item}", flush=True)
    sys.stdin.readline()


# --- the demonstration ------------------------------------------------------------------------


def run(program: str, folder: Path, kill_at: str = "") -> list[str]:
    """Run a program of this file, kill it when it tells `kill_at`, and give what it told."""
    command = [sys.executable, __file__, program, str(folder)]
    told: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout
        for line in child.stdout:
            told.append(line.strip())
            show_progress(told)
            if told[-1] == kill_at:
                child.kill()  # SIGKILL: it cannot prepare for this
                break
            child.stdin.write("go on\n")
            child.stdin.flush()
    if child.returncode and not kill_at:
        sys.exit(f"{program} ended with {child.returncode}")
    ended = "was killed" if kill_at else "ended"
    say(f"{NEW_LINE}   it began with {told[0]!r} and {ended} after {told[-1]!r}")
    return told


async def results_of(folder: Path, task: str) -> list[str]:
    """Give the steps that are done, as the workspace tells them."""
    async with Workspace.open(folder / ".holdfast") as workspace:
        listing = await workspace.caller().list_checkpoints(
            task, show="steps", status="done", limit=200
        )
        return [line.step for line in listing.steps]


def demonstrate(folder: Path) -> bool:
    say("1. A program works through 50 items and is killed after item 20.")
    run("compute", folder, kill_at="done: item-20")
    say("   It is started again:")
    resumed = run("compute", folder)

    say("\n2. A program sends 50 letters and is killed when letter 21 is out, but not confirmed.")
    run("send", folder, kill_at="sent: item-21")
    say("   It is started again, finds letter 21 in doubt, looks into the outbox, and goes on:")
    settled = run("send", folder)

    show_folder(folder)

    say("\n4. Is everything there, and once?")
    computed = asyncio.run(results_of(folder, "compute"))
    confirmed = asyncio.run(results_of(folder, "send"))
    letters = (folder / "outbox.txt").read_text().split()
    return all(
        [
            check("the second start went on with item 21", resumed[0] == "done: item-21"),
            check("50 results, each once", Counter(computed) == Counter(ITEMS)),
            check("letter 21 was in doubt", settled[0] == "found in the outbox: item-21"),
            check("50 letters confirmed, each once", Counter(confirmed) == Counter(ITEMS)),
            check("50 letters in the outbox, each once", Counter(letters) == Counter(ITEMS)),
        ]
    )


# --- what people see --------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, flush=True)


def check(claim: str, holds: bool) -> bool:
    say(f"   {'yes' if holds else 'NO '}  {claim}")
    return holds


# Where somebody watches, a bar is drawn in place.
IS_WATCHED = sys.stdout.isatty()
NEW_LINE = "\n" if IS_WATCHED else ""


def show_progress(told: list[str]) -> None:
    if IS_WATCHED:
        done = ITEMS.index(told[-1][-7:]) + 1
        print(f"\r   [{'#' * done}{'.' * (50 - done)}] {told[-1]:<28}", end="", flush=True)


def show_folder(folder: Path) -> None:
    say("\n3. This lies in the folder:\n")
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "/.alive/" not in str(path):
            say(f"   {path.relative_to(folder)}  ({path.stat().st_size:,} bytes)")
    task = folder / ".holdfast" / "tasks" / "send"
    say("\n   The beginning of tasks/send/state.json, which you may edit:\n")
    for line in (task / "state.json").read_text().splitlines()[:12]:
        say(f"   {line}")
    say("\n   How letter 21 stands in its journal, which is the truth:\n")
    for segment in sorted((task / "journal").glob("*.jsonl")):
        for line in segment.read_text().splitlines():
            record = json.loads(line)
            if record.get("step") == "item-21":
                say(f"   {line}")


def main() -> int:
    if len(sys.argv) == 3:
        program = {"compute": compute_all, "send": send_all}[sys.argv[1]]
        asyncio.run(program(Path(sys.argv[2])))
        return 0
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        return 0 if demonstrate(Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
