"""`holdfast show`: where one task stands, what it waits for, and what it knows."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from holdfast_server.cli import exits, wording
from holdfast_server.cli.command import on_workspace, parser_of, plain, print_json
from holdfast_server.cli.terminal import Screen, Styled, bar, status

if TYPE_CHECKING:
    from holdfast_storage import Workspace
    from holdfast_storage.results import Brief, Standing

# Enough for everything but the state, which is shown apart and whole.
_TOKENS = 1_000_000
_LISTED = 10


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = parser_of(
        commands,
        "show",
        help="show where a task stands, or one of its checkpoints",
        examples=["holdfast show ingest", "holdfast show ingest 12", "holdfast show ingest --json"],
    )
    parser.add_argument("task", help="the task")
    parser.add_argument("checkpoint", nargs="?", type=int, default=0, help="a checkpoint's number")
    parser.set_defaults(run=on_workspace(_show))


async def _show(workspace: Workspace, options: argparse.Namespace) -> int:
    if options.checkpoint:
        return await _show_checkpoint(workspace, options)
    standing = await workspace.standing(options.task)
    brief = await workspace.brief(options.task, max_tokens=_TOKENS)
    # What was saved may be damaged or pruned; unknown is not empty.
    state = None if brief.state is None else await workspace.state_at(options.task, 0)
    if options.json:
        more = {"remaining": brief.remaining, "refs": plain(brief.refs), "state": state}
        print_json({**plain(standing), **more})
        return exits.OK
    screen = Screen()
    _head(screen, standing)
    _needs(screen, standing)
    _work(screen, standing, brief)
    screen.line(Styled("state", "bold"))
    unknown = "unknown: what was saved cannot be read; holdfast check shows why"
    screen.block(unknown if state is None else wording.pretty(state))
    return exits.OK


async def _show_checkpoint(workspace: Workspace, options: argparse.Namespace) -> int:
    state = await workspace.state_at(options.task, options.checkpoint)
    brief = await workspace.brief(options.task, checkpoint=options.checkpoint)
    about = {
        name: getattr(brief, name)
        for name in ("task", "checkpoint", "label", "saved_at", "saved_by", "current")
    }
    if options.json:
        print_json({**about, "state": state})
        return exits.OK
    screen = Screen()
    label = f" {brief.label}" if brief.label else ""
    screen.line(Styled(f"{brief.task}, checkpoint {brief.checkpoint}{label}", "bold"))
    screen.line(f"saved {brief.saved_at} by {brief.saved_by}")
    screen.block(wording.pretty(state))
    if not brief.current and screen.is_rich:
        back = f"holdfast rewind {shlex.quote(brief.task)} {brief.checkpoint}"
        screen.line(Styled(f"To go back to it: {back}", "dim"))
    return exits.OK


def _head(screen: Screen, standing: Standing) -> None:
    screen.line(Styled(standing.task, "bold"), "  ", status(standing.status))
    if standing.goal:
        screen.block(standing.goal)
    progress = standing.progress
    if progress.total:
        failed = f", {progress.failed} failed" if progress.failed else ""
        drawn = f"{bar(progress.done, progress.total)} " if screen.is_rich else ""
        screen.line(
            "progress  ", Styled(drawn, "green"), f"{progress.done}/{progress.total}{failed}"
        )
    if standing.next:
        screen.line("next      ", standing.next)
    when = wording.ago(standing.updated_at) if screen.is_rich else standing.updated_at
    screen.line("last      ", f"{standing.by}, {when}")
    screen.line(
        "run       ",
        f"{standing.run}, checkpoint {standing.checkpoint}, revision {standing.revision}, "
        f"resumed {wording.plural(progress.resumes, 'time')}",
    )
    if standing.summary:
        screen.line("summary   ", standing.summary)


def _needs(screen: Screen, standing: Standing) -> None:
    """Say what waits for a person, each with the command that settles it."""
    task = shlex.quote(standing.task)
    for warning in standing.warnings:
        screen.line(Styled("warning   ", "yellow"), warning)
    for question in standing.questions:
        if question.status == "waiting":
            options = f" ({', '.join(question.options)})" if question.options else ""
            screen.line(Styled(f"question  {question.id} ", "yellow"), question.question, options)
            screen.line(f"          holdfast answer {task} TEXT --question {question.id}")
    for step in standing.in_doubt[:_LISTED]:
        by = f", begun by {step.by}" if step.by else ""
        screen.line(Styled("in doubt  ", "yellow"), f"{step.step}{by}")
        name = shlex.quote(step.step)
        screen.line(f"          holdfast resolve {task} {name} --happened (or --did-not-happen)")
    if standing.in_doubt_count > _LISTED:
        screen.line(
            f"          and {standing.in_doubt_count - _LISTED} more: holdfast steps {task}"
        )
    for lost in standing.conflicts[:_LISTED]:
        screen.line(
            Styled("conflict  ", "yellow"), f"{lost.path or 'a whole file'}, see {lost.file}"
        )
        screen.line(f"          holdfast ack {task} {lost.id}")
    if standing.damaged:
        screen.line(
            Styled("damaged   ", "red"), "holdfast check shows it; then holdfast check --accept"
        )
    if standing.status == "paused":
        screen.line(Styled("paused    ", "cyan"), f"holdfast unpause {task}")


def _work(screen: Screen, standing: Standing, brief: Brief) -> None:
    for step in standing.running[:_LISTED]:
        when = wording.ago(step.at) if screen.is_rich else step.at
        screen.line(Styled("running   ", "green"), f"{step.step}, {step.by}, {when}")
    if brief.remaining:
        more = f" and more: holdfast steps {shlex.quote(standing.task)}"
        shown = ", ".join(brief.remaining[:_LISTED])
        screen.line("to do     ", shown, more if len(brief.remaining) > _LISTED else "")
    for ref in brief.refs:
        if ref.status in ("missing", "changed"):
            screen.line(Styled("ref       ", "yellow"), f"{ref.ref} is {ref.status}")
