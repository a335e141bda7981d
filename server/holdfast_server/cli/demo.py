"""`holdfast demo`: see it work, with no model and no network."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "demo",
        help="watch an agent being killed and resumed",
        description="An agent works through 50 items over MCP, is killed after 20, and goes on at 21.",
        epilog="example: holdfast demo",
    )
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Play the demo."""
    from holdfast_server.demo.show import show

    return show()
