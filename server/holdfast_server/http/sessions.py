"""People in a browser: a token is shown once, then a cookie stands for it."""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

from holdfast_server.http.tokens import Tokens

_KEPT = 1000
_HOURS = 12


class Sessions:
    """Who is logged in, known for as long as this process lives.

    The cookie is a random word and not the token: browsers send cookies to every port of a host, so
    another program on this machine may come to see it.
    """

    def __init__(
        self, tokens: Tokens, port: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tokens, self._clock = tokens, clock
        # Several servers may run on one host, and browsers do not tell their cookies apart.
        self._cookie = f"holdfast-{port}"
        self._key = secrets.token_bytes(32)
        self._tokens_shown: OrderedDict[str, tuple[str, float]] = OrderedDict()

    @property
    def needs_token(self) -> bool:
        """Say whether somebody must log in at all."""
        return bool(self._tokens)

    def of(self, headers: Headers) -> str:
        """Give the session that a request names, logged in or not."""
        return cookie_parser(headers.get("cookie", "")).get(self._cookie, "")

    def name_of(self, session: str) -> str:
        """Give the name of the token behind a session; a token that was removed is behind none."""
        token, until = self._tokens_shown.get(session, ("", 0.0))
        if not token or until <= self._clock():
            return ""
        return self._tokens.name_of(token) or ""

    def begin(self, response: Response, token: str = "") -> str:
        """Begin a session and give it to the browser; with a token it is logged in."""
        session = secrets.token_urlsafe(24)
        if token:
            self._tokens_shown[session] = (token, self._clock() + _HOURS * 3600)
            while len(self._tokens_shown) > _KEPT:
                self._tokens_shown.popitem(last=False)
        self._set(response, session)
        return session

    def _set(self, response: Response, session: str) -> None:
        response.set_cookie(self._cookie, session, httponly=True, samesite="strict", path="/")

    def is_token(self, token: str) -> bool:
        """Say whether this is a token that counts."""
        return self._tokens.name_of(token) is not None

    def end(self, session: str, response: Response) -> None:
        """Log out."""
        self._tokens_shown.pop(session, None)
        response.delete_cookie(self._cookie, httponly=True, samesite="strict", path="/")

    def proof(self, session: str) -> str:
        """Give what a form of this session carries, and no other site can know."""
        return hmac.new(self._key, session.encode(), sha256).hexdigest()

    def is_proof(self, session: str, given: str) -> bool:
        """Say whether a form came from a page of this session."""
        return bool(session) and hmac.compare_digest(self.proof(session).encode(), given.encode())
