"""`holdfast export` and `holdfast import`: carry tasks to another workspace."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast_server.cli import exits
from holdfast_server.cli.command import did, on_workspace, parser_of
from holdfast_server.cli.terminal import Screen

if TYPE_CHECKING:
    from holdfast_storage import Workspace


def add_parser(commands: Any) -> None:
    """Describe the commands."""
    export = parser_of(
        commands,
        "export",
        help="write tasks into a file that another workspace can import",
        examples=[
            "holdfast export ingest --to ingest.jsonl",
            "holdfast export --to everything.jsonl",
            "holdfast export ingest | ssh host holdfast import -",
        ],
    )
    export.add_argument("tasks", nargs="*", metavar="task", help="which (default: all)")
    export.add_argument("--to", metavar="FILE", help="a new file (default: stdout)")
    export.set_defaults(run=on_workspace(_export))
    import_ = parser_of(
        commands,
        "import",
        help="take tasks in from an export",
        description="Take tasks in from an export, each wholly or not at all. A task that is there already "
        "is not replaced.",
        examples=["holdfast import ingest.jsonl", "holdfast import ingest.jsonl --as ingest-copy"],
    )
    import_.add_argument("file", help="the file, - for stdin")
    import_.add_argument("tasks", nargs="*", metavar="task", help="which (default: all)")
    import_.add_argument("--as", dest="new", default="", metavar="NEW", help="another name for it")
    import_.set_defaults(run=on_workspace(_import))


async def _export(workspace: Workspace, options: argparse.Namespace) -> int:
    if options.to:
        tasks = await workspace.export_to(Path(options.to), *options.tasks)
        told = {"file": options.to, "tasks": tasks}
        return did(options, told, f"Wrote {', '.join(tasks)} to {options.to}")
    if sys.stdout.isatty():
        Screen(sys.stderr).line("holdfast: an export is not for reading: name a file with --to")
        return exits.USAGE
    sys.stdout.flush()
    await workspace.export_to(sys.stdout.fileno(), *options.tasks)
    return exits.OK


async def _import(workspace: Workspace, options: argparse.Namespace) -> int:
    file = sys.stdin.fileno() if options.file == "-" else Path(options.file)
    tasks = await workspace.import_from(file, *options.tasks, new=options.new)
    return did(options, {"tasks": tasks}, f"Imported {', '.join(tasks)}")
