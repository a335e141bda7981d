"""Which caller a request belongs to: a stdio process, an HTTP session, or a bearer token."""

from __future__ import annotations

import platform
from collections import OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast_server.bearer import TOKEN_NAME
from holdfast_storage import Caller, Workspace
from holdfast_storage.core.brief import is_person

# A request as the SDK hands it to tools, and as it hands it to what lies before them.
AnyContext = Context[Any, Any] | ServerRequestContext[Any, Any]

_NAME_LENGTH = 80
_SESSIONS_KEPT = 10_000


class Callers:
    """Finds the caller of a request, and makes it on its first one."""

    def __init__(
        self, workspace: Workspace, *, agent: str, core_only: bool, is_shared: bool
    ) -> None:
        self._workspace, self._agent = workspace, agent
        self._core_only, self._is_shared = core_only, is_shared
        # The one caller of a stdio process.
        self._alone: Caller | None = None
        self._known: OrderedDict[tuple[str, str], Caller] = OrderedDict()
        self._last_task: WeakKeyDictionary[Caller, str] = WeakKeyDictionary()

    def of(self, context: AnyContext) -> Caller:
        """Give the caller; one without session or token of its own remembers nothing."""
        if self._alone is not None:
            return self._alone
        by = self._agent or _client_name(context)
        if not self._is_shared:
            self._alone = self._workspace.caller(by, core_only=self._core_only)
            return self._alone
        request: Any = _request_of(context)
        token = request.scope.get(TOKEN_NAME, "")
        # Sessions are of the handshake generation; elsewhere anybody could make one up.
        is_modern = context.session.protocol_version in MODERN_PROTOCOL_VERSIONS
        session = "" if is_modern else request.headers.get("mcp-session-id", "")
        if token or session:
            # Two sessions with one token are two agents of one name, each with a memory of its own.
            return self._remembered(token, session, token or by)
        return self._workspace.caller(by, core_only=self._core_only, must_give_revision=True)

    def _remembered(self, token: str, session: str, by: str) -> Caller:
        key = (token, session)
        if key not in self._known:
            self._known[key] = self._workspace.caller(by, core_only=self._core_only)
            while len(self._known) > _SESSIONS_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def note_task(self, caller: Caller, task: str) -> None:
        """Remember which task a caller was last told about."""
        if task:
            self._last_task[caller] = task

    def last_task(self, caller: Caller) -> str:
        """Give the task a caller was last told about."""
        return self._last_task.get(caller, "")


def _request_of(context: AnyContext) -> object:
    return context.request_context.request if isinstance(context, Context) else context.request


def _client_name(context: AnyContext) -> str:
    params = context.session.client_params
    name = params.client_info.name if params else "agent"
    plain = "".join(letter for letter in name if letter.isprintable()).strip()
    if is_person(plain.lower()):
        # What people are recorded as is not for a program to call itself.
        plain = f"agent-{plain}"
    host = platform.node().split(".")[0] or "localhost"
    return f"{plain[:_NAME_LENGTH] or 'agent'}@{host}"
