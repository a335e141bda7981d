"""Serve one client over stdin and stdout, so that no answer is lost and nothing stray is on the wire.

The SDK's own loop refuses `initialize` after `server/discover` (which clients send), drops answers at
the end of input, ignores Ctrl-C while idle, and costs three thread hops a message. This one drives
the SDK's public `Server.run` instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from holdfast_server.observe import event
from holdfast_storage.core.strict_json import is_object

_CHUNK = 2**16
_EDGE = 512
_WAITING_BYTES = 64 * 2**20
_AT_ONCE = 100
_DRAIN_SECONDS = 5.0
_STOP_SECONDS = 2.0


# --- bytes ------------------------------------------------------------------------------------


class Wire:
    """Two descriptors that bytes come and go by.

    Asyncio's pipes take no regular files and no /dev/null; reading and writing until it would block
    takes everything.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        # A terminal is shared with the shell, which gets it back as it was.
        self._blocking = {fd: os.get_blocking(fd) for fd in (source, sink)}
        for fd in self._blocking:
            os.set_blocking(fd, False)
        self._writing = asyncio.Lock()

    @classmethod
    def of_process(cls) -> Wire:
        """Take stdin and stdout away from everybody else: what is printed goes to stderr."""
        source, sink = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        return cls(source, sink)

    async def read(self) -> bytes:
        """Give what has come; nothing at all is the end."""
        # Input that is always there, like a file, must not keep everything else waiting.
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self._source, _CHUNK)
            except BlockingIOError:
                await _ready(loop.add_reader, loop.remove_reader, self._source)
            except OSError:
                # A terminal or socket whose other end is gone.
                return b""

    async def write(self, raw: bytes) -> None:
        """Hand everything over to the system, one message at a time."""
        loop = asyncio.get_running_loop()
        left = memoryview(raw)
        async with self._writing:
            while left:
                try:
                    left = left[os.write(self._sink, left) :]
                except BlockingIOError:
                    await _ready(loop.add_writer, loop.remove_writer, self._sink)

    def close(self) -> None:
        """Give the streams back."""
        for fd, was_blocking in self._blocking.items():
            os.set_blocking(fd, was_blocking)
            os.close(fd)


async def _ready(
    start: Callable[..., None], stop: Callable[[int], object], descriptor: int
) -> None:
    ready = asyncio.Event()
    start(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        stop(descriptor)


# --- lines ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line over the limit, of which only the two ends were kept."""

    head: bytes
    tail: bytes

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)


class _Line:
    """A line as its pieces come in."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size, self._pieces = limit, 0, list[bytes]()
        self._tail = b""

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._pieces.append(piece)
        else:
            self._pieces = [b"".join(self._pieces)[:_EDGE] or piece[:_EDGE]]
            self._tail = (self._tail + piece)[-_EDGE:]

    def whole(self) -> bytes | TooLong:
        joined = b"".join(self._pieces)
        return joined if self._size <= self._limit else TooLong(joined, self._tail)


async def lines(
    read: Callable[[], Awaitable[bytes]], limit: int
) -> AsyncGenerator[bytes | TooLong]:
    """Give the lines that are not blank; one over the limit is passed over without being kept."""
    line = _Line(limit)
    while chunk := await read():
        first, *more = chunk.split(b"\n")
        line.add(first)
        for piece in more:
            whole = line.whole()
            if isinstance(whole, TooLong) or whole.strip():
                yield whole
            line = _Line(limit)
            line.add(piece)
    whole = line.whole()
    if isinstance(whole, TooLong) or whole.strip():
        yield whole


class Moves:
    """Lets several wait until something holds; whoever moves anything says so."""

    def __init__(self) -> None:
        self._moved = asyncio.Event()

    def note(self) -> None:
        """Have everybody look again."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds."""
        while not holds():
            await self._moved.wait()


