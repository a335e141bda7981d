"""Answer plain tool calls on a short way, past what the SDK does a second and a third time.

Between the wire and a tool the SDK checks a call twice, and an answer once more on its way back: a
fifth of a round trip that does nothing. Our tools check their arguments themselves, and what they
answer is plain JSON already.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any
from weakref import WeakKeyDictionary

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.types import InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast_server.tools.served import ServedTool
from holdfast_storage.core.strict_json import is_object

Envelope = dict[str, Any]

_ANSWER = frozenset({"content", "structuredContent", "isError"})
_PLAIN = frozenset({"name", "arguments", "_meta"})


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
                known[key] = _around(answer)
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


def _around(answer: dict[str, Any]) -> Envelope:
    return {key: value for key, value in answer.items() if key not in _ANSWER}
