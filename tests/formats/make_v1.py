"""Make the golden workspace of format 1; clock and ids are the same every time.

What is in `v1/` was written by release 0.1.0 and stays as it is: this is kept to show how it came
about, and refuses to write over it. `python tests/formats/make_v1.py FOLDER` makes another one.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from holdfast_storage.core import strict_json, view
from holdfast_storage.core.limits import Settings
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.readme import README
from holdfast_storage.workspace import Workspace

ODD = "Übersicht: Q1/Q2"
_EDITED_AT_NS = 1_772_355_600_000_000_000


class FixedDisk(Disk):
    """A disk of one machine, started once, whose random words are not random."""

    words = count(1)

    def random_hex(self, count: int = 8) -> str:
        return sha256(f"word {next(self.words)}".encode()).hexdigest()[: 2 * count]

    def boot_id(self) -> str:
        return "11111111-2222-3333-4444-555555555555"


class _Surroundings:
    """A clock that stands still until it is moved, and ids in a row."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
        self._ids = count(1)

    def clock(self) -> datetime:
        return self.now

    def new_id(self) -> str:
        return sha256(f"id {next(self._ids)}".encode()).hexdigest()[:20]

    def open(self, root: Path) -> Workspace:
        engine = FolderEngine.open(
            root,
            schema=strict_json.pretty(view.schema()),
            readme=README,
            settings=asdict(Settings()),
            disk=FixedDisk(),
        )
        return Workspace(engine, by="python@golden", clock=self.clock, new_id=self.new_id)


async def make(root: Path) -> None:
    """Fill a workspace with one of everything."""
    there = _Surroundings()
    await _first_run(there, root)
    await _second_run(there, root)
    await _odd_task(there, root)
    for left in (root / ".alive").glob("*"):
        left.unlink()


async def _first_run(there: _Surroundings, root: Path) -> None:
    async with there.open(root) as workspace:
        ann = workspace.caller("ann@golden")
        plan = ["doc-001", "doc-002", "doc-003"]
        state: dict[str, Any] = {"model": "small", "totals": {"pages": 0}, "names": []}
        await ann.save(
            *("ingest", state),
            goal="Summarise all contracts.",
            next="doc-001",
            plan=plan,
            total=3,
            refs=["https://example.com/contracts"],
        )
        for number, step in enumerate(plan, start=1):
            there.now += timedelta(minutes=1)
            await ann.mark("ingest", step, {"pages": number}, append={"names": [step]})
            await ann.save("ingest", {"totals": {"pages": number}}, label=f"after {step}")
        await ann.finish("ingest", summary="All three.")


async def _second_run(there: _Surroundings, root: Path) -> None:
    there.now += timedelta(hours=1)
    async with there.open(root) as workspace:
        bob = workspace.caller("bob@golden")
        await bob.load("ingest")
        await bob.save(
            *("ingest", {"ceo": "Ada", "big": 2**70, "text": "ä ☃ \u0000 \U0001f600"}),
            goal="Again, with annexes.",
            plan=["pay", "send", "check"],
            milestone=True,
            label="Second start",
        )
        await bob.mark("ingest", "check", ["fine", 1.5, None, True])
        await workspace.render("ingest")
        _edit(root / "tasks" / "ingest" / "state.json")
        await bob.load("ingest")
        await bob.save("ingest", {"ceo": None, "pages": 7}, next="pay")
        await bob.ask("ingest", "Pay it?", ["yes", "no"], step="pay")
        await bob.begin("ingest", "pay")
        # This one leans on another, which goes: it is written anew, in full.
        await workspace.pin("ingest", 3, by="human:zoe")
        await workspace.prune("ingest", keep_last=2, older_than_hours=0, by="human:zoe")


def _edit(path: Path) -> None:
    """Do what a person does with an editor."""
    document = json.loads(path.read_bytes())
    document["state"]["ceo"] = "Bea"
    document["plan"]["send"] = "skipped"
    document["note"] = "kept though nobody knows it"
    path.write_bytes(json.dumps(document, indent=4, ensure_ascii=False).encode())
    os.utime(path, ns=(_EDITED_AT_NS, _EDITED_AT_NS))


async def _odd_task(there: _Surroundings, root: Path) -> None:
    async with there.open(root) as workspace:
        task = workspace.task(ODD)
        await task.save({"n": 1})
        await task.failed("erster Schritt", "timeout")
        await task.finish("paused")


async def expected(root: Path) -> dict[str, Any]:
    """Say what a reader of any later release must find."""
    async with _Surroundings().open(root) as workspace:
        listed = {
            task: await workspace.caller("eve").list_checkpoints(task) for task in ("ingest", ODD)
        }
        return {
            task: {
                "brief": (await workspace.caller("eve").load(task)).model_dump(
                    mode="json", by_alias=True, exclude={"hint", "warnings"}
                ),
                "checkpoints": {
                    str(line.checkpoint): await workspace.state_at(task, line.checkpoint)
                    if line.available
                    else None
                    for line in listing.checkpoints
                },
                "steps": {
                    line.step: [line.status, line.result]
                    for line in (
                        await workspace.caller("eve").list_checkpoints(task, show="steps")
                    ).steps
                },
                "events": [
                    [event.seq, event.op, event.by]
                    for event in (
                        await workspace.caller("eve").list_checkpoints(task, show="events")
                    ).events
                ],
            }
            for task, listing in listed.items()
        }


def main(target: Path) -> None:
    """Make the workspace and what is expected of it in a new folder."""
    target.mkdir(parents=True)
    root = target / "workspace"
    asyncio.run(make(root))
    # A workspace tells git to ignore it; this one is to be kept.
    (root / ".gitignore").rename(root / "gitignore")
    told = asyncio.run(_told(root, target))
    (target / "expected.json").write_text(json.dumps(told, indent=1) + "\n")


async def _told(root: Path, target: Path) -> dict[str, Any]:
    """Look at a copy: looking leaves traces."""
    copy = target / "copy"
    shutil.copytree(root, copy)
    try:
        return await expected(copy)
    finally:
        shutil.rmtree(copy)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "v1")
