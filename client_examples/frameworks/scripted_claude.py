"""A server that answers as Anthropic's Messages API would, with what the scripted model decides."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scripted_model import FINISHED, Call, next_call

# Claude Code names a tool by its server: mcp__holdfast__load_checkpoint.
_OFFICE = ("send_invoice", "look_into_outbox")
_WAIT = "WaitForMcpServers"


@contextmanager
def serving() -> Generator[str]:
    """Serve on a free port of this machine; gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "count_tokens" in self.path:
            return self._send("application/json", json.dumps({"input_tokens": 1}))
        block = _answer(request)
        if request.get("stream"):
            return self._send("text/event-stream", "".join(_events(block)))
        return self._send("application/json", json.dumps(_message([block])))

    def do_HEAD(self) -> None:
        self._send("text/plain", "")

    def _send(self, kind: str, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    tools = [each["name"] for each in request.get("tools", ())]
    if not tools:
        # Claude Code asks for other things too, such as a title for the conversation.
        return {"type": "text", "text": "Invoices"}
    blocks = [
        block
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    calls = _calls(blocks)
    call = next_call(calls)
    if call is None:
        return {"type": "text", "text": FINISHED}
    server = "office" if call.tool in _OFFICE else "holdfast"
    name, arguments = f"mcp__{server}__{call.tool}", call.arguments
    if name not in tools and _WAIT in tools:
        # The servers are still starting.
        name, arguments = _WAIT, {}
    number = sum(block["type"] == "tool_use" for block in blocks)
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}


def _calls(blocks: list[dict[str, Any]]) -> list[Call]:
    answers = {
        block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"
    }
    return [
        Call(block["name"].split("__")[-1], block["input"], answers[block["id"]])
        for block in blocks
        if block["type"] == "tool_use" and block["name"] != _WAIT
    ]


def _message(content: list[dict[str, Any]]) -> dict[str, Any]:
    ends = "tool_use" if content and content[0]["type"] == "tool_use" else "end_turn"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": ends if content else None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _events(block: dict[str, Any]) -> Iterator[str]:
    """Give one block as the stream of events in which the API sends it."""
    if block["type"] == "text":
        begun, part = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        said = json.dumps(block["input"])
        begun, part = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": said}
    ends = {"stop_reason": _message([block])["stop_reason"], "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": _message([])},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": part},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ends, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    for event in events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
