"""`holdfast edit`: correct a task in your editor; nothing you typed gets lost."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast_server.cli import exits
from holdfast_server.cli.command import did, parser_of, plain, print_json, with_workspace
from holdfast_server.cli.terminal import Screen, Styled

if TYPE_CHECKING:
    from holdfast_storage.core.errors import Unreadable
    from holdfast_storage.results import Edited


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = parser_of(
        commands,
        "edit",
        help="correct a task in your editor",
        description="Open what state.json says in $VISUAL or $EDITOR. What you change is merged with what "
        "agents did meanwhile. If it does not parse, you see where, and get it back to correct.",
        examples=[
            "holdfast edit ingest",
            "EDITOR='code --wait' holdfast edit ingest",
            "holdfast edit ingest --from corrected.json",
        ],
    )
    parser.add_argument("task", help="the task")
    parser.add_argument(
        "--from", dest="source", metavar="FILE", help="take it from this file (- for stdin) instead"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Edit, check, merge."""
    if options.source:
        raw = (
            sys.stdin.buffer.read() if options.source == "-" else Path(options.source).read_bytes()
        )
        return _said(
            options,
            with_workspace(options.workspace, lambda workspace: workspace.edit(options.task, raw)),
        )
    before = with_workspace(options.workspace, lambda workspace: workspace.view(options.task))
    return _edit(options, before)


def _edit(options: argparse.Namespace, before: bytes) -> int:
    from holdfast_storage.core.errors import HoldfastError
    from holdfast_storage.core.ids import folder_name

    folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
    file = folder / f"{folder_name(options.task)}.json"
    file.write_bytes(before)
    try:
        after = _edited(file)
        edited = _submitted(options, after) if after and after != before else None
    except (HoldfastError, OSError, KeyboardInterrupt):
        _keep(options, file)
        raise
    if after is None and file.read_bytes() != before:
        _keep(options, file)
        return exits.REFUSED
    # Editors leave backups beside the file; whatever becomes of them, the edit counts.
    shutil.rmtree(folder, ignore_errors=True)
    if after is None:
        return exits.REFUSED
    if edited is None:
        return did(options, {"task": options.task, "changed": False}, "Nothing was changed")
    return _said(options, edited)


def _submitted(options: argparse.Namespace, raw: bytes) -> Edited:
    return with_workspace(options.workspace, lambda workspace: workspace.edit(options.task, raw))


def _edited(file: Path) -> bytes | None:
    """Let somebody edit the file until it parses; None if they gave up."""
    from holdfast_storage.core import strict_json
    from holdfast_storage.core.errors import Unreadable

    while True:
        if not _open_editor(file):
            return None
        raw = file.read_bytes()
        try:
            strict_json.parse_object(raw)
        except Unreadable as error:
            _show_fault(error, raw)
            if not _wants_it_back():
                return None
        else:
            return raw


def _open_editor(file: Path) -> bool:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # The editor has the terminal: what is typed there, Ctrl-C too, is meant for it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ended = subprocess.run([*shlex.split(editor), str(file)], check=False)
    except FileNotFoundError:
        Screen(sys.stderr).line(f"holdfast: there is no editor {editor!a}; set EDITOR to one")
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    if ended.returncode:
        Screen(sys.stderr).line(f"holdfast: the editor ended with status {ended.returncode}")
    return ended.returncode == 0


def _show_fault(error: Unreadable, raw: bytes) -> None:
    screen = Screen(sys.stderr)
    screen.line(Styled("holdfast: ", "red"), f"it does not parse: {error}")
    lines = raw.decode(errors="replace").splitlines()
    if 0 < error.line <= len(lines):
        # Long lines are shown around the place.
        start = max(0, error.column - 60)
        screen.line(f"  {lines[error.line - 1][start : start + 100]}")
        screen.line("  " + " " * (error.column - 1 - start), Styled("^", "red"))


def _wants_it_back() -> bool:
    if not sys.stdin.isatty():
        return False
    Screen(sys.stderr).raw("Open it again? [Y/n] ")
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _keep(options: argparse.Namespace, file: Path) -> None:
    """Say where the text is: somebody typed it."""
    again = f"holdfast edit {shlex.quote(options.task)} --from {shlex.quote(str(file))}"
    Screen(sys.stderr).line(f"Your text is in {file}; once it is right: {again}")


def _said(options: argparse.Namespace, edited: Edited) -> int:
    if options.json:
        print_json({"task": options.task, **plain(edited)})
        return exits.OK
    if not edited.changed:
        return did(options, {}, "Nothing was changed")
    did(options, {}, f"{options.task} is at revision {edited.revision}")
    screen = Screen()
    for warning in edited.warnings:
        screen.line(Styled("warning   ", "yellow"), warning)
    for lost in edited.conflicts:
        whose = f"{lost.lost_by}'s value is in {lost.file}"
        screen.line(Styled("conflict  ", "yellow"), f"{lost.path or 'the whole file'}: {whose}")
    return exits.OK
