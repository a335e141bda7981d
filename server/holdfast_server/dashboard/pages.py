"""What all pages share: templates that escape, who asks, forms that only our own pages can send."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from holdfast_server import __version__
from holdfast_server.bearer import TOKEN_NAME
from holdfast_server.dashboard import words
from holdfast_server.http.sessions import Sessions
from holdfast_storage import HoldfastError, Workspace

_FORM_BYTES = 256 * 2**10
_STATUS = {
    "unknown": 404,
    "unavailable": 404,
    "busy": 503,
    "not_saved": 503,
    "damaged": 500,
    "too_large": 413,
    "run_closed": 409,
    "unfinished": 409,
}


def address(view: str, task: str, **query: Any) -> str:
    """Give the address of a view of a task, whatever stands in its id."""
    if task in (".", ".."):
        # A browser takes these for folders wherever they stand in a path.
        query, path = {"id": task, **query}, ""
    else:
        path = quote(task, safe="")
    told = {name: value for name, value in query.items() if value not in ("", None)}
    return f"/{view}/{path}" + (f"?{urlencode(told)}" if told else "")


def task_of(request: Request) -> str:
    """Give the task that an address names."""
    return request.path_params["task"] or request.query_params.get("id", "")


def number_in(values: Mapping[str, str], name: str, otherwise: int = 0) -> int:
    """Read a whole number that somebody typed into a form or an address."""
    text = values.get(name) or str(otherwise)
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"{name} must be a whole number")
    return int(text)


@cache
def _templates() -> Environment:
    """Give the templates; everything that is put into one is escaped, whatever its name."""
    # Typed as anything: jinja2 would only let its own things into these two.
    templates: Any = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals.update(address=address, version=__version__)
    templates.filters.update(words.FILTERS)
    found: Environment = templates
    return found


class Pages:
    """Renders pages and reads forms."""

    def __init__(self, workspace: Workspace, sessions: Sessions) -> None:
        self.workspace, self.sessions = workspace, sessions

    # --- who asks -----------------------------------------------------------------------------

    @staticmethod
    def name_of(request: Request) -> str:
        """Give the name of the token that somebody logged in with, if any."""
        name: str = request.scope.get(TOKEN_NAME, "")
        return name

    def author_of(self, request: Request) -> str:
        """Give whom a person's deeds are recorded as; empty means simply `human`."""
        name = self.name_of(request)
        return f"human:{name}" if name else ""

    async def form(self, request: Request) -> dict[str, str]:
        """Read a form that one of our own pages sent; anything else is refused."""
        raw = await body_of(request, _FORM_BYTES)
        try:
            text = raw.decode(errors="replace")
            fields = parse_qs(text, keep_blank_values=True, max_num_fields=100)
        except ValueError as error:
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "too many fields") from error
        form = {name: values[-1] for name, values in fields.items()}
        self.require_own(request, form.get("proof", ""))
        return form

    def require_own(self, request: Request, proof: str) -> None:
        """Refuse a change that no page of ours asked for.

        The guard has looked whose Origin it is; here it must be named, and the word be known that
        only pages of this session carry.
        """
        is_ours = self.sessions.is_proof(self.sessions.of(request.headers), proof)
        if "origin" not in request.headers or not is_ours:
            problem = "this did not come from a page of ours, or the page is too old: load it again"
            raise HTTPException(HTTPStatus.FORBIDDEN, problem)

    # --- what is answered ---------------------------------------------------------------------

    def page(
        self, request: Request, template: str, *, code: int = 200, **content: Any
    ) -> HTMLResponse:
        """Render a page, beginning a session if there is none."""
        response = HTMLResponse(status_code=code)
        session = self.sessions.of(request.headers) or self.sessions.begin(response)
        text = (
            _templates()
            .get_template(template)
            .render(
                now=datetime.now(UTC),
                proof=self.sessions.proof(session),
                who=self.name_of(request),
                place=self.workspace.location,
                **content,
            )
        )
        response.body = text.encode()
        response.headers["content-length"] = str(len(response.body))
        return response

    def refusal(self, request: Request, error: HoldfastError) -> Response:
        """Say what was refused and what to do next, to a person or to a script of ours."""
        status = _STATUS.get(error.code, 422)
        if wants_json(request):
            told = {"error": error.code, "problem": str(error), **error.fields()}
            return JSONResponse(told, status)
        return self.page(request, "message.html", code=status, title=words.REFUSED, text=str(error))

    def missing(self, request: Request, error: HTTPException) -> Response:
        """Answer what is not there, or not allowed."""
        if wants_json(request):
            told = {"error": HTTPStatus(error.status_code).phrase, "problem": error.detail}
            return JSONResponse(told, error.status_code)
        title = HTTPStatus(error.status_code).phrase
        return self.page(
            request, "message.html", code=error.status_code, title=title, text=error.detail
        )


def wants_json(request: Request) -> bool:
    """Say whether a script of ours asks."""
    return "application/json" in request.headers.get("accept", "")


async def body_of(request: Request, limit: int) -> bytes:
    """Read what was sent, but not more than that."""
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > limit:
            raise HTTPException(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {limit:,} bytes can be sent"
            )
    return bytes(parts)
