"""One task: where it stands, what happened, its steps and what its agent knows."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from holdfast_server.dashboard import words
from holdfast_server.dashboard.chart import chart_of
from holdfast_server.dashboard.pages import Pages, number_in, task_of
from holdfast_server.dashboard.tree import Node, tree_of
from holdfast_storage.answers import part_of
from holdfast_storage.core.delta import path_of
from holdfast_storage.core.errors import Unavailable
from holdfast_storage.results import Standing

_EVENTS = 50
_STEPS = 50
_RECENT = 30
_STEP_STATUSES = ("pending", "running", "in_doubt", "done", "failed", "skipped")


class TaskPages:
    """Shows one task from several sides."""

    def __init__(self, pages: Pages) -> None:
        self._pages, self._workspace = pages, pages.workspace
        # Looking is no resume: this caller only ever lists.
        self._reader = pages.workspace.caller("page")

    async def overview(self, request: Request) -> Response:
        """Show where a task stands and what it waits for."""
        task = task_of(request)
        standing = await self._workspace.standing(task)
        recent, _ = await self._told(standing, _RECENT)
        return self._pages.page(
            request,
            "task.html",
            standing=standing,
            chart=chart_of(await self._workspace.course(task), standing.progress.total),
            tree=await self._tree(task),
            timeline=recent,
            did=words.DONE.get(request.query_params.get("did", ""), ""),
        )

    async def _tree(self, task: str) -> Node | None:
        """Give what the agent knows; None where damage or pruning made that unknown."""
        try:
            return tree_of(await self._workspace.state_at(task, 0))
        except Unavailable:
            return None

    async def timeline(self, request: Request) -> Response:
        """Show everything that happened, a page at a time."""
        standing = await self._workspace.standing(task_of(request))
        cursor = request.query_params.get("cursor", "")
        timeline, older = await self._told(standing, _EVENTS, cursor)
        return self._pages.page(
            request,
            "timeline.html",
            standing=standing,
            timeline=timeline,
            cursor=cursor,
            older=older,
        )

    async def _told(
        self, standing: Standing, limit: int, cursor: str = ""
    ) -> tuple[list[words.Told | words.Several], str]:
        """Give a page of what happened, and the cursor of the next."""
        listed = await self._reader.list_checkpoints(
            standing.task, show="events", limit=limit, cursor=cursor
        )
        loads = await self._workspace.loads(standing.task)
        return words.timeline(listed.events, loads, standing.questions), listed.cursor

    async def steps(self, request: Request) -> Response:
        """Show steps with their results, a page at a time."""
        standing = await self._workspace.standing(task_of(request))
        query = request.query_params
        status = query.get("status", "")
        listed = await self._reader.list_checkpoints(
            standing.task,
            show="steps",
            status=status,
            limit=_STEPS,
            cursor=query.get("cursor", ""),
        )
        return self._pages.page(
            request,
            "steps.html",
            standing=standing,
            steps=listed.steps,
            status=status,
            statuses=_STEP_STATUSES,
            cursor=query.get("cursor", ""),
            following=listed.cursor,
        )

    async def state(self, request: Request) -> Response:
        """Show a part of the state that is too large for the overview, or of an older checkpoint."""
        query = request.query_params
        standing = await self._workspace.standing(task_of(request))
        path, start = query.get("path", ""), number_in(query, "from")
        checkpoint = number_in(query, "checkpoint")
        value = part_of(await self._workspace.state_at(standing.task, checkpoint), path)
        return self._pages.page(
            request,
            "state.html",
            standing=standing,
            tree=tree_of(value, path_of(path) if path else (), start),
            path=path,
            start=start,
            checkpoint=checkpoint,
            text=value if isinstance(value, str) else "",
        )
