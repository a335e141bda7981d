"""A model that follows a script, on loopback, in the dialect of whichever client asks.

`python scripted_model.py LOG CALL…` prints its port and serves until it is killed. Each CALL is one of
our tools with its arguments, as JSON. They are made one after the other, as soon as the client offers
the tool; then the model says that it is done. Every request is kept in LOG, one line each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

Json = dict[str, Any]
Looking = tuple[str, Json] | None
DONE = "The script ends here."
# Clients connect their servers while the model works already: it looks until the tool is there.
_MOST_LOOKS = 100


class Dialect(Protocol):
    """How one provider's API puts it."""

    # What to call while one of our tools is missing.
    looking: Looking

    def said(self, request: Json) -> list[Json]:
        """Give the conversation so far."""
        ...

    def tools(self, request: Json) -> list[str]:
        """Give the names of the tools that are offered."""
        ...

    def call(self, number: str, tool: str, arguments: Json) -> Iterator[Json]:
        """Call a tool."""
        ...

    def text(self, text: str) -> Iterator[Json]:
        """Say something."""
        ...


class Messages:
    """Anthropic's API, as Claude Code speaks it."""

    looking: Looking = ("ToolSearch", {"query": "+holdfast checkpoint", "max_results": 20})

    def said(self, request: Json) -> list[Json]:
        told: list[Json] = request["messages"]
        return told

    def tools(self, request: Json) -> list[str]:
        return [tool["name"] for tool in request.get("tools", [])]

    def call(self, number: str, tool: str, arguments: Json) -> Iterator[Json]:
        block: Json = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        return self._message(block, delta, "tool_use")

    def text(self, text: str) -> Iterator[Json]:
        delta = {"type": "text_delta", "text": text}
        return self._message({"type": "text", "text": ""}, delta, "end_turn")

    def _message(self, block: Json, delta: Json, reason: str) -> Iterator[Json]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        kind = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted"}
        opened: Json = {**kind, "content": [], "stop_reason": None, "usage": usage}
        yield {"type": "message_start", "message": opened}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
        yield {"type": "message_stop"}


class Responses:
    """OpenAI's API, as Codex speaks it: tools of a server are a namespace."""

    looking: Looking = ("list_mcp_resources", {})

    def said(self, request: Json) -> list[Json]:
        told: list[Json] = request["input"]
        return told

    def tools(self, request: Json) -> list[str]:
        offered: list[Json] = request.get("tools", [])
        inside = [
            f"{each['name']}.{tool['name']}" for each in offered for tool in each.get("tools", [])
        ]
        return [*(each.get("name", "") for each in offered), *inside]

    def call(self, number: str, tool: str, arguments: Json) -> Iterator[Json]:
        namespace, _, name = tool.rpartition(".")
        item = {"type": "function_call", "call_id": number, "name": name}
        within = {"namespace": namespace} if namespace else {}
        return self._response({**item, **within, "arguments": json.dumps(arguments)})

    def text(self, text: str) -> Iterator[Json]:
        content = [{"type": "output_text", "text": text}]
        return self._response({"type": "message", "role": "assistant", "content": content})

    def _response(self, item: Json) -> Iterator[Json]:
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        yield {"type": "response.created", "response": {"id": "r1"}}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": {"id": "r1", "usage": usage}}


class Contents:
    """Google's API, as Gemini CLI speaks it: it waits for its servers before it asks."""

    looking: Looking = None

    def said(self, request: Json) -> list[Json]:
        told: list[Json] = request["contents"]
        return told

    def tools(self, request: Json) -> list[str]:
        offered: list[Json] = request.get("tools", [])
        return [tool["name"] for each in offered for tool in each.get("functionDeclarations", [])]

    def call(self, number: str, tool: str, arguments: Json) -> Iterator[Json]:
        return self._content({"functionCall": {"id": number, "name": tool, "args": arguments}})

    def text(self, text: str) -> Iterator[Json]:
        return self._content({"text": text})

    def _content(self, part: Json) -> Iterator[Json]:
        content = {"role": "model", "parts": [part]}
        yield {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


def dialect_of(path: str) -> Dialect:
    if "/messages" in path:
        return Messages()
    return Responses() if "/responses" in path else Contents()


def answer(dialect: Dialect, request: Json, calls: list[Json]) -> Iterator[Json]:
    """Make the first call that has not been made; look for its tool, if it is not there yet."""
    said = json.dumps(dialect.said(request))
    offered = dialect.tools(request)
    for number, call in enumerate(calls):
        if f'call{number}"' in said or not offered:
            continue
        if names := [name for name in offered if name.endswith(call["tool"])]:
            return dialect.call(f"call{number}", names[0], call["arguments"])
        looked = said.count('look"')
        if dialect.looking and looked < _MOST_LOOKS:
            return dialect.call(f"{looked}look", *dialect.looking)
    return dialect.text(DONE)


def serve(log: Path, calls: list[Json]) -> None:
    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            dialect = dialect_of(self.path)
            with log.open("a") as kept:
                kept.write(json.dumps(dialect.said(request)) + "\n")
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for event in answer(dialect, request, calls):
                kind = f"event: {event['type']}\n" if "type" in event else ""
                self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), [json.loads(call) for call in sys.argv[2:]])
