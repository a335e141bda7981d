"""`holdfast token`: bearer tokens for the HTTP server, each the name of an agent."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from holdfast_server.cli.command import print_json
from holdfast_server.cli.terminal import Screen


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "token",
        help="make and remove tokens for the HTTP server",
        description="Tokens let agents in over HTTP; each is the name its agent's work is recorded by.",
        epilog="example: holdfast token add researcher\n         holdfast token list",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("add", "remove", "list"))
    parser.add_argument("name", nargs="?", default="", help="the agent's name")
    parser.add_argument("--tokens", type=Path, help="the file (default: with your settings)")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Make, remove or list."""
    from holdfast_server.http.tokens import Tokens, default_file

    tokens = Tokens(options.tokens or default_file())
    if options.action == "list":
        names = dict(sorted(tokens.names().items()))
        if options.json:
            print_json([{"name": name, "made": made} for name, made in names.items()])
        else:
            Screen().table(("NAME", "MADE"), names.items())
    elif options.action == "add":
        token = tokens.add(options.name)
        if options.json:
            print_json({"name": options.name, "token": token})
        else:
            print(token)
    else:
        tokens.remove(options.name)
        if options.json:
            print_json({"name": options.name, "removed": True})
    return 0
