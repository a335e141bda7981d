"""What commands share: their options, an open workspace, and one way to answer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Coroutine, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast_server.cli import exits, wording
from holdfast_server.cli.imports import quick_imports
from holdfast_server.cli.terminal import Screen, Styled

if TYPE_CHECKING:
    from holdfast_storage import Workspace
    from holdfast_storage.core.errors import Unknown

    Work = Callable[[Workspace, argparse.Namespace], Coroutine[Any, Any, int]]

T = TypeVar("T")
_HELP_WIDTH = 78


def parser_of(
    commands: Any,
    name: str,
    *,
    help: str,
    examples: Sequence[str],
    description: str = "",
) -> argparse.ArgumentParser:
    """Describe a command that works on a workspace."""
    lines = "\n         ".join(examples)
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=fill(description or help[:1].upper() + help[1:] + ".", _HELP_WIDTH),
        epilog=f"example: {lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = "the folder (default: found from the current folder)"
    parser.add_argument("--workspace", metavar="FOLDER", help=where)
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    return parser


def on_workspace(work: Work) -> Callable[[argparse.Namespace], int]:
    """Make a command of work on an open workspace."""
    return lambda options: with_workspace(
        options.workspace, lambda workspace: work(workspace, options)
    )


def with_workspace(where: str | None, work: Callable[[Workspace], Coroutine[Any, Any, T]]) -> T:
    """Do some work on an open workspace."""
    with quick_imports():
        import asyncio

        from holdfast_storage.core.errors import Unknown
        from holdfast_storage.workspace import Workspace

    async def in_workspace() -> T:
        async with Workspace.open(where) as workspace:
            try:
                return await work(workspace)
            except Unknown as error:
                if error.kind == "task" and not error.similar:
                    raise await _with_similar(workspace, error) from error
                raise

    return asyncio.run(in_workspace())


async def _with_similar(workspace: Workspace, error: Unknown) -> Unknown:
    """Name the tasks that may have been meant."""
    from holdfast_storage.core import ids

    names = [line.task for line in await workspace.tasks()]
    return type(error)(error.kind, error.name, ids.similar(error.name, names))


def plain(answer: Any) -> Any:
    """Give an answer of the storage as plain JSON."""
    if isinstance(answer, (list, tuple)):
        return [plain(each) for each in answer]  # pyright: ignore[reportUnknownVariableType]
    return answer.model_dump(mode="json", by_alias=True)


def print_json(value: Any) -> None:
    """Write one JSON document: indented for people, one line for programs."""
    shown = wording.pretty(value) if sys.stdout.isatty() else wording.compact(value)
    print(shown)


def did(options: argparse.Namespace, told: dict[str, Any], sentence: str, then: str = "") -> int:
    """Say that something was done, and what to type next."""
    if options.json:
        print_json(told)
        return exits.OK
    screen = Screen()
    screen.line(Styled("✓ ", "green") if screen.is_rich else "", sentence)
    if then and screen.is_rich:
        screen.line(Styled(then, "dim"))
    return exits.OK


def agrees(question: str) -> bool:
    """Ask somebody at the terminal; nobody there means no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    Screen().raw(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
