"""`holdfast ls`: every task at a glance, quickly."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast_server.cli import exits, wording
from holdfast_server.cli.command import parser_of, print_json, with_workspace
from holdfast_server.cli.terminal import Part, Screen, Styled, bar, status

if TYPE_CHECKING:
    from holdfast_storage import Workspace
    from holdfast_storage.results import TaskLine

HEADERS = ("TASK", "STATUS", "PROGRESS", "NEXT", "BY", "LAST SEEN", "FOR YOU")
LEAST = ("NEXT", "BY", "PROGRESS")
_FIELDS = ("task", "status", "goal", "next", "by", "updated_at", "damaged")
_COUNTS = ("questions", "in_doubt", "conflicts")
_CLOSED = ("done", "abandoned")
STATUSES = ("active", "waiting", "paused", "failed", "done", "abandoned", "damaged")


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = parser_of(
        commands,
        "ls",
        help="list every task",
        description="List every task, the most recently touched first.",
        examples=[
            "holdfast ls",
            "holdfast ls --status waiting",
            "holdfast ls --json | jq '.[].task'",
        ],
    )
    parser.add_argument("--status", choices=STATUSES, help="only those with this status")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List them."""
    lines = tasks_of(options.workspace)
    if options.status:
        lines = [line for line in lines if options.status in (line["status"], _flag(line))]
    if options.json:
        print_json(lines)
        return exits.OK
    screen = Screen()
    if lines:
        screen.table(HEADERS, [row_of(line, screen) for line in lines], least=LEAST)
    elif screen.is_rich:
        said = f"No task is {options.status}." if options.status else "There are no tasks yet."
        screen.line(Styled(said, "dim"))
    return exits.OK


def _flag(line: Mapping[str, Any]) -> str:
    return "damaged" if line["damaged"] else ""


def tasks_of(workspace: str | None) -> list[Mapping[str, Any]]:
    """Give each task's line, by their summaries if these are current."""
    from holdfast_storage.glance import glance

    found = glance(workspace)
    return [_line(each) for each in found] if found is not None else _folded(workspace)


def _folded(workspace: str | None) -> list[Mapping[str, Any]]:
    return with_workspace(workspace, lines_in)


async def lines_in(workspace: Workspace) -> list[Mapping[str, Any]]:
    """Give each task's line, with what is in doubt since somebody died who had begun it."""
    return [await _line_now(workspace, task) for task in await workspace.tasks()]


async def _line_now(workspace: Workspace, task: TaskLine) -> Mapping[str, Any]:
    line = _line_of(task)
    if not task.begun or task.problem or task.status in _CLOSED:
        return line
    # A summary cannot know who died since; only few tasks have steps under way.
    return {**line, "in_doubt": (await workspace.standing(task.task)).in_doubt_count}


def _line_of(task: TaskLine) -> Mapping[str, Any]:
    counts = {name: getattr(task.progress, name) for name in ("done", "failed", "total")}
    fields = {name: getattr(task, name) for name in (*_FIELDS, *_COUNTS)}
    return _line({**fields, "progress": counts, "problem": task.problem})


def _line(found: Mapping[str, Any]) -> Mapping[str, Any]:
    counts = {name: found["progress"][name] for name in ("done", "failed", "total")}
    return {
        **{name: found[name] for name in _FIELDS},
        # A summary that an earlier release wrote does not have all of them.
        **{name: found.get(name, 0) for name in _COUNTS},
        "progress": counts,
        "problem": found.get("problem", ""),
    }


def row_of(line: Mapping[str, Any], screen: Screen) -> Sequence[Part]:
    """Give a task's cells for a table."""
    is_rich = screen.is_rich
    updated = line["updated_at"]
    return (
        Styled(line["task"], "bold"),
        status(line["status"]),
        _progress(line["progress"], is_rich),
        line["problem"] or line["next"] or line["goal"],
        line["by"],
        wording.ago(updated) if is_rich and updated else updated,
        Styled(_waits(line), "yellow"),
    )


def _progress(counts: Mapping[str, int], is_rich: bool) -> Part:
    done, total, failed = counts["done"], counts["total"], counts["failed"]
    if not is_rich:
        return f"{done}/{total}"
    if not total:
        return ""
    also = f", {failed} failed" if failed else ""
    return Styled(f"{bar(done, total)} {done}/{total}{also}", "red" if failed else "green")


def _waits(line: Mapping[str, Any]) -> str:
    waits: list[str] = []
    if line["questions"]:
        waits.append(wording.plural(line["questions"], "question"))
    if line["in_doubt"]:
        waits.append(f"{line['in_doubt']} in doubt")
    if line["conflicts"]:
        waits.append(wording.plural(line["conflicts"], "conflict"))
    if line["damaged"]:
        waits.append("damage")
    return ", ".join(waits)
