"""Holdfast in the hands of clients that nobody here wrote."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.server.clients.conftest import Clients

from holdfast_server.tools.specs import ALL

pytestmark = pytest.mark.timeout(300)

EXPECTED_FAILURES = Path(__file__).with_name("expected-failures.yaml")


def inspector(clients: Clients, *request: str) -> dict[str, Any]:
    """Send one request with the MCP Inspector."""
    server = [clients.holdfast, "serve", "--workspace", str(clients.home / ".holdfast")]
    answer = clients.run(clients.program("mcp-inspector"), "--cli", *server, *request)
    told: dict[str, Any] = json.loads(answer)
    return told


def test_the_inspector_lists_and_calls_the_tools(clients: Clients) -> None:
    listed = inspector(clients, "--method", "tools/list")
    calling = ("--method", "tools/call", "--tool-name")
    marked = inspector(
        clients, *calling, "mark_step_done", "--tool-arg", "task=survey", "--tool-arg", "step=one"
    )
    loaded = inspector(clients, *calling, "load_checkpoint", "--tool-arg", "task=survey")

    assert [tool["name"] for tool in listed["tools"]] == [spec.name for spec in ALL]
    assert marked["structuredContent"]["outcome"] == "done"
    assert loaded["structuredContent"]["progress"]["done"] == 1


def test_claude_code_connects(clients: Clients) -> None:
    workspace = str(clients.home / ".holdfast")
    serve = (clients.holdfast, "serve", "--workspace", workspace)

    clients.run(*clients.claude, "mcp", "add", "holdfast", "--", *serve)

    listed = clients.run(*clients.claude, "mcp", "list")
    [line] = [each for each in listed.splitlines() if each.startswith("holdfast:")]
    assert line.endswith("Connected")


# Started, waited for and ended in one shell, because it has a loopback of its own.
_SUITE = """
"$HOLDFAST" serve --workspace .holdfast --http "127.0.0.1:$PORT" 2> log & server=$!
trap 'kill $server' EXIT
until grep -q '"serving"' log; do sleep 0.1; done
"$NODE" "$SUITE" server --url "http://127.0.0.1:$PORT/mcp" --expected-failures "$EXPECTED" -o results
"""


def test_the_conformance_suite_passes_where_it_applies(clients: Clients) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    names = {
        "HOLDFAST": clients.holdfast,
        "PORT": str(port),
        "NODE": str(clients.node),
        "SUITE": str(
            clients.modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
        ),
        "EXPECTED": str(EXPECTED_FAILURES),
    }
    variables = [f"{name}={value}" for name, value in names.items()]

    said = clients.run("env", *variables, "bash", "-ec", _SUITE)

    passed = [line for line in said.splitlines() if line.startswith("✓")]
    assert len(passed) >= 12, said


def test_every_expected_failure_says_why() -> None:
    reason = ""
    for line in EXPECTED_FAILURES.read_text().splitlines():
        if line.strip().startswith("#"):
            reason = line
        elif line.strip().startswith("- "):
            assert reason, line
        else:
            reason = ""
