"""Going back, copying, keeping and letting go of checkpoints."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from holdfast_server.cli import exits, wording
from holdfast_server.cli.command import agrees, did, on_workspace, parser_of, plain, print_json
from holdfast_server.cli.terminal import Screen, Styled

if TYPE_CHECKING:
    from holdfast_storage import Workspace
    from holdfast_storage.results import Pruned


def add_parser(commands: Any) -> None:
    """Describe the commands."""
    _add_rewind(commands)
    _add_fork(commands)
    _add_pin(commands)
    _add_prune(commands)
    _add_trash(commands)


# --- back, aside ------------------------------------------------------------------------------


def _add_rewind(commands: Any) -> None:
    parser = parser_of(
        commands,
        "rewind",
        help="go back to a checkpoint's state",
        description="Save that checkpoint's state and next as a new checkpoint; nothing in between is "
        "lost. Steps that are done stay done: holdfast reopen has them done again.",
        examples=["holdfast rewind ingest 7"],
    )
    parser.add_argument("task", help="the task")
    parser.add_argument("checkpoint", type=int, help="the checkpoint's number")
    parser.set_defaults(run=on_workspace(_rewind))


async def _rewind(workspace: Workspace, options: argparse.Namespace) -> int:
    saved = await workspace.rewind(options.task, options.checkpoint)
    said = (
        f"{options.task} is at checkpoint {options.checkpoint} again, saved as {saved.checkpoint}"
    )
    then = f"What that changed: holdfast diff {shlex.quote(options.task)}"
    return did(options, plain(saved), said, then)


def _add_fork(commands: Any) -> None:
    parser = parser_of(
        commands,
        "fork",
        help="copy a task as it was at a checkpoint, to rehearse on",
        description="Copy a task as it was at a checkpoint (0: as it is now) to a new one. The copy is "
        "paused, its steps have idempotency keys of their own, and what ran is in doubt.",
        examples=["holdfast fork ingest 7 ingest-rehearsal", "holdfast fork ingest 0 ingest-copy"],
    )
    parser.add_argument("task", help="the task")
    parser.add_argument("checkpoint", type=int, help="the checkpoint's number, 0 for now")
    parser.add_argument("new", help="the name of the copy")
    parser.set_defaults(run=on_workspace(_fork))


async def _fork(workspace: Workspace, options: argparse.Namespace) -> int:
    revision = await workspace.fork(options.task, options.checkpoint, options.new)
    told = {"task": options.new, "status": "paused", "revision": revision}
    then = f"To let agents work on it: holdfast unpause {shlex.quote(options.new)}"
    return did(options, told, f"{options.new} is a copy of {options.task}, paused", then)


def _add_pin(commands: Any) -> None:
    parser = parser_of(
        commands,
        "pin",
        help="keep a checkpoint whatever prune says",
        examples=["holdfast pin ingest 7", "holdfast pin ingest 7 --off"],
    )
    parser.add_argument("task", help="the task")
    parser.add_argument("checkpoint", type=int, help="the checkpoint's number")
    parser.add_argument("--off", action="store_true", help="no longer keep it")
    parser.set_defaults(run=on_workspace(_pin))


async def _pin(workspace: Workspace, options: argparse.Namespace) -> int:
    is_pinned = not options.off
    revision = await workspace.pin(options.task, options.checkpoint, pinned=is_pinned)
    told = {
        "task": options.task,
        "checkpoint": options.checkpoint,
        "pinned": is_pinned,
        "revision": revision,
    }
    state = "is pinned" if is_pinned else "is no longer pinned"
    return did(options, told, f"Checkpoint {options.checkpoint} {state}")


# --- letting go -------------------------------------------------------------------------------


def _add_prune(commands: Any) -> None:
    parser = parser_of(
        commands,
        "prune",
        help="let old checkpoints go, after showing which and why",
        description="Show which checkpoints would go and which stay, each with the reason, then ask. "
        "What went can be restored for 24 hours.",
        examples=["holdfast prune ingest", "holdfast prune --all --keep-last 5 --yes"],
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("task", nargs="?", help="the task")
    which.add_argument("--all", action="store_true", help="every task")
    parser.add_argument("--keep-last", type=int, metavar="N", help="the newest so many stay")
    parser.add_argument(
        "--older-than-hours",
        type=float,
        metavar="HOURS",
        help="younger ones stay; 0: age is no reason",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show the plan")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run=on_workspace(_prune))


async def _prune(workspace: Workspace, options: argparse.Namespace) -> int:
    task = "*" if options.all else options.task
    rule = workspace.settings.retention
    keep = rule.keep_last if options.keep_last is None else options.keep_last
    hours = options.older_than_hours
    hours = rule.older_than_hours if hours is None else hours
    plan = await workspace.prune(task, keep, hours, dry_run=True)
    if not options.json:
        _show_plan(plan)
    if options.dry_run or not plan.removed:
        return _planned(options, plan)
    if not options.yes and not (not options.json and agrees("Let them go?")):
        Screen(sys.stderr).line("Nothing was pruned; to do it without being asked, add --yes.")
        return exits.REFUSED
    pruned = await workspace.prune(task, keep, hours)
    count = wording.plural(len(pruned.removed), "checkpoint")
    then = "To bring them back: holdfast restore NAME, with a name from holdfast trash"
    said = f"{count} went, {wording.size(pruned.freed_bytes)} freed"
    return did(options, plain(pruned), said, then)


def _planned(options: argparse.Namespace, plan: Pruned) -> int:
    if options.json:
        print_json(plain(plan))
    return exits.OK


def _show_plan(plan: Pruned) -> None:
    screen = Screen()
    going = [
        (line.task, str(line.checkpoint), Styled("goes", "red"), line.why) for line in plan.removed
    ]
    staying = [
        (line.task, str(line.checkpoint), Styled("stays", "green"), line.why) for line in plan.kept
    ]
    screen.table(("TASK", "CHECKPOINT", "", "WHY"), [*going, *staying])
    if screen.is_rich:
        count = wording.plural(len(plan.removed), "checkpoint")
        said = f"{count} would go, {wording.size(plan.freed_bytes)} would be freed."
        screen.line(said if plan.removed else "Nothing would go.")


def _add_trash(commands: Any) -> None:
    trash = parser_of(
        commands, "trash", help="list what can be restored", examples=["holdfast trash"]
    )
    trash.set_defaults(run=on_workspace(_trash))
    restore = parser_of(
        commands,
        "restore",
        help="bring back what prune took",
        examples=["holdfast trash", "holdfast restore 20260102T093040-ingest-0ce357ac"],
    )
    restore.add_argument("name", help="a name from holdfast trash")
    restore.set_defaults(run=on_workspace(_restore))


def _trashed(each: Any) -> dict[str, Any]:
    return {
        "name": each.name,
        "task": each.task,
        "at": each.at,
        "checkpoints": list(each.checkpoints),
        "bytes": each.size,
    }


async def _trash(workspace: Workspace, options: argparse.Namespace) -> int:
    found = [_trashed(each) for each in await workspace.trash()]
    if options.json:
        print_json(found)
        return exits.OK
    screen = Screen()
    rows = [
        (
            each["name"],
            each["task"],
            wording.ago(each["at"]) if screen.is_rich else each["at"],
            ",".join(map(str, each["checkpoints"])),
            wording.size(each["bytes"]) if screen.is_rich else str(each["bytes"]),
        )
        for each in found
    ]
    if rows:
        screen.table(("NAME", "TASK", "WHEN", "CHECKPOINTS", "SIZE"), rows)
    elif screen.is_rich:
        screen.line(Styled("The trash is empty.", "dim"))
    return exits.OK


async def _restore(workspace: Workspace, options: argparse.Namespace) -> int:
    restored = _trashed(await workspace.restore(options.name))
    numbers = ", ".join(map(str, restored["checkpoints"]))
    return did(options, restored, f"{restored['task']} has checkpoints {numbers} again")
