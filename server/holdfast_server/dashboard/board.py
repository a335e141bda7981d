"""The board: every task at a glance, those that wait for a person first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from holdfast_server.dashboard.pages import Pages, number_in
from holdfast_storage.core.errors import MISFITS, HoldfastError
from holdfast_storage.results import Standing, TaskLine

_ROWS = 50
_OPEN = ("active", "waiting", "paused", "failed")
_SHOWS = ("all", "needs-you", "active", "waiting", "paused", "failed", "done", "abandoned")


@dataclass(frozen=True, slots=True)
class Row:
    """One task on the board; what is finished or cannot be read needs no second look."""

    line: TaskLine
    standing: Standing | None = None


class Board:
    """Shows tasks, a page at a time."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def show(self, request: Request) -> Response:
        """Show the board."""
        query = request.query_params
        show = query.get("show", "all")
        sought = query.get("q", "").strip()[:200]
        lines = await self._pages.workspace.tasks()
        waiting = {line.task for line in lines if await self._needs_person(line)}
        counts = Counter(line.status for line in lines)
        counts["all"], counts["needs-you"] = len(lines), len(waiting)
        found = [
            line
            for line in lines
            if _says(line, sought)
            and (line.task in waiting if show == "needs-you" else show in ("all", line.status))
        ]
        # Stable, so among equals the most recently touched stay first.
        found.sort(key=lambda line: line.task not in waiting)
        last = max(1, -(-len(found) // _ROWS))
        number = min(max(1, number_in(query, "page", 1)), last)
        rows = [await self._row(line) for line in found[(number - 1) * _ROWS : number * _ROWS]]
        told = {"show": show if show != "all" else "", "q": sought}
        return self._pages.page(
            request,
            "board.html",
            rows=rows,
            show=show,
            shows=[name for name in _SHOWS if counts[name] or name in ("all", show)],
            counts=counts,
            sought=sought,
            found=len(found),
            first=(number - 1) * _ROWS + 1,
            number=number,
            last=last,
            kept=urlencode({name: value for name, value in told.items() if value}),
        )

    async def _needs_person(self, line: TaskLine) -> bool:
        """Say whether a task cannot go on, or not well, without a person."""
        if line.questions or line.in_doubt or line.conflicts or line.damaged:
            return True
        if line.begun and line.status in _OPEN:
            # Whoever began may be gone by now; only few tasks have steps under way.
            standing = (await self._row(line)).standing
            return standing is not None and standing.in_doubt_count > 0
        return line.status in ("failed", "damaged")

    async def _row(self, line: TaskLine) -> Row:
        if line.problem or line.status not in _OPEN:
            return Row(line)
        try:
            return Row(line, await self._pages.workspace.standing(line.task))
        except (HoldfastError, *MISFITS) as error:
            return Row(line.model_copy(update={"damaged": True, "problem": str(error)}))


def _says(line: TaskLine, sought: str) -> bool:
    words = f"{line.task} {line.goal} {line.next} {line.by}".casefold()
    return sought.casefold() in words
