"""Edit a task in the browser: the same JSON as in state.json, and the same way back in."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast_server.dashboard import words
from holdfast_server.dashboard.pages import Pages, body_of, task_of
from holdfast_storage.core import strict_json, view
from holdfast_storage.core.seal import embedded_revision

# A state and what is around it.
_MORE_THAN_STATE = 2**20
_EVENTS = 50
PROOF = "x-holdfast-proof"


class Editing:
    """Shows the view and takes it back."""

    def __init__(self, pages: Pages) -> None:
        self._pages, self._workspace = pages, pages.workspace
        self._reader = pages.workspace.caller("page")

    async def show(self, request: Request) -> Response:
        """Show the JSON with an editor around it."""
        task = task_of(request)
        raw = await self._workspace.view(task)
        return self._pages.page(
            request,
            "edit.html",
            standing=await self._workspace.standing(task),
            text=raw.decode(),
            tag=_tag(raw),
        )

    async def schema(self, _: Request) -> Response:
        """Give the JSON Schema that the editor checks by."""
        return JSONResponse(view.schema(), media_type="application/schema+json")

    async def save(self, request: Request) -> Response:
        """Take an edit in, if nobody changed anything since; with `If-Match: *`, merge."""
        self._pages.require_own(request, request.headers.get(PROOF, ""))
        task = task_of(request)
        expected = request.headers.get("if-match", "")
        if not expected:
            problem = "say which version was edited: If-Match, or If-Match: * to merge"
            return _told(HTTPStatus.PRECONDITION_REQUIRED, {"problem": problem})
        limit = self._workspace.settings.limits.state_bytes + _MORE_THAN_STATE
        raw = await body_of(request, limit)
        current = await self._workspace.view(task)
        if expected not in ("*", _tag(current)):
            return await self._overtaken(task, raw, _tag(current))
        edited = await self._workspace.edit(task, raw, by=self._pages.author_of(request))
        now = await self._workspace.view(task)
        return _told(
            HTTPStatus.OK,
            {**edited.model_dump(), "text": now.decode()},
            tag=_tag(now),
        )

    async def _overtaken(self, task: str, raw: bytes, tag: str) -> Response:
        """Say what happened since the version that was edited."""
        document = strict_json.parse_object(raw)
        since = embedded_revision(document) or 0
        listed = await self._reader.list_checkpoints(task, show="events", limit=_EVENTS)
        told = [words.in_words(event) for event in listed.events if event.seq > since]
        changes = [
            {"at": each.at, "by": each.by, "verb": each.verb, "what": each.what, "more": each.more}
            for each in told
        ]
        problem = "somebody saved meanwhile"
        return _told(
            HTTPStatus.PRECONDITION_FAILED, {"problem": problem, "changes": changes}, tag=tag
        )


def _tag(raw: bytes) -> str:
    revision = embedded_revision(strict_json.parse_object(raw))
    return f'"r{revision}"'


def _told(status: HTTPStatus, content: strict_json.JsonObject, tag: str = "") -> Response:
    return JSONResponse(content, status, headers={"etag": tag} if tag else None)
