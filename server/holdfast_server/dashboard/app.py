"""The page as a web application: its addresses, and what every answer of it carries."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast_server.dashboard.actions import Actions
from holdfast_server.dashboard.board import Board
from holdfast_server.dashboard.checkpoints import Checkpoints
from holdfast_server.dashboard.editing import Editing
from holdfast_server.dashboard.live import Live
from holdfast_server.dashboard.login import Login
from holdfast_server.dashboard.pages import Pages
from holdfast_server.dashboard.task import TaskPages
from holdfast_server.http.sessions import Sessions
from holdfast_storage import HoldfastError, Workspace

_STATIC = Path(__file__).parent / "static"

# What somebody may have who has not logged in: the form, and what it looks like.
FOR_STRANGERS = frozenset({"/login", *(f"/static/{file.name}" for file in _STATIC.iterdir())})

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not "no-referrer": browsers would then send `Origin: null` with our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
# What is stored is nobody else's, so it stays in no cache; scripts and styles are asked for again.
_CACHING = {"/static/": "no-cache"}


def page_app(workspace: Workspace, sessions: Sessions) -> ASGIApp:
    """Put the page together."""
    pages = Pages(workspace, sessions)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HoldfastError)
        return pages.refusal(request, error)

    async def missing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return pages.missing(request, error)

    app = Starlette(
        routes=_routes(pages),
        exception_handlers={HoldfastError: refused, HTTPException: missing},
    )
    return Sealed(app)


def _routes(pages: Pages) -> list[BaseRoute]:
    board, task, checkpoints = Board(pages), TaskPages(pages), Checkpoints(pages)
    editing, actions, login = Editing(pages), Actions(pages), Login(pages)
    return [
        Route("/", board.show),
        Route("/live", Live(pages.workspace).stream),
        Route("/task/{task:path}", task.overview),
        Route("/timeline/{task:path}", task.timeline),
        Route("/steps/{task:path}", task.steps),
        Route("/state/{task:path}", task.state),
        Route("/checkpoints/{task:path}", checkpoints.show),
        Route("/diff/{task:path}", checkpoints.diff),
        Route("/prune/{task:path}", checkpoints.prune),
        Route("/edit/{task:path}", editing.show),
        Route("/edit/{task:path}", editing.save, methods=["PUT"]),
        Route("/schema.json", editing.schema),
        Route("/act/{task:path}", actions.act, methods=["POST"]),
        Route("/login", login.form),
        Route("/login", login.log_in, methods=["POST"]),
        Route("/logout", login.log_out, methods=["POST"]),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]


class Sealed:
    """Gives every answer the headers that keep stored text from becoming anything but text."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add the headers to its answer."""
        path = scope.get("path", "")
        caching = next((rule for at, rule in _CACHING.items() if path.startswith(at)), "no-store")
        added = {**_HEADERS, "cache-control": caching}

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in added.items()),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)
