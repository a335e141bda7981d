"""`holdfast watch`: a live board of all tasks, or a line for each change in a pipe."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast_server.cli import wording
from holdfast_server.cli.command import on_workspace, parser_of
from holdfast_server.cli.ls import HEADERS, LEAST, lines_in, row_of
from holdfast_server.cli.news import News
from holdfast_server.cli.terminal import Screen, Styled

if TYPE_CHECKING:
    from holdfast_storage import Workspace

_REDRAW_SECONDS = 1.0
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"

Lines = Mapping[str, Mapping[str, Any]]


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = parser_of(
        commands,
        "watch",
        help="watch all tasks, live",
        description="Show every task and keep it current until Ctrl-C. In a pipe, write one line for each "
        "task that changed; with --json, one JSON object.",
        examples=["holdfast watch", "holdfast watch --json | jq .status"],
    )
    parser.set_defaults(run=on_workspace(_watch))


async def _watch(workspace: Workspace, options: argparse.Namespace) -> int:
    board = _Board(workspace, options)
    board.open()
    try:
        async with News(workspace) as news:
            while True:
                await board.look()
                while not await news.come(_REDRAW_SECONDS):
                    board.redraw()
    finally:
        board.close()


class _Board:
    """What is shown, and what was shown before."""

    def __init__(self, workspace: Workspace, options: argparse.Namespace) -> None:
        self._workspace = workspace
        self._screen = Screen()
        self._is_live = self._screen.is_rich and not options.json
        self._is_json = options.json
        self._lines: Lines = {}

    def open(self) -> None:
        if self._is_live:
            self._screen.raw(_ENTER)

    def close(self) -> None:
        if self._is_live:
            self._screen.raw(_LEAVE)

    async def look(self) -> None:
        """Read every task's line; say what is new."""
        lines = {line["task"]: line for line in await lines_in(self._workspace)}
        before, self._lines = self._lines, lines
        if self._is_live:
            self._draw()
            return
        for task, line in lines.items():
            if line != before.get(task):
                self._tell(line)
        self._screen.raw("")

    def _tell(self, line: Mapping[str, Any]) -> None:
        if self._is_json:
            self._screen.raw(wording.compact(line) + "\n")
        else:
            self._screen.table(HEADERS, [row_of(line, self._screen)])

    def _draw(self) -> None:
        size = self._screen.size
        rows = [row_of(line, self._screen) for line in self._lines.values()]
        shown = self._screen.table_lines(HEADERS, rows[: max(0, size.lines - 4)], least=LEAST)
        more = len(rows) - (size.lines - 4)
        title = f"Holdfast  {self._workspace.location}  {wording.plural(len(rows), 'task')}"
        lines = [self._screen.painted(Styled(title[: size.columns], "bold")), "", *shown]
        if more > 0:
            lines.append(self._screen.painted(Styled(f"… and {more} more", "dim")))
        self._screen.raw(
            _HOME + "".join(f"{line}{_CLEAR_LINE}\r\n" for line in lines) + _CLEAR_BELOW
        )

    def redraw(self) -> None:
        """Keep "3 s ago" true."""
        if self._is_live:
            self._draw()
