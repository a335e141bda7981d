"""`holdfast token`: bearer tokens for the HTTP server, each the name of an agent."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "token",
        help="make and remove tokens for the HTTP server",
        description="Tokens let agents in over HTTP; each is the name its agent's work is recorded by.",
        epilog="example: holdfast token add researcher",
    )
    parser.add_argument("action", choices=("add", "remove", "list"))
    parser.add_argument("name", nargs="?", default="", help="the agent's name")
    parser.add_argument("--tokens", type=Path, help="the file (default: with your settings)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Make, remove or list."""
    from holdfast_server.http.tokens import Tokens, default_file

    tokens = Tokens(options.tokens or default_file())
    if options.action == "list":
        for name, made in sorted(tokens.names().items()):
            print(f"{name}\t{made}")
    elif options.action == "add":
        print(tokens.add(options.name))
    else:
        tokens.remove(options.name)
    return 0
