"""`holdfast ui`: the page, for a person on this machine."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from holdfast_server.cli.imports import quick_imports


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "ui",
        help="watch and correct tasks in a browser",
        description="Show every task in a browser: what agents do, what waits for you, and what you "
        "can do about it. Only this machine can reach it.",
        epilog="example: holdfast ui --port 8766",
    )
    parser.add_argument("--workspace", help="the folder (default: found from the current folder)")
    parser.add_argument("--port", type=_port, default=0, help="the port (default 0: any free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--tokens", type=Path, help="the file of tokens (holdfast token add)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve the page until somebody stops it."""
    with quick_imports():
        from holdfast_server.dashboard.serving import serve_page

    asyncio.run(
        serve_page(
            options.workspace,
            options.port,
            tokens_file=options.tokens,
            opens_browser=not options.no_browser,
        )
    )
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError("give a port from 1 to 65535, or 0 for any free one")
    return int(text)
