"""What a client over HTTP can rely on, and who does not come in, over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import Receive, Scope, Send
from tests.server.transports.programs import ENVELOPE, INITIALIZE, Message, Starter, call
from tests.server.transports.test_stdio import EVERY_TOOL

from holdfast_server.http.guard import Guard, Rules
from holdfast_server.http.tokens import Tokens

BOTH = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
PROMPTLY = 3.0


def ask(
    port: int, method: str, path: str, *, body: bytes = b"", host: str = "", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Make one request, with exactly these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    connection.putheader("host", host or f"127.0.0.1:{port}")
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    if body:
        connection.putheader("content-length", str(len(body)))
    connection.endheaders()
    # It may be refused before it was read to the end.
    with suppress(BrokenPipeError):
        connection.send(body)
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer.status, answer.headers, read


def post(port: int, message: Message, **headers: str) -> tuple[int, http.client.HTTPMessage, Any]:
    """Send one message of the newest generation and give what comes back."""
    name = {"mcp_name": message["params"]["name"]} if message["method"] == "tools/call" else {}
    known = {
        "accept": BOTH["accept"],
        "content_type": BOTH["content-type"],
        "mcp_protocol_version": "2026-07-28",
        "mcp_method": message["method"],
    }
    status, said, raw = ask(
        port, "POST", "/mcp", body=json.dumps(message).encode(), **known, **name, **headers
    )
    data = re.findall(rb"^data: (.*)$", raw, re.MULTILINE)
    text = data[-1] if data else raw
    return status, said, json.loads(text) if text.startswith(b"{") else text


# --- the tools --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_every_tool_answers_in_both_generations(starter: Starter, mode: str) -> None:
    _, port = starter.http()
    async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client:
        revision = 0
        for tool, arguments in EVERY_TOOL:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, (tool, result)
            revision = result.structured_content.get("revision", revision)


def test_a_save_from_nobody_in_particular_must_say_what_it_builds_on(starter: Starter) -> None:
    _, port = starter.http()
    first = {"task": "shared", "goal": "one", "state": {"a": 1}}
    assert not post(port, call(1, "save_checkpoint", True, **first))[2]["result"].get("isError")

    again = {"task": "shared", "state": {"a": 2}}
    refusal = post(port, call(2, "save_checkpoint", True, **again))[2]["result"]

    assert refusal["isError"]
    text = refusal["content"][0]["text"]
    assert text.startswith("revision_needed")
    corrected = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert corrected["task"] == "shared"
    taken = post(port, call(3, "save_checkpoint", True, **corrected))[2]["result"]
    assert not taken.get("isError"), taken


def test_the_port_is_told_and_a_taken_one_refused(starter: Starter) -> None:
    _, port = starter.http()

    second = starter.start("serve", "--http", f"127.0.0.1:{port}")

    assert second.wait() == 1
    assert f"cannot listen on 127.0.0.1:{port}" in second.log.read_text()


# --- who comes in -----------------------------------------------------------------------------

OURS = ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"]
NOT_OURS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:1",
    "127.0.0.1:{port}0",
    "127.0.0.1:{port}.evil.example",
    "127.0.0.1:{port}@evil.example",
    "localhost.:{port}",
    "localhost.evil.example:{port}",
    "0.0.0.0:{port}",
    "[::]:{port}",
    "::1:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "2130706433:{port}",
]
FOREIGN = [
    "null",
    "http://evil.example",
    "https://127.0.0.1",
    "http://127.0.0.1",
    "http://localhost:3000",
    "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}@evil.example",
    "http://evil.example#127.0.0.1:{port}",
    "file://",
    "file://127.0.0.1:{port}",
    "chrome-extension://127.0.0.1:{port}",
    "127.0.0.1:{port}",
    "",
]
ROUTES = [("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/health"), ("GET", "/metrics"), ("GET", "/x")]


def test_only_our_own_names_are_answered_to_on_every_route(starter: Starter) -> None:
    _, port = starter.http()

    for host in OURS:
        assert ask(port, "GET", "/health", host=host.format(port=port))[0] == 200, host
    for host in NOT_OURS:
        for method, path in ROUTES:
            answer = ask(port, method, path, host=host.format(port=port))
            assert answer[0] == 421, (host, path)
    # HTTP/1.0 needs no Host at all.
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert b" 421 " in raw.recv(1000)


def test_requests_from_other_sites_are_refused_on_every_route(starter: Starter) -> None:
    _, port = starter.http()

    for host in OURS:
        origin = f"http://{host.format(port=port)}"
        assert ask(port, "GET", "/health", origin=origin)[0] == 200, origin
    for origin in FOREIGN:
        for method, path in ROUTES:
            answer = ask(port, method, path, origin=origin.format(port=port))
            assert answer[0] == 403, (origin, path)


def test_the_checks_hold_on_any_bind(starter: Starter) -> None:
    token = Tokens(starter.tokens).add("far")
    _, port = starter.http("--allow-host", "holdfast.example", bind="0.0.0.0:0")

    def status(host: str = "", **more: str) -> int:
        bearer = f"Bearer {token}"
        return ask(port, "GET", "/metrics", host=host, authorization=bearer, **more)[0]  # type: ignore[arg-type]

    assert status() == 200
    assert status("holdfast.example") == 200
    assert status(f"Holdfast.Example:{port}") == 200
    assert status("evil.example") == 421
    assert status(origin="http://evil.example") == 403
    assert status(origin="https://holdfast.example") == 200


@pytest.mark.parametrize("bind", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"])
def test_where_others_can_reach_it_there_must_be_tokens(starter: Starter, bind: str) -> None:
    server = starter.start("serve", "--http", bind, "--tokens", str(starter.tokens))

    assert server.wait() == 1
    said = server.log.read_text()
    assert "without tokens" in said
    assert "holdfast token add" in said
    assert not starter.workspace.exists()


def test_each_token_is_the_name_of_an_agent(starter: Starter) -> None:
    add = starter.start("token", "add", "ann", "--tokens", str(starter.tokens))
    assert add.wait() == 0
    tokens = Tokens(starter.tokens)
    ann, bea = _made_again(tokens, "ann"), tokens.add("bea")
    _, port = starter.http()
    save = call(1, "save_checkpoint", True, task="shared", goal="together", state={"a": 1})

    assert post(port, save)[0] == 401
    assert post(port, save, authorization="Bearer hf_wrong")[0] == 401
    assert post(port, save, authorization=f"Basic {ann}")[0] == 401
    assert post(port, save, authorization=f"bearer {ann}")[0] == 200
    listed = call(2, "list_checkpoints", True, task="shared")
    told = post(port, listed, authorization=f"Bearer {bea}")[2]["result"]["structuredContent"]

    assert [each["by"] for each in told["checkpoints"]] == ["ann"]
    assert ask(port, "GET", "/health")[0] == 200
    refused = ask(port, "GET", "/metrics")
    assert refused[0] == 401
    assert refused[1]["www-authenticate"].startswith("Bearer")


def _made_again(tokens: Tokens, name: str) -> str:
    tokens.remove(name)
    return tokens.add(name)


def test_a_removed_token_stops_working_and_the_last_one_opens_no_door(starter: Starter) -> None:
    tokens = Tokens(starter.tokens)
    token = tokens.add("ann")
    _, port = starter.http()
    assert ask(port, "GET", "/metrics", authorization=f"Bearer {token}")[0] == 200

    tokens.remove("ann")

    assert ask(port, "GET", "/metrics", authorization=f"Bearer {token}")[0] == 401
    assert ask(port, "GET", "/metrics")[0] == 401
    starter.tokens.write_text("{ half")
    assert ask(port, "GET", "/metrics", authorization=f"Bearer {token}")[0] == 503
    starter.tokens.unlink()
    assert ask(port, "GET", "/metrics")[0] == 401


def test_a_token_made_while_serving_is_needed_from_then_on(starter: Starter) -> None:
    _, port = starter.http()
    assert ask(port, "GET", "/metrics")[0] == 200

    Tokens(starter.tokens).add("ann")

    assert ask(port, "GET", "/metrics")[0] == 401


def test_tokens_are_kept_as_hashes_for_their_owner_only(starter: Starter) -> None:
    token = Tokens(starter.tokens).add("ann")

    assert token not in starter.tokens.read_text()
    assert stat.S_IMODE(starter.tokens.stat().st_mode) == 0o600
    assert len(token) > 40


def test_tokens_made_at_the_same_time_are_all_kept(starter: Starter) -> None:
    names = [f"agent-{number}" for number in range(40)]

    def add(name: str) -> str:
        return Tokens(starter.tokens).add(name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, names))

    assert sorted(Tokens(starter.tokens).names()) == sorted(names)


# --- how much and how often -------------------------------------------------------------------


def test_a_body_over_the_limit_is_refused(starter: Starter) -> None:
    starter.workspace.mkdir()
    (starter.workspace / "holdfast.json").write_text('{"limits": {"state_bytes": 100000}}')
    _, port = starter.http()
    limit = 100_000 + 2**20

    for mode in (INITIALIZE, call(1, "save_checkpoint", True, task="t")):
        kept = len(json.dumps(mode | {"x": ""}))
        fits = post(
            port, mode | {"params": mode["params"] | {"name": "n"}, "x": "y" * (limit - kept - 50)}
        )
        over = post(port, mode | {"params": mode["params"] | {"name": "n"}, "x": "y" * limit})
        assert fits[0] != 413
        assert over[0] == 413
    # Without a length it is counted as it comes.
    with socket.create_connection(("127.0.0.1", port)) as raw:
        head = f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ntransfer-encoding: chunked\r\n"
        rest = "".join(f"{name}: {value}\r\n" for name, value in BOTH.items())
        raw.sendall((head + rest + "\r\n").encode())
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(limit // 60_000 + 2):
                raw.sendall(b"ea60\r\n" + b"y" * 60_000 + b"\r\n")
            raw.sendall(b"0\r\n\r\n")
        assert b" 413 " in raw.recv(1000)


def test_whoever_asks_too_often_is_told_to_wait(starter: Starter) -> None:
    _, port = starter.http()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    answers: list[tuple[int, str | None]] = []
    for _ in range(1000):
        connection.request("GET", "/nothing")
        answer = connection.getresponse()
        answer.read()
        answers.append((answer.status, answer.headers["retry-after"]))
        if answer.status == 429:
            break

    assert answers[-1] == (429, "1")
    assert len(answers) > 200
    connection.close()
    assert ask(port, "GET", "/health")[0] == 200


async def test_what_was_waited_for_may_be_asked_again(tmp_path: Path) -> None:
    now = 0.0
    rules = Rules(hosts=frozenset({"us"}), requests_per_second=2, burst=3)
    guard = Guard(_answers_nothing, rules, Tokens(tmp_path / "none"), clock=lambda: now)

    burst = [await _status(guard) for _ in range(5)]
    now = 1.0
    later = [await _status(guard) for _ in range(3)]

    assert burst == [204, 204, 204, 429, 429]
    assert later == [204, 204, 429]
    assert await _status(guard, "10.0.0.2") == 204


async def test_one_caller_does_not_shut_the_others_out(tmp_path: Path) -> None:
    stay = asyncio.Event()

    async def stays(scope: Scope, receive: Receive, send: Send) -> None:
        await stay.wait()
        await _answers_nothing(scope, receive, send)

    rules = Rules(hosts=frozenset({"us"}), at_once=3, at_once_each=2)
    guard = Guard(stays, rules, Tokens(tmp_path / "none"))
    open_ones = [asyncio.create_task(_status(guard)) for _ in range(2)]
    await asyncio.sleep(0)

    assert await _status(guard) == 503
    open_ones.append(asyncio.create_task(_status(guard, "10.0.0.2")))
    await asyncio.sleep(0)
    assert await _status(guard, "10.0.0.3") == 503
    stay.set()
    assert await asyncio.gather(*open_ones) == [204] * 3
    assert await _status(guard) == 204


async def _answers_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def _status(guard: Guard, address: str = "10.0.0.1") -> int:
    scope = {"type": "http", "path": "/mcp", "headers": [(b"host", b"us")], "client": (address, 1)}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    await guard(scope, receive, send)
    status: int = sent[0]["status"]
    return status


# --- what else is there -----------------------------------------------------------------------

_SAMPLE = re.compile(r'^[a-z_]+(\{([a-z]+="[^"\\\n]*",?)+\})? [0-9.e+-]+$')


def test_the_page_is_at_the_root_and_only_a_person_who_logged_in_sees_it(starter: Starter) -> None:
    _, port = starter.http()
    status, headers, page = ask(port, "GET", "/")
    assert (status, b"<h1>Tasks</h1>" in page) == (200, True)
    assert "default-src 'none'" in headers["content-security-policy"]

    token = Tokens(starter.tokens).add("ann")

    status, headers, _ = ask(port, "GET", "/task/x?a=1", authorization=f"Bearer {token}")
    assert (status, headers["location"]) == (303, "/login?next=%2Ftask%2Fx%3Fa%3D1")
    # Programs that look for a way in are not led to a form.
    assert ask(port, "GET", "/.well-known/oauth-protected-resource")[0] == 401


def test_metrics_are_in_the_form_prometheus_reads(starter: Starter) -> None:
    _, port = starter.http()
    post(port, call(1, "mark_step_done", True, task="t", step="s"))
    post(port, call(1, "mark_step_done", True, tusk="t"))

    status, headers, raw = ask(port, "GET", "/metrics")

    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = raw.decode().splitlines()
    assert raw.endswith(b"\n")
    assert all(each.startswith(("# HELP ", "# TYPE ")) or _SAMPLE.match(each) for each in lines)
    assert 'holdfast_calls_total{tool="mark_step_done",outcome="ok"} 1' in lines
    assert 'holdfast_calls_total{tool="mark_step_done",outcome="wrong_arguments"} 1' in lines
    assert 'holdfast_tasks{status="active"} 1' in lines
    buckets = [int(each.split()[-1]) for each in lines if "_bucket{" in each]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_though_streams_are_open(
    starter: Starter, number: signal.Signals
) -> None:
    server, port = starter.http()
    with socket.create_connection(("127.0.0.1", port)) as listening:
        notices = {"resourcesListChanged": True}
        params = {"_meta": ENVELOPE, "notifications": notices}
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        )
        head = {"host": f"127.0.0.1:{port}", "content-length": str(len(body)), **BOTH}
        head |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        said = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        listening.sendall(f"POST /mcp HTTP/1.1\r\n{said}\r\n{body}".encode())
        assert b" 200 " in listening.recv(10_000)
        async with streamable_http_client(f"http://127.0.0.1:{port}/mcp") as _:
            server.signal(number)

            assert server.wait(PROMPTLY) == 0
    assert server.event("stopped")
    assert [each for each in server.events() if each["level"] == "error"] == []
