"""`holdfast log`, `steps` and `diff`: how a task came to stand where it stands."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from holdfast_server.cli import exits, wording
from holdfast_server.cli.command import on_workspace, parser_of, plain, print_json
from holdfast_server.cli.terminal import Part, Screen, Styled, status

if TYPE_CHECKING:
    from holdfast_storage import Workspace
    from holdfast_storage.results import CheckpointLine, Difference, Event, StepLine

_PAGE = 200
_SHOWN = 30
_VALUE_SHOWN = 400
STEP_STATUSES = ("pending", "running", "in_doubt", "done", "failed", "skipped")


def add_parser(commands: Any) -> None:
    """Describe the commands."""
    log = parser_of(
        commands,
        "log",
        help="show what happened to a task, newest first",
        examples=[
            "holdfast log ingest",
            "holdfast log ingest --checkpoints",
            "holdfast log ingest --limit 0 | grep human",
        ],
    )
    log.add_argument("task", help="the task")
    log.add_argument("--checkpoints", action="store_true", help="only the checkpoints")
    _add_limit(log)
    log.set_defaults(run=on_workspace(_log))
    steps = parser_of(
        commands,
        "steps",
        help="list the steps of a task's run, in order",
        examples=["holdfast steps ingest", "holdfast steps ingest --status failed"],
    )
    steps.add_argument("task", help="the task")
    steps.add_argument("--status", choices=STEP_STATUSES, default="", help="only those")
    _add_limit(steps)
    steps.set_defaults(run=on_workspace(_steps))
    diff = parser_of(
        commands,
        "diff",
        help="show what changed in a task's state",
        description="Show what changed between two checkpoints. Without numbers: with the last save "
        "and since; with one: from that checkpoint to now. 0 is now.",
        examples=["holdfast diff ingest", "holdfast diff ingest 7", "holdfast diff ingest 7 12"],
    )
    diff.add_argument("task", help="the task")
    diff.add_argument("a", nargs="?", type=int, help="the older checkpoint")
    diff.add_argument("b", nargs="?", type=int, default=0, help="the newer one (default: now)")
    diff.set_defaults(run=on_workspace(_diff))


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=int, help=f"how many (default: {_SHOWN} on a terminal, else all; 0: all)"
    )


async def _pages(
    workspace: Workspace,
    options: argparse.Namespace,
    show: Literal["events", "steps", "checkpoints"],
    status: str = "",
) -> tuple[list[Any], bool]:
    """Give as many lines as are wanted, and whether there are more."""
    caller = workspace.caller("holdfast")
    most = _most(options)
    found: list[Any] = []
    cursor = ""
    while True:
        page = await caller.list_checkpoints(
            options.task, show=show, status=status, limit=_PAGE, cursor=cursor
        )
        found += getattr(page, show)
        cursor = page.cursor
        if not cursor or (most and len(found) > most):
            return (found[:most], len(found) > most) if most else (found, False)


def _most(options: argparse.Namespace) -> int:
    limit: int | None = options.limit
    if limit is not None:
        return max(0, limit)
    return _SHOWN if Screen().is_rich and not options.json else 0


def _say_more(screen: Screen, has_more: bool) -> None:
    if has_more and screen.is_rich:
        screen.line(Styled("… and more: --limit 0 shows all", "dim"))


# --- log --------------------------------------------------------------------------------------


async def _log(workspace: Workspace, options: argparse.Namespace) -> int:
    if options.checkpoints:
        return await _log_checkpoints(workspace, options)
    events, has_more = await _pages(workspace, options, "events")
    if options.json:
        print_json(plain(events))
        return exits.OK
    screen = Screen()
    rows = [_event_row(event, screen) for event in events]
    screen.table(("REVISION", "WHEN", "BY", "WHAT"), rows, least=("WHAT",))
    _say_more(screen, has_more)
    return exits.OK


def _when(at: str, screen: Screen) -> str:
    return wording.ago(at) if screen.is_rich and at else at


def _event_row(event: Event, screen: Screen) -> tuple[Part, ...]:
    by = Styled(event.by, "cyan") if event.by.split(":")[0] == "human" else event.by
    return str(event.seq), _when(event.at, screen), by, told(event)


def told(event: Event) -> str:
    """Say in a sentence what happened."""
    about = event.about
    sentence = _SENTENCES.get(event.op, event.op).format_map(_Facts(about))
    changed = about.get("changed")
    if event.op == "save" and about.get("restored_from"):
        sentence = f"went back to checkpoint {about['restored_from']}, as {about['checkpoint']}"
    if about.get("label"):
        sentence += f" ({about['label']})"
    if changed:
        sentence += ": " + ", ".join(changed)
    return sentence


class _Facts(dict[str, Any]):
    """What a record says, in words; what it does not say is left out."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        happened = {True: "happened", False: "did not happen"}.get(about.get("happened", ""), "")
        pinned = "pinned" if about.get("pinned") else "no longer pinned"
        super().__init__(about)
        self.update(
            outcome=about.get("outcome", "done"),
            happened=happened,
            pinned=pinned,
            steps=_listed(about.get("steps", ())),
            checkpoints=_listed(about.get("checkpoints", ())),
            answer=wording.compact(about.get("answer")),
        )

    def __missing__(self, key: str) -> str:
        return ""


