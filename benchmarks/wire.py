"""What Holdfast adds to the protocol: a step's round trip, and the time to the first answer.

Both are ratios within one run, because machines are noisy. A step over stdio is compared with a tool
that does nothing on the same front end plus one probe (an append of 300 bytes and a flush), with the
SDK's own client as a Python agent would use it, and with a client that does nothing but write and read
lines, so that only the server is seen. The first answer is compared, in CPU time, with a bare server of
the SDK, in interleaved pairs.

    python -m benchmarks.wire            1,000 steps, 15 pairs of starts
    python -m benchmarks.wire --quick    200 steps, 5 pairs
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp import Client as SdkClient
from mcp import StdioServerParameters

from benchmarks.step_cost import RESULT, Probe

HERE = Path(__file__).parent
NOTHING = [sys.executable, str(HERE / "nothing_server.py")]
BARE = [*NOTHING, "bare"]


def holdfast(folder: Path) -> list[str]:
    """Give the command that serves a workspace."""
    workspace = str(folder / ".holdfast")
    command = [sys.executable, "-m", "holdfast_server", "serve", "--workspace", workspace]
    return [*command, "--log", "error"]


class Client:
    """The least a client can be: lines out, lines in."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._last_id = 0
        hello: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
        self._ask("initialize", hello | {"clientInfo": {"name": "benchmark", "version": "1"}})
        self._write({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> None:
        """Call a tool and wait for its answer."""
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if answer.get("isError"):
            raise SystemExit(answer)

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last_id += 1
        self._write({"id": self._last_id, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._last_id:
                result: dict[str, Any] = answer["result"]
                return result

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def cpu_seconds(self) -> float:
        """Give the CPU time that the server has used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Hang up and wait for the server to end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def timed(call: Any, *arguments: Any, **named: Any) -> float:
    """Time one call."""
    began = time.perf_counter()
    call(*arguments, **named)
    return time.perf_counter() - began


async def round_trips(count: int, folder: Path) -> float:
    """Give the median step in (median nothing plus median probe), as the SDK's client sees it."""
    probe = Probe(folder)
    nothings: list[float] = []
    probes: list[float] = []
    steps: list[float] = []
    async with SdkClient(_server(NOTHING)) as nothing, SdkClient(_server(holdfast(folder))) as ours:
        for number in range(count):
            began = time.perf_counter()
            await nothing.call_tool("nothing", {})
            nothings.append(time.perf_counter() - began)
            probes.append(probe.seconds())
            step = {"task": "t", "step": f"step-{number}", "result": RESULT}
            began = time.perf_counter()
            await ours.call_tool("mark_step_done", step)
            steps.append(time.perf_counter() - began)
    return statistics.median(steps) / (statistics.median(nothings) + statistics.median(probes))


def _server(command: Sequence[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=list(command[1:]))


def server_alone(count: int, folder: Path) -> float:
    """Give the same ratio, as a client sees it that costs nothing itself."""
    nothing, ours, probe = Client(NOTHING), Client(holdfast(folder)), Probe(folder)
    nothings: list[float] = []
    probes: list[float] = []
    steps: list[float] = []
    for number in range(count):
        nothings.append(timed(nothing.call, "nothing"))
        probes.append(probe.seconds())
        name = f"step-{number}"
        steps.append(timed(ours.call, "mark_step_done", task="t", step=name, result=RESULT))
    nothing.close()
    ours.close()
    limit = statistics.median(nothings) + statistics.median(probes)
    return statistics.median(steps) / limit


def first_answers(pairs: int, folder: Path) -> float:
    """Give the median CPU time to the first answer over that of a bare server."""
    bare: list[float] = []
    ours: list[float] = []
    for number in range(pairs):
        client = Client(BARE)
        client.call("nothing")
        bare.append(client.cpu_seconds())
        client.close()
        client = Client(holdfast(folder / str(number)))
        client.call("load_checkpoint", task="t")
        ours.append(client.cpu_seconds())
        client.close()
    return statistics.median(ours) / statistics.median(bare)


def main() -> int:
    """Print both ratios; fail if one is over its target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        count = 200 if options.quick else 1000
        trip = asyncio.run(round_trips(count, Path(folder) / "client"))
        alone = server_alone(count, Path(folder) / "alone")
        start = first_answers(5 if options.quick else 15, Path(folder))
    print(
        f"step over stdio against a tool that does nothing plus a probe: {trip:.2f} (at most 1.3)"
    )
    print(f"the same for the server alone: {alone:.2f}")
    print(f"CPU time to the first answer against a bare server: {start:.2f} (at most 1.15)")
    return 0 if trip <= 1.3 and start <= 1.15 else 1


if __name__ == "__main__":
    raise SystemExit(main())
