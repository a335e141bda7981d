"""Open a workspace and serve it over a transport."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast_server.app import build, watching
from holdfast_server.http.listening import (
    OpenToAll,
    is_loopback,
    known_hosts,
    listening,
    on_signals,
)
from holdfast_server.metrics import Metrics
from holdfast_server.observe import event, log_to_stderr
from holdfast_server.stdio import Connection, Wire
from holdfast_storage import Workspace

# A message may hold a whole state and its envelope.
_MORE_THAN_STATE = 2**20
_GRACE_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Serving:
    """How to serve, as flags and environment say."""

    workspace: str | None = None
    agent: str = ""
    tools: Literal["all", "core"] = "all"
    log: str = "info"
    tokens: Path | None = None
    allow_hosts: tuple[str, ...] = ()


async def over_stdio(options: Serving) -> None:
    """Serve one client on stdin and stdout."""
    log_to_stderr(options.log)
    # Before anything else runs that might print.
    wire = Wire.of_process()
    connection = Connection(wire)
    on_signals(connection.stop)
    async with Workspace.open(options.workspace) as workspace:
        server, subscriptions = build(workspace, agent=options.agent, tools=options.tools)
        event("serving", workspace=workspace.location, transport="stdio", pid=os.getpid())
        async with watching(workspace, subscriptions):
            low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
            await connection.serve(low, line_limit=message_bytes(workspace))
    wire.close()
    event("stopped")


async def over_http(options: Serving, host: str, port: int) -> None:
    """Serve any number of clients over streamable HTTP."""
    # Only needed here, and worth a fifth of a second.
    from holdfast_server.dashboard.app import FOR_STRANGERS, page_app
    from holdfast_server.http.app import web_app
    from holdfast_server.http.guard import Guard, Rules
    from holdfast_server.http.running import Running
    from holdfast_server.http.sessions import Sessions
    from holdfast_server.http.streams import Streams
    from holdfast_server.http.tokens import Tokens, default_file

    log_to_stderr(options.log)
    tokens = Tokens(options.tokens or default_file())
    if not is_loopback(host) and not tokens:
        raise OpenToAll(host)
    async with Workspace.open(options.workspace) as workspace:
        with listening(host, port) as listener:
            port = listener.getsockname()[1]
            metrics = Metrics()
            server, subscriptions = build(
                workspace,
                agent=options.agent,
                tools=options.tools,
                is_shared=True,
                metrics=metrics,
            )
            sessions = Sessions(tokens, port)
            app = web_app(
                server,
                workspace,
                metrics,
                lambda: watching(workspace, subscriptions),
                page=page_app(workspace, sessions),
                body_limit=message_bytes(workspace),
            )
            streams = Streams(app)
            hosts = known_hosts(host, port, options.allow_hosts)
            rules = Rules(hosts=hosts, for_strangers=FOR_STRANGERS)
            guard = Guard(streams, rules, tokens, sessions=sessions)
            running = Running(guard, streams, grace_seconds=_GRACE_SECONDS)
            on_signals(running.stop)
            where = {"host": host, "port": port, "pid": os.getpid()}
            event("serving", workspace=workspace.location, transport="http", **where)
            await running.serve(sockets=[listener])
    event("stopped")


def message_bytes(workspace: Workspace) -> int:
    """Say how large a message may be: a whole state and what is around it."""
    return workspace.settings.limits.state_bytes + _MORE_THAN_STATE
