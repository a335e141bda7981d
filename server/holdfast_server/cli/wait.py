"""`holdfast wait`: sleep until a person has done something, so that a script can wake the agent."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from holdfast_server.cli import exits
from holdfast_server.cli.command import on_workspace, parser_of, print_json
from holdfast_server.cli.news import News
from holdfast_server.cli.terminal import Screen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast_storage import Workspace
    from holdfast_storage.results import Event

_PAGE = 50
_STATUS = {
    "answered": exits.ANSWERED,
    "changed": exits.CHANGED,
    "unpaused": exits.UNPAUSED,
    "finished": exits.FINISHED,
    "timed_out": exits.TIMED_OUT,
}
# What people do that gives an agent nothing new to do.
_UPKEEP = ("pin", "prune", "restore", "acknowledge")
_RANK = ("finished", "answered", "unpaused", "changed")


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = parser_of(
        commands,
        "wait",
        help="sleep until a person has answered, changed or un-paused a task",
        description="Return when a person did something after the agent's last sign of life, also before "
        "this was started. The exit status says what: 10 a question was answered, 11 something was "
        "changed, 12 the task was un-paused, 13 its run is over, 14 the time ran out. While a person has "
        "paused the task it sleeps on.",
        examples=[
            "holdfast wait ingest; claude --continue",
            "holdfast wait ingest --timeout 3600; [ $? -eq 10 ] && ./resume",
        ],
    )
    parser.add_argument("task", help="the task")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="how long at most")
    parser.set_defaults(run=on_workspace(_wait))


async def _wait(workspace: Workspace, options: argparse.Namespace) -> int:
    await workspace.standing(options.task)  # or there is no such task
    try:
        async with asyncio.timeout(options.timeout):
            happened = await _happening(workspace, options.task)
    except TimeoutError:
        happened = "timed_out"
    if options.json:
        print_json({"task": options.task, "happened": happened, "status": _STATUS[happened]})
    else:
        Screen().line(happened)
    return _STATUS[happened]


async def _happening(workspace: Workspace, task: str) -> str:
    async with News(workspace) as news:
        while not (happened := await what_happened(workspace, task)):
            await news.come()
        return happened


async def what_happened(workspace: Workspace, task: str) -> str:
    """Say what a person did since the agent's last record; nothing is ""."""
    standing = await workspace.standing(task)
    if standing.status in ("done", "abandoned"):
        return "finished"
    if standing.paused_by_person:
        return ""
    found = {_meaning(event) async for event in _since_the_agent(workspace, task)}
    return next((each for each in _RANK if each in found), "")


async def _since_the_agent(workspace: Workspace, task: str) -> AsyncIterator[Event]:
    caller, cursor = workspace.caller("holdfast"), ""
    while True:
        page = await caller.list_checkpoints(task, show="events", limit=_PAGE, cursor=cursor)
        for event in page.events:
            if event.by == "retention":
                continue
            if event.by.partition(":")[0] != "human":
                return
            yield event
        cursor = page.cursor
        if not cursor:
            return


def _meaning(event: Event) -> str:
    about = event.about
    if event.op in _UPKEEP or "paused" in (about.get("status"), about.get("outcome")):
        return ""
    if event.op == "answer" or "answers" in about:
        return "answered"
    if "active" in (about.get("status"), about.get("outcome")):
        return "unpaused"
    return "changed"
