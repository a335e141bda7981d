"""Checkpoints: a list to choose from, two side by side, and what prune would take."""

from __future__ import annotations

import time
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, takewhile, zip_longest
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast_server.dashboard.pages import Pages, number_in, task_of
from holdfast_storage.core.strict_json import pretty
from holdfast_storage.results import Difference

_LISTED = 50
_DIFFERENCES = 200
# Comparing costs lines times lines, and at worst times lines again, while everybody else waits.
_LINES_COMPARED = 400
_SECONDS_COMPARED = 0.2
_LINES_SHOWN = 400
_LINE_SHOWN = 2000
_AROUND = 3


@dataclass(frozen=True, slots=True)
class Line:
    """A line of one side, the other side, or both."""

    old: str | None
    new: str | None

    @property
    def kind(self) -> str:
        """How it looks: same, added, removed or changed."""
        if self.old is None:
            return "added"
        if self.new is None:
            return "removed"
        return "same" if self.old == self.new else "changed"


class Checkpoints:
    """Shows what was saved, and the difference between any two."""

    def __init__(self, pages: Pages) -> None:
        self._pages, self._workspace = pages, pages.workspace
        self._reader = pages.workspace.caller("page")

    async def show(self, request: Request) -> Response:
        """List checkpoints, the newest first."""
        standing = await self._workspace.standing(task_of(request))
        cursor = request.query_params.get("cursor", "")
        listed = await self._reader.list_checkpoints(standing.task, limit=_LISTED, cursor=cursor)
        return self._pages.page(
            request,
            "checkpoints.html",
            standing=standing,
            checkpoints=listed.checkpoints,
            cursor=cursor,
            older=listed.cursor,
        )

    async def diff(self, request: Request) -> Response:
        """Show two checkpoints side by side; 0 is the state as it is now."""
        standing = await self._workspace.standing(task_of(request))
        old = number_in(request.query_params, "a")
        new = number_in(request.query_params, "b")
        if new and old > new:
            old, new = new, old
        found = await self._workspace.diff(standing.task, old, new)
        until = time.monotonic() + _SECONDS_COMPARED
        return self._pages.page(
            request,
            "diff.html",
            standing=standing,
            old=old,
            new=new,
            found=len(found),
            differences=[(each, side_by_side(each, until)) for each in found[:_DIFFERENCES]],
        )

    async def prune(self, request: Request) -> Response:
        """Show what prune would take and why, before anything is taken."""
        standing = await self._workspace.standing(task_of(request))
        retention = self._workspace.settings.retention
        keep_last = number_in(request.query_params, "keep_last", retention.keep_last)
        hours = number_in(request.query_params, "hours", int(retention.older_than_hours))
        plan = await self._workspace.prune(standing.task, keep_last, hours, dry_run=True)
        return self._pages.page(
            request, "prune.html", standing=standing, plan=plan, keep_last=keep_last, hours=hours
        )


def side_by_side(difference: Difference, until: float) -> list[Line]:
    """Lay the old and the new value beside each other, line by line, without most of what is equal.

    After `until` nothing more is compared: the one is shown, then the other.
    """
    old = _lines(difference.old) if difference.kind != "added" else []
    new = _lines(difference.new) if difference.kind != "removed" else []
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle = _compared(old[head : len(old) - tail], new[head : len(new) - tail], until)
    same = [Line(line, line) for line in old]
    return _shortened([*same[:head], *middle, *same[len(same) - tail :]])


def _lines(value: Any) -> list[str]:
    return [
        line if len(line) <= _LINE_SHOWN else f"{line[:_LINE_SHOWN]}… {len(line):,} characters"
        for line in pretty(value).decode().splitlines()
    ]


def _common(old: list[str], new: list[str]) -> int:
    """Count the lines at the beginning that are the same."""
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _compared(old: list[str], new: list[str], until: float) -> list[Line]:
    if max(len(old), len(new)) > _LINES_COMPARED or time.monotonic() > until:
        return [*(Line(line, None) for line in old), *(Line(None, line) for line in new)]
    lines: list[Line] = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [Line(line, line) for line in old[a:b]]
        else:
            lines += [Line(*pair) for pair in zip_longest(old[a:b], new[c:d])]
    return lines


def _shortened(lines: list[Line]) -> list[Line]:
    """Leave out equal lines far from what differs, and say how many."""
    shown: list[Line] = []
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.kind == "same")]
    for number, run in enumerate(runs):
        before = _AROUND if number else 0
        after = _AROUND if number + 1 < len(runs) else 0
        if run[0].kind == "same" and len(run) > before + after + 1:
            left_out = f"… {len(run) - before - after:,} equal lines"
            run = [*run[:before], Line(left_out, left_out), *run[len(run) - after :]]
        shown += run
    if len(shown) > _LINES_SHOWN:
        more = f"… {len(shown) - _LINES_SHOWN:,} more lines"
        return [*shown[:_LINES_SHOWN], Line(more, more)]
    return shown
