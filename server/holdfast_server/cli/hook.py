"""`holdfast hook`: what a client's hooks call; it reads what happened from stdin."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "hook",
        help="called by a client's hooks (holdfast install claude-code --hooks)",
        description="Reads a hook's JSON from stdin. It never fails: what is wrong is said on stderr.",
        epilog="example: holdfast hook claude-code < event.json",
    )
    parser.add_argument("client", choices=("claude-code",), help="whose hook this is")
    parser.add_argument("--workspace", default="", help="the folder, as the server was told")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do what the event asks for; whatever happens, the client goes on."""
    try:
        from holdfast_server.clients.hooks import handle

        said = handle(sys.stdin.buffer.read(), options.workspace)
        if said:
            print(said)
    except Exception as error:  # noqa: BLE001 - a hook must not be in the agent's way
        print(f"holdfast hook: {type(error).__name__}: {error}", file=sys.stderr)
    return 0
