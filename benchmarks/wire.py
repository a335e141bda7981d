"""What Holdfast adds to the protocol: each tool's round trip, the time to the first answer, memory.

A step over stdio is compared with a tool that does nothing on the same front end plus one probe, with
the SDK's own client as a Python agent would use it, and with a client that costs next to nothing, so
that only the server is seen. The first answer is compared, in CPU time, with a bare server of the
SDK, in interleaved pairs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp import Client as SdkClient
from mcp import StdioServerParameters

from benchmarks.client import Client
from benchmarks.jobs import Figures, Setting, us
from benchmarks.probe import Probe, median, now, undisturbed
from benchmarks.store import RESULT

_HERE = Path(__file__).parent
_NOTHING = [sys.executable, str(_HERE / "nothing_server.py")]
_BARE = [*_NOTHING, "bare"]


def _holdfast(folder: Path) -> list[str]:
    workspace = str(folder / ".holdfast")
    command = [sys.executable, "-m", "holdfast_server", "serve", "--workspace", workspace]
    return [*command, "--log", "error"]


def wire(setting: Setting) -> Figures:
    """Measure the server over stdio."""
    count = 200 if setting.is_quick else 1_000
    return {
        "step": asyncio.run(_with_sdk_client(count, setting.folder / "sdk")),
        "step, server alone": _server_alone(count, setting.folder / "alone"),
        "tools": _each_tool(count // 10, setting.folder / "tools"),
        "first answer": _first_answers(5 if setting.is_quick else 15, setting.folder / "first"),
    }


async def _with_sdk_client(count: int, folder: Path) -> Figures:
    probe = Probe(folder)
    times: dict[str, list[float]] = {"nothing": [], "probe": [], "step": []}
    async with (
        SdkClient(_parameters(_NOTHING)) as nothing,
        SdkClient(_parameters(_holdfast(folder))) as ours,
    ):
        for number in range(count):
            began = now()
            await nothing.call_tool("nothing", {})
            times["nothing"].append(now() - began)
            times["probe"].append(probe.seconds())
            began = now()
            await ours.call_tool("mark_step_done", _step(number))
            times["step"].append(now() - began)
    return _compared(times)


def _parameters(command: Sequence[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=list(command[1:]))


def _step(number: int) -> dict[str, Any]:
    return {"task": "t", "step": f"step-{number}", "result": RESULT}


def _compared(times: dict[str, list[float]]) -> Figures:
    nothing, probe, step = (undisturbed(times[name]) for name in ("nothing", "probe", "step"))
    return {
        "nothing_us": us(nothing),
        "probe_us": us(probe),
        "us": us(step),
        "p50_us": us(median(times["step"])),
        "against_nothing_and_probe": round(step / (nothing + probe), 2),
    }


def _server_alone(count: int, folder: Path) -> Figures:
    nothing, ours, probe = Client(_NOTHING), Client(_holdfast(folder)), Probe(folder)
    times: dict[str, list[float]] = {"nothing": [], "probe": [], "step": []}
    for number in range(count):
        times["nothing"].append(_timed(nothing, "nothing"))
        times["probe"].append(probe.seconds())
        times["step"].append(_timed(ours, "mark_step_done", **_step(number)))
    memory = {"nothing_bytes": nothing.resident_bytes(), "bytes": ours.resident_bytes()}
    nothing.close()
    ours.close()
    return _compared(times) | memory


def _timed(client: Client, tool: str, **arguments: Any) -> float:
    began = now()
    client.call(tool, **arguments)
    return now() - began


def _each_tool(rounds: int, folder: Path) -> Figures:
    """Call every tool that an agent calls often, and give its round trip in those of nothing."""
    nothing, ours = Client(_NOTHING), Client(_holdfast(folder))
    calls: dict[str, dict[str, Any]] = {
        "save_checkpoint": {"task": "t"},
        "load_checkpoint": {"task": "t"},
        "begin_step": {"task": "t"},
        "mark_step_done": {"task": "t"},
        "list_checkpoints": {"task": "t"},
    }
    times: dict[str, list[float]] = {name: [] for name in ("nothing", *calls)}
    ours.call("load_checkpoint", task="t")
    for number in range(rounds):
        times["nothing"].append(_timed(nothing, "nothing"))
        more: dict[str, dict[str, Any]] = {
            "save_checkpoint": {"state": {"number": number}},
            "begin_step": {"step": f"s{number}"},
            "mark_step_done": {"step": f"s{number}", "result": RESULT},
        }
        for tool, arguments in calls.items():
            times[tool].append(_timed(ours, tool, **arguments, **more.get(tool, {})))
    nothing.close()
    ours.close()
    floor = undisturbed(times.pop("nothing"))
    return {
        tool: {"us": us(undisturbed(taken)), "in_nothings": round(undisturbed(taken) / floor, 2)}
        for tool, taken in times.items()
    }


def _first_answers(pairs: int, folder: Path) -> Figures:
    bare: list[float] = []
    ours: list[float] = []
    for number in range(pairs):
        client = Client(_BARE)
        client.call("nothing")
        bare.append(client.cpu_seconds())
        client.close()
        client = Client(_holdfast(folder / str(number)))
        client.call("load_checkpoint", task="t")
        ours.append(client.cpu_seconds())
        client.close()
    return {
        "bare_cpu_ms": round(median(bare) * 1000),
        "cpu_ms": round(median(ours) * 1000),
        "against_bare": round(median(ours) / median(bare), 2),
    }