class Inbox:
    """Lines waiting for their turn, so many bytes at most: beyond that the client waits."""

    def __init__(self, limit: int, moves: Moves) -> None:
        self._limit, self._moves, self._size = limit, moves, 0
        self._lines: deque[bytes | TooLong] = deque()

    def __bool__(self) -> bool:
        return bool(self._lines)

    async def put(self, line: bytes | TooLong) -> None:
        """Lay a line in when there is room."""
        await self._moves.until(lambda: not self or self._size + len(line) <= self._limit)
        self._lines.append(line)
        self._size += len(line)
        self._moves.note()

    async def first(self) -> bytes | TooLong:
        """Give the line that came first; it stays until it is dropped."""
        await self._moves.until(lambda: bool(self))
        return self._lines[0]

    def drop(self) -> None:
        """Let go of the first line: it has been dealt with."""
        if self:
            self._size -= len(self._lines.popleft())
        self._moves.note()

    def clear(self) -> None:
        """Forget what nobody has begun to answer."""
        self._lines.clear()
        self._size = 0
        self._moves.note()


# --- messages ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a line that is no message."""

    error: JSONRPCError


def parsed(line: bytes | TooLong, limit: int) -> JSONRPCMessage | Refusal:
    """Read a message."""
    if isinstance(line, TooLong):
        why = f"the message is over {limit} bytes; keep large things in files and name them in refs"
        return Refusal(_error(_id_at_the_ends(line), INVALID_REQUEST, why))
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        request_id = _id_in(line)
        if any(found["type"] == "json_invalid" for found in error.errors(include_input=False)):
            return Refusal(_error(request_id, PARSE_ERROR, "this is not JSON"))
        return Refusal(_error(request_id, INVALID_REQUEST, "this is not a JSON-RPC message"))


def _error(request_id: RequestId | None, code: int, why: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=why))


def _id_in(line: bytes) -> RequestId | None:
    """Find the id of a message that was refused, so that its sender does not wait for ever."""
    try:
        # Laxer than what refused it: this takes lone surrogates, the likeliest cause.
        message: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = as_request_id(message.get("id")) if is_object(message) else None
    # One that cannot be written cannot be answered to.
    return found if not isinstance(found, str) or _is_text(found) else None


def _is_text(given: str) -> bool:
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