def _listed(names: Any) -> str:
    return ", ".join(map(str, names))


_SENTENCES = {
    "save": "saved checkpoint {checkpoint}",
    "done": "step {step}: {outcome}",
    "begin": "began step {step}",
    "release": "released step {step}: in doubt",
    "resolve": "step {step} {happened}",
    "reopen": "reopened {steps}",
    "edit": "edited",
    "ask": "asked {question_id}",
    "answer": "answered {question_id}: {answer}",
    "finish": "set to {outcome}",
    "pin": "checkpoint {checkpoint} is {pinned}",
    "prune": "pruned checkpoints {checkpoints}",
    "restore": "restored checkpoints {checkpoints}",
    "fork": "forked from another task",
    "acknowledge": "acknowledged",
    "write": "kept what a node of a graph wrote",
    "damaged": "a line that cannot be believed: {problem}",
}


async def _log_checkpoints(workspace: Workspace, options: argparse.Namespace) -> int:
    lines, has_more = await _pages(workspace, options, "checkpoints")
    if options.json:
        print_json(plain(lines))
        return exits.OK
    screen = Screen()
    rows = [_checkpoint_row(line, screen) for line in lines]
    screen.table(("CHECKPOINT", "LABEL", "WHEN", "BY", "SIZE", ""), rows)
    _say_more(screen, has_more)
    return exits.OK


def _checkpoint_row(line: CheckpointLine, screen: Screen) -> tuple[Part, ...]:
    flags = {
        "milestone": line.milestone,
        "pinned": line.pinned,
        f"from {line.restored_from}": bool(line.restored_from),
        "not available": not line.available,
    }
    said = ", ".join(name for name, is_set in flags.items() if is_set)
    size = wording.size(line.bytes) if screen.is_rich else str(line.bytes)
    return str(line.checkpoint), line.label, _when(line.at, screen), line.by, size, said


# --- steps ------------------------------------------------------------------------------------


async def _steps(workspace: Workspace, options: argparse.Namespace) -> int:
    lines, has_more = await _pages(workspace, options, "steps", options.status)
    if options.json:
        print_json(plain(lines))
        return exits.OK
    screen = Screen()
    rows = [_step_row(line, screen) for line in lines]
    screen.table(("STEP", "STATUS", "ATTEMPTS", "WHEN", "BY", "RESULT"), rows, least=("RESULT",))
    _say_more(screen, has_more)
    return exits.OK


def _step_row(line: StepLine, screen: Screen) -> tuple[Part, ...]:
    result = "" if line.result is None else wording.compact(line.result)
    when = _when(line.at, screen)
    return line.step, status(line.status), str(line.attempts), when, line.by, result


# --- diff -------------------------------------------------------------------------------------


async def _diff(workspace: Workspace, options: argparse.Namespace) -> int:
    a = options.a
    if a is None:
        newest = (await workspace.standing(options.task)).checkpoint
        a = max(newest - 1, 1)
    found = await workspace.diff(options.task, a, options.b)
    if options.json:
        print_json(plain(found))
        return exits.OK
    screen = Screen()
    if screen.is_rich:
        until = f"checkpoint {options.b}" if options.b else "now"
        screen.line(Styled(f"{options.task}: from checkpoint {a} to {until}", "bold"))
        if not found:
            screen.line(Styled("nothing changed", "dim"))
    for difference in found:
        _write_difference(screen, difference)
    return exits.OK


def _write_difference(screen: Screen, difference: Difference) -> None:
    most = _VALUE_SHOWN if screen.is_rich else 0
    if difference.kind != "added":
        old = wording.compact(difference.old, most)
        screen.line(Styled(f"- {difference.path}: {old}", "red"))
    if difference.kind != "removed":
        new = wording.compact(difference.new, most)
        screen.line(Styled(f"+ {difference.path}: {new}", "green"))
