"""`holdfast install`: register the server with the program an agent lives in."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast_server.clients.changes import Change, Registration
    from holdfast_server.clients.known import Surroundings

CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini")
_EXAMPLES = """\
example: holdfast install claude-code --hooks
         holdfast install codex --scope user --yes
         holdfast install cursor --remove
         holdfast install --print            what any other client needs
"""


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "install",
        help="register the server with an agent's client",
        description="Add Holdfast to a client's settings. The change is shown first; "
        "everything else in the file stays as it is.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("client", nargs="?", choices=CLIENTS, help="the client")
    parser.add_argument(
        "--scope",
        choices=("project", "user"),
        help="for this project (the default where the client can) or for all of yours",
    )
    parser.add_argument("--workspace", help="the folder, if it is not to be found by itself")
    parser.add_argument("--hooks", action="store_true", help="hooks too (Claude Code)")
    parser.add_argument("--remove", action="store_true", help="undo it")
    parser.add_argument("--print", action="store_true", help="only print what to add")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the change, ask, write it."""
    registration = _registration(options)
    if options.print or not options.client:
        _print_snippets(registration)
        return 0
    changes = registration.removed() if options.remove else registration.added()
    client = registration.client
    if not changes:
        state = "not registered" if options.remove else "registered already"
        print(f"Holdfast is {state} in {client.file(registration.scope, registration.here)}.")
        return 0
    for change in changes:
        print(change.diff())
    if not _agreed(options, changes):
        return 1
    for change in changes:
        change.write()
        print(f"{'Removed' if change.after is None else 'Wrote'} {change.file}")
    if not options.remove:
        _say_what_comes_next(registration)
    return 0


def _registration(options: argparse.Namespace) -> Registration:
    from holdfast_server.clients.changes import Registration
    from holdfast_server.clients.command import holdfast_command
    from holdfast_server.clients.known import ANY, CLIENTS
    from holdfast_storage.core.errors import InvalidValue

    client = CLIENTS.get(options.client, ANY)
    if options.hooks and not client.has_hooks:
        raise InvalidValue("--hooks", "only Claude Code has hooks that we know; leave it out")
    scope = options.scope or client.scopes[0]
    if scope not in client.scopes:
        raise InvalidValue("--scope", f"{client.title} has no settings of a project; leave it out")
    here = _surroundings()
    if scope == "project" and here.project in (here.home, Path(here.project.anchor)):
        raise InvalidValue(
            "--scope", f"{here.project} is no project; go to one, or say --scope user"
        )
    workspace = str(Path(options.workspace).expanduser().absolute()) if options.workspace else ""
    command = holdfast_command(needs_whole_path=client.is_application)
    return Registration(client, scope, here, command, workspace, options.hooks)


def _surroundings() -> Surroundings:
    from holdfast_server.clients.known import Surroundings

    start = Path.cwd()
    above = (start, *start.parents)
    project = next((each for each in above if (each / ".git").exists()), start)
    return Surroundings(Path.home(), project, os.environ, sys.platform == "darwin")


def _print_snippets(registration: Registration) -> None:
    """Print what to add, ready for a pipe; where it goes is said beside it."""
    from holdfast_server.clients import claude_hooks

    client, scope, here = registration.client, registration.scope, registration.here
    where = client.file(scope, here) if client.name else "the settings of your client"
    print(f"For {where}:", file=sys.stderr)
    print(client.snippet(registration.entry), end="")
    if registration.with_hooks:
        print(f"\nFor {claude_hooks.settings_file(scope, here)}:", file=sys.stderr, flush=True)
        print(claude_hooks.put("", registration.hooks), end="")
    if not client.name:
        print(f"\nThese are known by name: {', '.join(CLIENTS)}.", file=sys.stderr)


def _agreed(options: argparse.Namespace, changes: Sequence[Change]) -> bool:
    if options.yes:
        return True
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("Nothing was written. Add --yes to write it.", file=sys.stderr)
        return False
    files = " and ".join(str(change.file) for change in changes)
    return input(f"Write {files}? [y/N] ").strip().lower() in ("y", "yes")


def _say_what_comes_next(registration: Registration) -> None:
    is_shared = registration.scope == "project"
    print(registration.client.then, registration.client.trust if is_shared else "")
    if is_shared and registration.command != ["holdfast"]:
        print(
            f"The command is {registration.command[0]}, which others who share this project may not "
            "have. If `holdfast` is on everybody's PATH (pipx, uv tool), install again from there."
        )
