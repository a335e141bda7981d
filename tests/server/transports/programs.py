"""Servers as processes of their own, and clients that see every byte."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Message = dict[str, Any]

PATIENCE = 20.0

CLIENT = {"name": "tester", "version": "1"}
INITIALIZE: Message = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
}
INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ENVELOPE: Message = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
DISCOVER: Message = {
    "jsonrpc": "2.0",
    "id": "who",
    "method": "server/discover",
    "params": {"_meta": ENVELOPE},
}


def call(number: int | str, tool: str, modern: bool = False, **arguments: Any) -> Message:
    """Write a tool call in either generation of the protocol."""
    params: Message = {"name": tool, "arguments": arguments}
    if modern:
        params["_meta"] = ENVELOPE
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Process:
    """One server that runs; ended by its own id when the test is over."""

    def __init__(self, asker: socket.socket, log: Path) -> None:
        self._asker, self.log = asker, log
        self._told = asker.makefile("r")
        self.pid = int(self._told.readline())
        self._code: int | None = None

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Give the exit status; fail where the process is still there."""
        if self._code is None:
            ready, _, _ = select.select([self._asker], [], [], seconds)
            assert ready, f"still running after {seconds} s; its log:\n{self.log.read_text()}"
            self._code = int(self._told.readline())
        return self._code

    def end(self) -> None:
        if self._code is None:
            ready, _, _ = select.select([self._asker], [], [], 0)
            if not ready:
                os.kill(self.pid, signal.SIGKILL)
            self._code = int(self._told.readline() or -9)
        self._told.close()
        self._asker.close()

    def events(self) -> list[Message]:
        return [json.loads(each) for each in self.log.read_text().splitlines()]

    def event(self, name: str) -> Message:
        """Wait for something to be logged."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for found in self.log.read_text().splitlines(keepends=True):
                if found.endswith("\n") and json.loads(found).get("event") == name:
                    told: Message = json.loads(found)
                    return told
            time.sleep(0.01)
        raise AssertionError(f"no {name} in the log:\n{self.log.read_text()}")

    def memory(self) -> int:
        """Give the most memory it ever had, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        [peak] = [each for each in status.splitlines() if each.startswith("VmHWM")]
        return int(peak.split()[1]) * 1024


class Pipes(Process):
    """A server on stdin and stdout, with the other ends in our hands."""

    def __init__(self, asker: socket.socket, log: Path, to: int, back: int) -> None:
        super().__init__(asker, log)
        self.to, self.back = to, back
        self._rest = b""

    def write(self, raw: bytes) -> None:
        """Write everything, and read meanwhile, as a good client does."""
        os.set_blocking(self.to, False)
        left = memoryview(raw)
        until = time.monotonic() + PATIENCE
        while left:
            assert time.monotonic() < until, "the server takes no more"
            _, ready, _ = select.select([], [self.to], [], 0.1)
            if ready:
                left = left[os.write(self.to, left[: 2**16]) :]
            self._read_some(0)

    def send(self, *messages: Message) -> None:
        self.write(b"".join(map(line, messages)))

    def hello(self) -> Message:
        self.send(INITIALIZE, INITIALIZED)
        return self.answer("hello")

    def _read_some(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.back], [], [], seconds)
        chunk = os.read(self.back, 2**20) if ready else b""
        self._rest += chunk
        return bool(chunk)

    def receive(self, seconds: float = PATIENCE) -> Message:
        """Give the next message; every line must be one."""
        until = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not self._read_some(max(0.0, until - time.monotonic())):
                raise AssertionError(f"no answer; the log:\n{self.log.read_text()[-3000:]}")
        first, _, self._rest = self._rest.partition(b"\n")
        message: Message = json.loads(first)
        assert message["jsonrpc"] == "2.0"
        return message

    def answer(self, number: int | str | None) -> Message:
        """Give the answer to one request, passing over everything before it."""
        while True:
            message = self.receive()
            if "method" not in message and message["id"] == number:
                return message

    def rest(self) -> list[Message]:
        """Give everything that still comes until the server closes its end."""
        until = time.monotonic() + PATIENCE
        os.set_blocking(self.back, True)
        pieces = [self._rest]
        while chunk := self._chunk(until):
            pieces.append(chunk)
        return [json.loads(each) for each in b"".join(pieces).splitlines()]

    def _chunk(self, until: float) -> bytes:
        ready, _, _ = select.select([self.back], [], [], max(0.0, until - time.monotonic()))
        assert ready, f"the server neither answers nor ends:\n{self.log.read_text()[-3000:]}"
        return os.read(self.back, 2**20)

    def call(self, tool: str, **arguments: Any) -> Message:
        """Call a tool and give what it answers, refusals included."""
        self.send(call("only", tool, **arguments))
        result: Message = self.answer("only")["result"]
        return result

    def told(self, tool: str, **arguments: Any) -> Message:
        result = self.call(tool, **arguments)
        assert not result.get("isError"), result
        structured: Message = result["structuredContent"]
        return structured

    def close_input(self) -> None:
        if self.to >= 0:
            os.close(self.to)
            self.to = -1

    def close_output(self) -> None:
        if self.back >= 0:
            os.close(self.back)
            self.back = -1

    def end(self) -> None:
        self.close_input()
        self.close_output()
        super().end()


class Starter:
    """Starts servers for one test, in a folder of its own."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self.folder = address, folder
        self.workspace = folder / ".holdfast"
        self.tokens = folder / "tokens.json"
        self._started: list[Process] = []

    def start(
        self,
        *arguments: str,
        files: Mapping[int, int] | None = None,
        before: str = "",
        make: Callable[[socket.socket, Path], Process] = Process,
    ) -> Process:
        """Run `holdfast` with these arguments on these descriptors."""
        log = self.folder / f"log-{len(self._started)}.jsonl"
        stderr = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDWR)
        descriptors = [nothing, nothing, stderr]
        for number, descriptor in (files or {}).items():
            descriptors[number] = descriptor
        asked = {
            "arguments": arguments,
            "folder": str(self.folder),
            "environment": {"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            "before": before,
        }
        asker = socket.socket(socket.AF_UNIX)
        asker.connect(self._address)
        socket.send_fds(asker, [json.dumps(asked).encode()], descriptors)
        process = make(asker, log)
        os.close(stderr)
        os.close(nothing)
        self._started.append(process)
        return process

    def stdio(self, *more: str, before: str = "") -> Pipes:
        """Serve this test's workspace over two real pipes."""
        (inside_in, to), (back, inside_out) = os.pipe(), os.pipe()
        process = self.start(
            *("serve", "--workspace", str(self.workspace), *more),
            files={0: inside_in, 1: inside_out},
            before=before,
            make=lambda asker, log: Pipes(asker, log, to, back),
        )
        os.close(inside_in)
        os.close(inside_out)
        assert isinstance(process, Pipes)
        return process

    def http(self, *more: str, bind: str = "127.0.0.1:0") -> tuple[Process, int]:
        """Serve this test's workspace over HTTP and give the port."""
        process = self.start(
            *("serve", "--workspace", str(self.workspace), "--http", bind),
            *("--tokens", str(self.tokens), *more),
        )
        port: int = process.event("serving")["port"]
        return process, port

    def end(self) -> None:
        for process in self._started:
            process.end()
