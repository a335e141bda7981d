"""Answer plain tool calls on a short way, past what the SDK does a second and a third time.

Between the wire and a tool the SDK checks a call twice, and an answer once more on its way back: a
fifth of a round trip that does nothing. Our tools check their arguments themselves, and what they
answer is plain JSON already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import InputRequiredResult, JSONRPCRequest, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast_server.observe import is_traced
from holdfast_server.tools.served import ServedTool
from holdfast_storage.core.strict_json import encode, is_object

Envelope = dict[str, Any]

_ANSWER = frozenset({"content", "structuredContent", "isError"})
_CALL = frozenset({"name", "arguments"})
_PLAIN = _CALL | {"_meta"}


class Shortcut:
    """Takes the calls of connections that had one answered by the SDK.

    That first answer shows that the connection was opened as it should be, and what its generation of
    the protocol puts around an answer. Where there are no connections to be opened, because each
    request says everything itself and is checked before it comes here, it is the first of all.
    """

    def __init__(self, tools: Iterable[ServedTool]) -> None:
        self._tools = {tool.name: tool for tool in tools if not tool.may_ask_the_client}
        self._by_connection: WeakKeyDictionary[Any, Envelope] = WeakKeyDictionary()
        self._by_version: dict[Any, Envelope] = {}
        self._direct: Direct | None = None

    def directly(self) -> Direct:
        """Begin to serve the one connection of a process; what it needs is learnt from its calls."""
        self._direct = Direct(self._tools)
        return self._direct

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer a plain call of one of our tools; everything else takes its usual way."""
        params = ctx.params
        if ctx.method != "tools/call" or params is None or not _PLAIN.issuperset(params):
            return await call_next(ctx)
        name, arguments = params.get("name"), params.get("arguments")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None or not is_object(arguments):
            return await call_next(ctx)
        known, key = self._envelopes(ctx)
        envelope = known.get(key)
        if envelope is None:
            answer = await call_next(ctx)
            if is_object(answer):
                known[key] = envelope = _without(answer, _ANSWER)
                if self._direct is not None and not is_traced():
                    self._direct.known = Known(_without(params, _CALL), ctx, envelope)
            return answer
        reply = await tool.reply(arguments, ctx)
        assert not isinstance(reply, InputRequiredResult)
        return envelope | reply.on_the_wire()

    def _envelopes(
        self, ctx: ServerRequestContext[Any, Any]
    ) -> tuple[MutableMapping[Any, Envelope], Any]:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self._by_version, ctx.protocol_version
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]
        return self._by_connection, connection


@dataclass(frozen=True, slots=True)
class Known:
    """A call that the SDK answered: what was around it, and around its answer."""

    around: dict[str, Any]
    context: ServerRequestContext[Any, Any]
    envelope: Envelope


class Direct:
    """Answers plain calls before they come to the SDK at all, which is half of a round trip.

    Only those that are, name and arguments apart, word for word as one that the SDK has answered on
    this connection. So it was opened as it should be, its generation of the protocol is known, and
    nothing is asked for but the answer. Where requests are traced none is.
    """

    def __init__(self, tools: Mapping[str, ServedTool]) -> None:
        self._tools = tools
        self.known: Known | None = None

    def __call__(self, request: JSONRPCRequest) -> Callable[[], Awaitable[bytes]] | None:
        """Give what answers a request with a line; nothing if that is for the SDK to do."""
        known, params = self.known, request.params
        if known is None or params is None or request.method != "tools/call":
            return None
        name, arguments = params.get("name"), params.get("arguments")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None or not is_object(arguments) or _without(params, _CALL) != known.around:
            return None
        return partial(_line, tool, arguments, known, request.id)


async def _line(
    tool: ServedTool, arguments: dict[str, Any], known: Known, request_id: RequestId
) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
    try:
        reply = await tool.reply(arguments, known.context)
    except MCPError as error:
        message["error"] = error.error.model_dump(mode="json", by_alias=True, exclude_unset=True)
    else:
        assert not isinstance(reply, InputRequiredResult)
        message["result"] = known.envelope | reply.on_the_wire()
    return encode(message) + b"\n"


def _without(given: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in names}
