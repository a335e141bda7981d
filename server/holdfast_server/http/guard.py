"""Who may come in: the right Host and Origin, a known token, not too often, not too many at once."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast_server.bearer import TOKEN_NAME
from holdfast_server.http.sessions import Sessions
from holdfast_server.http.tokens import Tokens
from holdfast_server.observe import LOG
from holdfast_storage import HoldfastError

_CLIENTS_REMEMBERED = 10_000
_IN_A_SECOND = {"retry-after": "1"}


@dataclass(frozen=True, slots=True)
class Rules:
    """What the guard goes by."""

    hosts: frozenset[str]
    requests_per_second: float = 50
    burst: int = 200
    # Requests and streams that are open; one caller must not shut the others out.
    at_once: int = 1000
    at_once_each: int = 100
    public: frozenset[str] = frozenset({"/health"})
    # Where programs come with a bearer token; everywhere else people come with a cookie.
    for_programs: tuple[str, ...] = ("/mcp", "/metrics", "/.well-known")
    # What somebody needs who is about to log in.
    for_strangers: frozenset[str] = frozenset()


class Guard:
    """Stands before everything that is served."""

    def __init__(
        self,
        app: ASGIApp,
        rules: Rules,
        tokens: Tokens,
        clock: Callable[[], float] = time.monotonic,
        sessions: Sessions | None = None,
    ) -> None:
        self._app, self._rules, self._tokens, self._clock = app, rules, tokens, clock
        self._sessions = sessions
        # Where tokens were needed once they are for good: removing the last one opens no door.
        self._needs_token = bool(tokens)
        self._at_work: Counter[str] = Counter()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            who = self._admitted(scope)
        except Refused as refused:
            await refused.response(scope, receive, send)
            return
        self._at_work[who] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._at_work[who] -= 1
            if not self._at_work[who]:
                del self._at_work[who]

    def _admitted(self, scope: Scope) -> str:
        """Give the name under which a request counts, or refuse it."""
        headers = Headers(scope=scope)
        # A page on another site can make a browser send requests here, but not with our name on them.
        if not self._is_ours(headers.get("host", "")):
            raise Refused(
                421, "wrong_host", "Allow that name with: holdfast serve --allow-host NAME"
            )
        origin = headers.get("origin")
        if origin is not None and not self._is_our_site(origin):
            raise Refused(403, "wrong_origin", "Requests from that site are not taken.")
        if scope["path"] in self._rules.public:
            return ""
        address: str = (scope.get("client") or ("",))[0]
        name = self._name(scope["path"], headers)
        self._check_how_often(name or address)
        if self._needs_token and not name and scope["path"] not in self._rules.for_strangers:
            if scope["method"] == "GET" and self._is_page(scope["path"]):
                raise LogInFirst(scope)
            hint = "Send a token made with: holdfast token add NAME"
            said = {"www-authenticate": 'Bearer realm="holdfast"'}
            raise Refused(401, "token_needed", hint, said)
        self._check_how_many(name or address)
        scope[TOKEN_NAME] = name
        return name or address

    def _is_ours(self, host: str) -> bool:
        return host.lower() in self._rules.hosts

    def _is_our_site(self, origin: str) -> bool:
        scheme, _, host = origin.partition("://")
        return scheme.lower() in ("http", "https") and self._is_ours(host)

    def _is_page(self, path: str) -> bool:
        return self._sessions is not None and not path.startswith(self._rules.for_programs)

    def _name(self, path: str, headers: Headers) -> str:
        try:
            self._needs_token = self._needs_token or bool(self._tokens)
            # A browser adds cookies by itself, so they never open what is for programs; and a token
            # that an agent holds does not make it a person.
            if self._sessions is not None and self._is_page(path):
                return self._sessions.name_of(self._sessions.of(headers))
            return self._tokens.name_of(_bearer(headers)) or ""
        except (HoldfastError, OSError) as error:
            LOG.warning("the tokens cannot be read: %s", error)
            hint = "The operator must repair the file of tokens."
            raise Refused(503, "tokens_unreadable", hint, _IN_A_SECOND) from error

    def _check_how_many(self, who: str) -> None:
        if (
            self._at_work[who] >= self._rules.at_once_each
            or self._at_work.total() >= self._rules.at_once
        ):
            raise Refused(503, "too_many", "Too many requests at once.", _IN_A_SECOND)

    def _check_how_often(self, who: str) -> None:
        now = self._clock()
        left, then = self._buckets.pop(who, (float(self._rules.burst), now))
        left = min(self._rules.burst, left + (now - then) * self._rules.requests_per_second)
        self._buckets[who] = (max(0.0, left - 1), now)
        while len(self._buckets) > _CLIENTS_REMEMBERED:
            self._buckets.popitem(last=False)
        if left < 1:
            raise Refused(429, "too_often", "Wait a second.", _IN_A_SECOND)


class Refused(Exception):
    """A request that does not come in, and what it is told."""

    def __init__(
        self, status: int, code: str, hint: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(code)
        self.response: Response = JSONResponse({"error": code, "hint": hint}, status, headers)


class LogInFirst(Refused):
    """Somebody in a browser who has not shown a token yet."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(401, "token_needed", "")
        query = f"?{scope['query_string'].decode()}" if scope.get("query_string") else ""
        wanted = quote(scope.get("raw_path", b"/").decode() + query, safe="")
        self.response = RedirectResponse(f"/login?next={wanted}", 303)


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
