"""`holdfast init`: make a workspace here."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast_server.cli.command import did, on_workspace, parser_of

if TYPE_CHECKING:
    from holdfast_storage import Workspace


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = parser_of(
        commands,
        "init",
        help="make a workspace here",
        description="Make the folder .holdfast at the root of the git repository, or here. The first "
        "save of an agent would make it too; this only shows where it will be.",
        examples=["holdfast init", "holdfast init --workspace ~/project/.holdfast"],
    )
    parser.set_defaults(run=on_workspace(_init))


async def _init(workspace: Workspace, options: argparse.Namespace) -> int:
    is_new = not (Path(workspace.location) / "holdfast.json").exists()
    await workspace.prepare()
    what = "Made" if is_new else "There is already"
    return did(
        options,
        {"workspace": workspace.location, "made": is_new},
        f"{what} {workspace.location}",
        "Give it to an agent: holdfast install claude-code",
    )
