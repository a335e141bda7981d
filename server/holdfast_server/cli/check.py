"""`holdfast check`: verify everything that was kept, mend what can be mended, accept what cannot."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from holdfast_server.cli import exits, wording
from holdfast_server.cli.command import on_workspace, parser_of, plain, print_json
from holdfast_server.cli.terminal import Screen, Styled

if TYPE_CHECKING:
    from holdfast_storage import Workspace
    from holdfast_storage.results import Problem


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = parser_of(
        commands,
        "check",
        help="verify everything, read-only",
        description="Verify every journal, checkpoint and file; nothing is changed. The exit status is 4 if "
        "something is wrong. --repair sets aside what is broken and deletes nothing. --accept ends the "
        "warning about a damaged journal: what it may have lost is no longer in doubt.",
        examples=[
            "holdfast check",
            "holdfast check ingest",
            "holdfast check --repair",
            "holdfast check ingest --accept",
        ],
    )
    parser.add_argument("task", nargs="?", default="", help="only this task (default: everything)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--repair", action="store_true", help="move what is broken to quarantine/")
    how.add_argument("--accept", action="store_true", help="accept what a damaged journal lost")
    parser.set_defaults(run=on_workspace(_check))


async def _check(workspace: Workspace, options: argparse.Namespace) -> int:
    if options.task:
        await workspace.standing(options.task)  # or there is no such task
    if options.accept:
        return await _accept(workspace, options)
    found = _of(await workspace.check(repair=options.repair), options.task)
    left = _of(await workspace.check(), options.task) if options.repair and found else found
    if options.json:
        print_json({"problems": plain(found), "left": plain(left)})
        return exits.PROBLEMS if left else exits.OK
    screen = Screen()
    for problem in found:
        _write(screen, problem, is_repaired=options.repair)
    if not found:
        if screen.is_rich:
            screen.line(Styled("✓ ", "green"), f"All is well in {workspace.location}")
    elif screen.is_rich:
        _say_what_to_do(screen, left, options)
    return exits.PROBLEMS if left else exits.OK


def _of(problems: list[Problem], task: str) -> list[Problem]:
    return [problem for problem in problems if not task or problem.task == task]


def _write(screen: Screen, problem: Problem, *, is_repaired: bool) -> None:
    line = f":{problem.line}" if problem.line else ""
    screen.line(Styled(f"{problem.file}{line}", "bold"), ": ", problem.problem)
    if problem.repair:
        how = "repaired" if is_repaired else "--repair would"
        screen.line(Styled(f"  {how}: {problem.repair}", "dim"))


def _say_what_to_do(screen: Screen, left: list[Problem], options: argparse.Namespace) -> None:
    count = wording.plural(len(left), "problem")
    if not left:
        screen.line(Styled("✓ ", "green"), "All of it is repaired")
    elif not options.repair and any(problem.repair for problem in left):
        screen.line(
            f"{count}. holdfast check --repair sets aside what is broken, deleting nothing."
        )
    else:
        screen.line(f"{count} left. Once you have looked at them: holdfast check --accept")


async def _accept(workspace: Workspace, options: argparse.Namespace) -> int:
    tasks = [options.task] if options.task else [line.task for line in await workspace.tasks()]
    accepted: list[str] = []
    for task in tasks:
        if (await workspace.standing(task)).damaged:
            await workspace.acknowledge(task, damage=True)
            accepted.append(task)
    if options.json:
        print_json({"accepted": accepted})
        return exits.OK
    screen = Screen()
    if accepted:
        screen.line(f"Accepted what was lost in {', '.join(accepted)}")
    elif screen.is_rich:
        screen.line(Styled("No journal is damaged.", "dim"))
    return exits.OK
