"""What people decide about a task: answers, doubts, what is done again, whether it goes on."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from holdfast_server.cli.command import did, on_workspace, parser_of, plain
from holdfast_server.cli.wording import compact, plural

if TYPE_CHECKING:
    from holdfast_storage import Workspace


def add_parser(commands: Any) -> None:
    """Describe the commands."""
    _add_answer(commands)
    _add_resolve(commands)
    _add_reopen_and_release(commands)
    _add_ack(commands)
    _add_pause_and_finish(commands)


# --- questions --------------------------------------------------------------------------------


def _add_answer(commands: Any) -> None:
    parser = parser_of(
        commands,
        "answer",
        help="answer an agent's question",
        examples=[
            "holdfast answer ingest skip",
            "holdfast answer ingest 'the red one' --question q2",
        ],
    )
    parser.add_argument("task", help="the task")
    parser.add_argument("text", help="your answer")
    parser.add_argument("--question", default="", help="which one, if several are open (q1, q2, …)")
    parser.set_defaults(run=on_workspace(_answer))


async def _answer(workspace: Workspace, options: argparse.Namespace) -> int:
    asked = await workspace.answer(options.task, options.text, options.question)
    return did(options, plain(asked), f"Answered {asked.question_id}: {options.text}")


# --- steps ------------------------------------------------------------------------------------


def _add_resolve(commands: Any) -> None:
    parser = parser_of(
        commands,
        "resolve",
        help="settle a step in doubt: it happened, or it did not",
        description="A step in doubt was begun and never confirmed. Look whether its effect happened "
        "(the mail in the outbox, the row in the table), then say so.",
        examples=[
            "holdfast resolve ingest doc-031 --happened",
            "holdfast resolve ingest doc-031 --did-not-happen",
            "holdfast resolve ingest doc-031 --happened --result '{\"rows\": 4}'",
        ],
    )
    parser.add_argument("task", help="the task")
    parser.add_argument("step", help="the step")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--happened", dest="happened", action="store_true", default=None, help="it is done"
    )
    which.add_argument(
        "--did-not-happen", dest="happened", action="store_false", help="it is pending again"
    )
    parser.add_argument("--result", type=_json_value, help="its result, as JSON")
    parser.set_defaults(run=on_workspace(_resolve))


def _json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!a} is not JSON ({error})") from error


async def _resolve(workspace: Workspace, options: argparse.Namespace) -> int:
    revision = await workspace.resolve(
        options.task, options.step, happened=options.happened, result=options.result
    )
    status = "done" if options.happened else "pending"
    told = {"task": options.task, "step": options.step, "status": status, "revision": revision}
    return did(options, told, f"{options.step} is {status}")


def _add_reopen_and_release(commands: Any) -> None:
    reopen = parser_of(
        commands,
        "reopen",
        help="have finished steps done again",
        description="Make steps pending again, with new idempotency keys.",
        examples=["holdfast reopen ingest doc-012 doc-013"],
    )
    reopen.add_argument("task", help="the task")
    reopen.add_argument("steps", nargs="+", metavar="step", help="the steps")
    reopen.set_defaults(run=on_workspace(_reopen))
    release = parser_of(
        commands,
        "release",
        help="take a step away from an agent that hangs",
        description="End somebody's claim on a step. It is in doubt then, because its effect may have "
        "happened: holdfast resolve settles that.",
        examples=["holdfast release ingest doc-031"],
    )
    release.add_argument("task", help="the task")
    release.add_argument("step", help="the step")
    release.set_defaults(run=on_workspace(_release))


async def _reopen(workspace: Workspace, options: argparse.Namespace) -> int:
    revision = await workspace.reopen(options.task, *options.steps)
    told = {"task": options.task, "steps": options.steps, "revision": revision}
    return did(options, told, f"Pending again: {', '.join(options.steps)}")


async def _release(workspace: Workspace, options: argparse.Namespace) -> int:
    revision = await workspace.release(options.task, options.step)
    told = {"task": options.task, "step": options.step, "revision": revision}
    then = "Look whether its effect happened, then: holdfast resolve TASK STEP --happened"
    return did(options, told, f"{options.step} is in doubt", then)


# --- conflicts --------------------------------------------------------------------------------


def _add_ack(commands: Any) -> None:
    parser = parser_of(
        commands,
        "ack",
        help="stop announcing conflicts you have looked at",
        description="Acknowledge conflicts; without an id, all of them. The files in conflicts/ stay.",
        examples=["holdfast ack ingest", "holdfast ack ingest e629fa65-1"],
    )
    parser.add_argument("task", help="the task")
    parser.add_argument("conflicts", nargs="*", metavar="conflict", help="ids, as show names them")
    parser.set_defaults(run=on_workspace(_ack))


async def _ack(workspace: Workspace, options: argparse.Namespace) -> int:
    seen = list(options.conflicts)
    if seen:
        await workspace.acknowledge(options.task, *seen)
    else:
        # A page at a time, until none is left.
        while conflicts := (await workspace.standing(options.task)).conflicts:
            page = [lost.id for lost in conflicts]
            await workspace.acknowledge(options.task, *page)
            seen += page
    told = {"task": options.task, "acknowledged": seen}
    return did(options, told, f"Acknowledged {plural(len(seen), 'conflict')}")


# --- whether it goes on -----------------------------------------------------------------------


def _add_pause_and_finish(commands: Any) -> None:
    pause = parser_of(
        commands,
        "pause",
        help="stop agents until you let them go on",
        description="What agents still do is recorded, but they are told to stop and get no more steps.",
        examples=["holdfast pause ingest"],
    )
    pause.add_argument("task", help="the task")
    pause.set_defaults(run=on_workspace(_pause))
    unpause = parser_of(
        commands,
        "unpause",
        help="let a paused or failed task go on",
        examples=["holdfast unpause ingest"],
    )
    unpause.add_argument("task", help="the task")
    unpause.set_defaults(run=on_workspace(_unpause))
    finish = parser_of(
        commands,
        "finish",
        help="end a task's run",
        description="End the run as done (only if nothing is open) or abandoned, or lay it down as "
        "failed or paused.",
        examples=[
            "holdfast finish ingest",
            "holdfast finish ingest abandoned --summary 'not needed'",
        ],
    )
    finish.add_argument("task", help="the task")
    finish.add_argument(
        "outcome", nargs="?", default="done", choices=("done", "abandoned", "failed", "paused")
    )
    finish.add_argument("--summary", default="", help="what to remember about it")
    finish.set_defaults(run=on_workspace(_finish))


async def _pause(workspace: Workspace, options: argparse.Namespace) -> int:
    revision = await workspace.pause(options.task)
    told = {"task": options.task, "status": "paused", "revision": revision}
    return did(options, told, f"{options.task} is paused", "To let it go on: holdfast unpause TASK")


async def _unpause(workspace: Workspace, options: argparse.Namespace) -> int:
    revision = await workspace.go_on(options.task)
    status = (await workspace.standing(options.task)).status
    told = {"task": options.task, "status": status, "revision": revision}
    return did(options, told, f"{options.task} is {status}")


async def _finish(workspace: Workspace, options: argparse.Namespace) -> int:
    finished = await workspace.finish(options.task, options.outcome, options.summary)
    left = f", unfinished: {compact(finished.unfinished)}" if finished.unfinished else ""
    return did(options, plain(finished), f"Run {finished.run} is {finished.status}{left}")
