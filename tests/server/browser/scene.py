"""A workspace as people find it: agents at work, one that asks, one that crashed, one that is done."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast_storage import Workspace

REPORT = "supplier-audit"
INGEST = "ingest-200-contracts"
MAILS = "renewal-reminders"


class Clock:
    """Time that passes as the story is told, up to now."""

    def __init__(self, hours_ago: float) -> None:
        self._now = datetime.now(UTC) - timedelta(hours=hours_ago)

    def __call__(self) -> datetime:
        return self._now

    def pass_(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    def set(self, seconds_ago: float) -> None:
        self._now = datetime.now(UTC) - timedelta(seconds=seconds_ago)


@asynccontextmanager
async def played(root: Path) -> AsyncGenerator[Workspace]:
    """Play the story into a folder; while this lasts, its last agent is at work."""
    await _crashed(root)
    clock = Clock(1.1)
    async with Workspace.open(root, clock=clock) as workspace:
        await _small_ones(workspace, clock)
        await _audit(workspace, clock)
        await _ingest(workspace, clock)
        yield workspace


async def _crashed(root: Path) -> None:
    clock = Clock(1.4)
    async with Workspace.open(root, clock=clock) as workspace:
        agent = workspace.caller("codex@build-7")
        await agent.save(
            MAILS,
            {"tone": "friendly", "sent": 11},
            goal="Remind 24 customers whose contracts end in December; one mail each, never two.",
            next="customer-13",
            plan=[f"customer-{number:02d}" for number in range(1, 25)],
        )
        for number in range(1, 13):
            clock.pass_(41)
            step = f"customer-{number:02d}"
            begun = await agent.begin(MAILS, step)
            if number < 12:
                await agent.mark(MAILS, step, {"mail": f"<{number}@mail>"}, claim=begun.claim)
        # Its process ends here, between sending the twelfth mail and saying so.


async def _ingest(workspace: Workspace, clock: Clock) -> None:
    clock.set(seconds_ago=5190)
    agent = workspace.caller("claude-code@laptop")
    names = [f"doc-{number:03d}" for number in range(1, 201)]
    await agent.save(
        INGEST,
        {"model": "small", "language": "en", "totals": {"pages": 0, "clauses": 0}},
        goal="Summarise all 200 contracts into summary.csv; finished when every file has a row.",
        next="doc-001",
        plan=names,
        refs=["summary.csv"],
    )
    pages = 0
    for number, name in enumerate(names[:131], start=1):
        clock.pass_(28 if number % 17 else 240)
        pages += 6 + number % 11
        await agent.mark(INGEST, name, {"pages": 6 + number % 11, "row": number})
        if number % 30 == 0:
            await agent.save(
                INGEST,
                {"totals": {"pages": pages, "clauses": pages * 3}},
                label=f"{number} contracts",
                milestone=number % 60 == 0,
                next=f"doc-{number + 1:03d}, then the annexes",
            )
    await agent.save(
        INGEST,
        {
            "totals": {"pages": pages, "clauses": pages * 3},
            "findings": ["doc-017: no end date", "doc-088: two versions", "doc-104: unsigned"],
        },
        label="annexes found",
        next="doc-132, then the annexes",
    )
    await workspace.caller("claude-code@laptop").load(INGEST)
    clock.pass_(20)
    for name in names[131:133]:
        await agent.begin(INGEST, name)


async def _audit(workspace: Workspace, clock: Clock) -> None:
    agent = workspace.caller("gemini@research")
    await agent.save(
        REPORT,
        {
            "suppliers": {"Nordwind": {"risk": "low"}, "Okapi": {"risk": "unknown"}},
            "sources": ["company register", "press archive"],
        },
        goal="One page on each supplier: ownership, certificates, open lawsuits.",
        next="Okapi",
        plan=["nordwind", "okapi", "pelican", "quarz"],
    )
    clock.pass_(600)
    await agent.mark(
        REPORT, "nordwind", {"sources": 7, "page": "nordwind.md"}, refs=["nordwind.md"]
    )
    await agent.save(
        REPORT,
        {
            "suppliers": {
                "Nordwind": {"risk": "low", "owner": "Nordwind Holding AG"},
                "Okapi": {"risk": "high", "lawsuits": 2},
            },
            "sources": ["company register", "court records", "press archive"],
        },
        label="ownership found",
        milestone=True,
        next="ask about Okapi, then pelican",
    )
    clock.pass_(120)
    await agent.ask(
        REPORT,
        "Okapi has two open lawsuits. Include the sealed one, which only the press mentions?",
        ["include, marked as unconfirmed", "leave it out"],
        step="okapi",
    )


async def _small_ones(workspace: Workspace, clock: Clock) -> None:
    agent = workspace.caller("cursor@desk")
    await agent.save("translate-handbook", {"chapter": 9}, goal="The handbook in Spanish.")
    for chapter in range(1, 13):
        clock.pass_(30)
        await agent.mark("translate-handbook", f"chapter-{chapter:02d}", {"words": 900})
    await agent.finish("translate-handbook", summary="All twelve chapters, glossary included.")
    await agent.save(
        "nightly-benchmarks",
        {"runs": 3},
        goal="Compare the three builds every night.",
        next="build-c",
        plan=["build-a", "build-b", "build-c", "build-d"],
    )
    await agent.mark("nightly-benchmarks", "build-a", {"ms": 812})
    await agent.mark("nightly-benchmarks", "build-b", {"ms": 790})
    await workspace.pause("nightly-benchmarks", by="human:maria")
