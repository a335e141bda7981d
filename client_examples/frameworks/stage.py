"""Start an example's agent as a process, kill it where it hurts, start it again, and check what is left.

Nothing in here is needed to use Holdfast, except that `holdfast serve` is on the path.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from scripted_model import CUSTOMERS

KILLED_AT = "sent customer-3"
RESUMED_AT = "found customer-3"

# Nothing here tells anybody anything, and nothing asks anybody: there is no network to do it.
QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "NO_PROXY": "127.0.0.1,localhost",
}


class Office:
    """Where invoices go out: the effect that must not happen twice, and the place to look."""

    def __init__(self, folder: Path) -> None:
        self._outbox = folder / "outbox.txt"

    def send_invoice(self, customer: str) -> str:
        """Send a customer the invoice of this month."""
        with self._outbox.open("a") as outbox:
            outbox.write(f"{customer}\n")
        tell(f"sent {customer}")
        return json.dumps({"sent": True})

    def look_into_outbox(self, customer: str) -> str:
        """Say whether a customer's invoice went out."""
        was_sent = customer in self._outbox.read_text().split()
        tell(f"{'found' if was_sent else 'did not find'} {customer}")
        return json.dumps({"sent": was_sent})


def tell(what: str) -> None:
    """Say where the agent is, and wait for a word: so it can be killed at exactly this point."""
    print(what, flush=True)
    sys.stdin.readline()


def play(agent: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    """Be the agent if a folder is given; otherwise tell its story and end with 1 if it is not true."""
    if len(sys.argv) > 1:
        asyncio.run(agent(Path(sys.argv[1])))
        return
    name = Path(sys.argv[0]).stem
    with tempfile.TemporaryDirectory(prefix=f"holdfast-{name}-") as place:
        folder = Path(place)
        first = _run(folder, kill_at=KILLED_AT)
        second = _run(folder)
        sent = Counter((folder / "outbox.txt").read_text().split())
    _check("it was killed when an invoice was out and not confirmed", first[-1] == KILLED_AT)
    _check("the next one looked before it did anything", second[:1] == [RESUMED_AT])
    _check("every customer got one invoice", sent == Counter(CUSTOMERS))
    print(
        f"{name}: killed at {KILLED_AT}, resumed at {RESUMED_AT}, effects done once ({len(sent)})"
    )


def _run(folder: Path, kill_at: str = "") -> list[str]:
    """Run the agent, kill it and its server when it tells `kill_at`, and give what it told."""
    told: list[str] = []
    path = os.pathsep.join([str(_holdfast_folder()), os.environ.get("PATH", "")])
    with subprocess.Popen(
        [sys.executable, sys.argv[0], str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **QUIET, "PATH": path},
        start_new_session=True,
    ) as child:
        assert child.stdin and child.stdout
        for line in child.stdout:
            told.append(line.strip())
            if told[-1] == kill_at:
                # The agent, its server and whatever else it started, all at once: as if the power failed.
                os.killpg(child.pid, signal.SIGKILL)
                break
            child.stdin.write("go on\n")
            child.stdin.flush()
    if child.returncode and not kill_at:
        sys.exit(f"the agent ended with {child.returncode}")
    print(f"  {', '.join(told)}{'  KILLED' if kill_at else ''}", flush=True)
    return told


def _holdfast_folder() -> Path:
    """Give where this repository's `holdfast` is installed; where there is none, the path decides."""
    return Path(__file__).parents[2] / ".venv" / "bin"


def _check(claim: str, holds: bool) -> None:
    print(f"  {'yes' if holds else 'NO'}: {claim}", flush=True)
    if not holds:
        sys.exit(1)