_ID = rb'"id"\s*:\s*(\d{1,18}|"[\w.:-]{1,128}")\s*'
_FIRST = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"]{0,128}"\s*,\s*)*' + _ID + rb",")
_LAST = re.compile(rb"[,{]\s*" + _ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


def _id_at_the_ends(line: TooLong) -> RequestId | None:
    """Find the id where clients write it: before the parameters, or after them."""
    found = _FIRST.match(line.head) or _LAST.search(line.tail)
    if found is None:
        return None
    text = found[1].decode()
    return text[1:-1] if text[0] == '"' else int(text)


# --- one client -------------------------------------------------------------------------------

_ToServer = MemoryObjectSendStream[SessionMessage | Exception]
_FromServer = MemoryObjectReceiveStream[SessionMessage]


class Connection:
    """One client from its first line to its last answer."""

    def __init__(self, wire: Wire, drain_seconds: float = _DRAIN_SECONDS) -> None:
        self._wire, self._drain_seconds = wire, drain_seconds
        self._moves = Moves()
        self._inbox = Inbox(_WAITING_BYTES, self._moves)
        # What the client asked and has no answer to; what we asked the client.
        self._pending: Counter[RequestId] = Counter()
        self._asked: set[RequestId] = set()
        self._answers = 0
        self._listening = anyio.CancelScope()
        self._everything = anyio.CancelScope()
        self._is_ending = False
        self._is_gone = False

    def stop(self) -> None:
        """Take no more and finish what is being done; asked twice, finish nothing."""
        if self._is_ending:
            self._everything.cancel()
        self._drain_seconds = min(self._drain_seconds, _STOP_SECONDS)
        self._hang_up()

    async def serve(self, server: Server[Any], line_limit: int) -> None:
        """Answer until the input ends, then finish what was accepted."""
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        options = server.create_initialization_options()
        with self._everything:
            async with anyio.create_task_group() as tasks, to_server:
                tasks.start_soon(server.run, from_client, to_client, options)
                tasks.start_soon(self._write, from_server, to_server)
                tasks.start_soon(self._feed, server, to_server, line_limit)
                with self._listening:
                    async for line in lines(self._wire.read, line_limit):
                        await self._inbox.put(line)
                self._is_ending = True
                for request_id in list(self._asked):
                    await self._answer_for_client(request_id, to_server)
                await self._finish()
                tasks.cancel_scope.cancel()

    def _hang_up(self) -> None:
        self._is_ending = True
        self._inbox.clear()
        self._listening.cancel()

    async def _finish(self) -> None:
        """Wait for the last answer, for as long as answers keep coming."""
        before = -1
        while (self._inbox or self._pending) and self._answers != before:
            before = self._answers
            with anyio.move_on_after(self._drain_seconds):
                await self._moves.until(lambda: not self._inbox and not self._pending)
        if self._pending:
            event("unanswered", requests=self._pending.total())

    # --- from the client ----------------------------------------------------------------------

    async def _feed(self, server: Server[Any], to_server: _ToServer, line_limit: int) -> None:
        is_decided = False
        while True:
            # Whoever waits for the client holds nobody up: its answer is still in the inbox.
            await self._moves.until(lambda: self._pending.total() - len(self._asked) < _AT_ONCE)
            message = parsed(await self._inbox.first(), line_limit)
            if isinstance(message, Refusal):
                await self._send(message.error)
            elif not is_decided and _is_discovery(message):
                # Which generation the client speaks is still open after this.
                await self._answer_alone(server, message)
            else:
                is_decided = is_decided or isinstance(message, JSONRPCRequest)
                await self._hand_over(message, to_server)
            self._inbox.drop()

    async def _hand_over(self, message: JSONRPCMessage, to_server: _ToServer) -> None:
        if isinstance(message, JSONRPCRequest) and message.method != "subscriptions/listen":
            self._pending[coerce_request_id(message.id)] += 1
        elif isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._asked.discard(coerce_request_id(message.id))
        await to_server.send(SessionMessage(message))
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            # A cancelled request is never answered.
            cancelled = as_request_id((message.params or {}).get("requestId"))
            if cancelled is not None:
                self._settle(cancelled)

    async def _answer_alone(self, server: Server[Any], message: JSONRPCMessage) -> None:
        """Have one request answered on a connection of its own."""
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](1)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](1)
        options = server.create_initialization_options()
        async with anyio.create_task_group() as tasks, to_server, from_server:
            tasks.start_soon(server.run, from_client, to_client, options)
            await to_server.send(SessionMessage(message))
            await self._send((await from_server.receive()).message)
            tasks.cancel_scope.cancel()

    # --- to the client ------------------------------------------------------------------------

    async def _write(self, from_server: _FromServer, to_server: _ToServer) -> None:
        async with from_server:
            async for sent in from_server:
                await self._send(sent.message)
                if isinstance(sent.message, JSONRPCRequest):
                    self._asked.add(coerce_request_id(sent.message.id))
                    if self._is_ending:
                        await self._answer_for_client(sent.message.id, to_server)
                elif isinstance(sent.message, JSONRPCResponse | JSONRPCError):
                    self._settle(sent.message.id)

    async def _answer_for_client(self, request_id: RequestId, to_server: _ToServer) -> None:
        """Tell whoever waits for the client that no answer will come."""
        await self._hand_over(_error(request_id, CONNECTION_CLOSED, "the client left"), to_server)

    async def _send(self, message: JSONRPCMessage) -> None:
        if self._is_gone:
            return
        raw = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            await self._wire.write(raw)
        except OSError:
            event("client_gone")
            self._is_gone = True
            self._hang_up()

    def _settle(self, request_id: RequestId | None) -> None:
        if request_id is not None:
            key = coerce_request_id(request_id)
            self._pending[key] -= 1
            if self._pending[key] <= 0:
                del self._pending[key]
        self._answers += 1
        self._moves.note()


def _is_discovery(message: JSONRPCMessage) -> bool:
    return isinstance(message, JSONRPCRequest) and message.method == "server/discover"
