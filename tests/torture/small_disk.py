"""A real disk filled to the brim, under the real engine with its threads: nothing acknowledged is lost.

    python -m tests.torture.small_disk --count 20 --seed 1

Needs to mount a tmpfs: as root, or in a mount namespace of its own (`unshare`). Where neither may be
done it says so, and that nothing was tried.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.torture.harness import Row, main

from holdfast_storage import Workspace
from holdfast_storage.core.errors import HoldfastError, NotSaved

_INSIDE = "HOLDFAST_SMALL_DISK"
_SIZES = (256 << 10, 512 << 10, 1 << 20)
_PAGE = 4096


def _mount(folder: Path, size: int) -> str:
    """Put a small disk there; answers why not, if not."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


def _fill(ballast: Path, leave: int) -> None:
    """Take all room but so many bytes."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(_PAGE))
    os.truncate(ballast, max(0, ballast.stat().st_size - leave))


async def _filled(folder: Path, random: Random) -> list[str]:
    """Work until the disk is full, make room, work on; answers what broke."""
    root, ballast = folder / "project" / ".holdfast", folder / "ballast"
    (folder / "project").mkdir(exist_ok=True)
    done: dict[str, int] = {}
    broken: list[str] = []
    async with Workspace.open(root, by="a") as workspace:
        ann = workspace.caller("ann")
        await ann.save("t", {"n": 0})
        _fill(ballast, random.randrange(8 * _PAGE))
        refused = 0
        for number in range(200):
            step = f"step-{number}"
            try:
                await ann.mark("t", step, {"n": number, "pad": "x" * random.randrange(3000)})
                done[step] = number
            except NotSaved as refusal:
                refused += 1
                if "NOT SAVED" not in str(refusal):
                    broken.append(f"the answer does not say NOT SAVED: {refusal}")
                if refused == 5:
                    break
            except HoldfastError as refusal:
                broken.append(f"{type(refusal).__name__}: {refusal}")
        if not refused:
            broken.append("the disk never got full, so nothing was tried")
        broken += await _missing(workspace, done, "while the disk is full")
        ballast.unlink()
        await ann.mark("t", "after", "room again")
        done["after"] = -1
    async with Workspace.open(root, by="b") as workspace:
        broken += await _missing(workspace, done, "when there is room again")
        broken += [f"check: {problem}" for problem in await workspace.check()]
    return broken


async def _missing(workspace: Workspace, done: dict[str, int], when: str) -> list[str]:
    listed: dict[str, str] = {}
    cursor = ""
    while True:
        page = await workspace.caller("reader").list_checkpoints(
            "t", show="steps", limit=100, cursor=cursor
        )
        listed |= {step.step: step.status for step in page.steps}
        cursor = page.cursor
        if not cursor:
            break
    return [f"{step} is lost {when}" for step in done if listed.get(step) != "done"]


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0


def tortured(seed: int, times: int) -> Row:
    """Fill a small disk so many times; in a namespace of its own where root is not ours."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        why_not = _mount(folder, _SIZES[0])
        if why_not and _INSIDE not in os.environ:
            return _in_namespace(seed, times, why_not)
        if why_not:
            return Row("full disk", 0, "disks filled", seed, (), f"skipped: {why_not}")
        subprocess.run(["umount", str(folder)], check=False)
        violations: list[str] = []
        before = _descriptors()
        for number in range(seed, seed + times):
            _mount(folder, _SIZES[number % len(_SIZES)])
            try:
                found = asyncio.run(_filled(folder, Random(number)))
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not happen
                found = [f"{type(error).__name__}: {error}"]
            violations += [f"seed {number}: {what}" for what in found]
            subprocess.run(["umount", str(folder)], check=False)
        if _descriptors() > before:
            violations.append(f"seed {seed}: {_descriptors() - before} descriptors are left open")
    return Row("full disk", times, "disks filled", seed, tuple(violations))


def _in_namespace(seed: int, times: int, why_not: str) -> Row:
    command = ["unshare", "--mount", "--map-root-user", sys.executable, "-m", __spec__.name]
    command += ["--count", str(times), "--seed", str(seed)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, _INSIDE: "1"},
        )
    except FileNotFoundError:
        return Row("full disk", 0, "disks filled", seed, (), f"skipped: {why_not}; no unshare")
    if done.returncode not in (0, 1) or "disks filled" not in done.stdout:
        remark = f"skipped: {why_not}; {done.stderr.strip()[-200:]}"
        return Row("full disk", 0, "disks filled", seed, (), remark)
    if "skipped" in done.stdout:
        return Row("full disk", 0, "disks filled", seed, (), f"skipped: {why_not}")
    violations = tuple(line for line in done.stdout.splitlines() if "BROKEN: " in line)
    return Row("full disk", times, "disks filled", seed, violations)


def short(seed: int) -> Row:
    """Give the short form."""
    return tortured(seed, 3)


if __name__ == "__main__":
    main(short, by_count=tortured)
