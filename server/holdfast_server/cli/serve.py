"""`holdfast serve`: the MCP server over stdio, or over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

from holdfast_server.cli.imports import quick_imports


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "serve",
        help="serve the MCP tools to an agent",
        description="Serve the MCP tools over stdio (for an agent on this machine) or over HTTP.",
        epilog="example: holdfast serve --workspace ~/project/.holdfast",
    )
    parser.add_argument("--workspace", help="the folder (default: found from the current folder)")
    parser.add_argument("--agent", default="", help="the name under which work is recorded")
    parser.add_argument("--tools", choices=("all", "core"), default="all", help="which tools")
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="serve HTTP there instead of stdio; port 0: any free one",
    )
    parser.add_argument("--tokens", type=Path, help="the file of tokens (holdfast token add)")
    parser.add_argument(
        "--allow-host", action="append", default=[], help="another name clients call this server by"
    )
    parser.add_argument(
        "--log",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="what to write to stderr (default: info)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until the client hangs up, or somebody stops it."""
    # Imported here: `holdfast ls` must not pay for the protocol.
    with quick_imports():
        from holdfast_server.serving import Serving, over_http, over_stdio

    serving = Serving(
        workspace=options.workspace,
        agent=options.agent,
        tools=options.tools,
        log=options.log,
        tokens=options.tokens,
        allow_hosts=tuple(options.allow_host),
    )
    _open_standard_streams()
    if options.http:
        host, port = address(options.http)
        asyncio.run(over_http(serving, host, port))
    else:
        asyncio.run(over_stdio(serving))
    return 0


def _open_standard_streams() -> None:
    """Leave none of stdin, stdout and stderr closed: the first journal opened would take its place."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)


def address(text: str) -> tuple[str, int]:
    """Read HOST:PORT; a port alone is one of this machine."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        from holdfast_storage.core.errors import InvalidValue

        raise InvalidValue("--http", "give HOST:PORT, for example 127.0.0.1:8765")
    return host.strip("[]") or "127.0.0.1", int(port)
