"""Log in with a token, where tokens are set."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast_server.dashboard.pages import Pages


class Login:
    """The one form that a stranger sees."""

    def __init__(self, pages: Pages) -> None:
        self._pages, self._sessions = pages, pages.sessions

    async def form(self, request: Request) -> Response:
        """Show the form."""
        return self._form(request, request.query_params.get("next", ""))

    async def log_in(self, request: Request) -> Response:
        """Take a token, and give a cookie for it."""
        form = await self._pages.form(request)
        token, wanted = form.get("token", "").strip(), form.get("next", "")
        if not self._sessions.is_token(token):
            return self._form(request, wanted, problem="That is not a token that counts here.")
        response = RedirectResponse(_local(wanted), HTTPStatus.SEE_OTHER)
        # A new session: one that was known before the log-in must not be logged in by it.
        self._sessions.begin(response, token)
        return response

    async def log_out(self, request: Request) -> Response:
        """Let the cookie stand for nothing any more."""
        await self._pages.form(request)
        response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        self._sessions.end(self._sessions.of(request.headers), response)
        return response

    def _form(self, request: Request, wanted: str, problem: str = "") -> Response:
        status = HTTPStatus.FORBIDDEN if problem else HTTPStatus.OK
        return self._pages.page(
            request, "login.html", code=status, wanted=_local(wanted), problem=problem
        )


def _local(wanted: str) -> str:
    """Go back only to a page of ours: a browser takes `//` and a backslash for another host."""
    is_ours = wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted
    return wanted if is_ours and wanted.isprintable() else "/"
