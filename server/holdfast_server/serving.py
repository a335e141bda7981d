"""Open a workspace and serve it over a transport."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Literal

from holdfast_server.app import build, watching
from holdfast_server.metrics import Metrics
from holdfast_server.observe import event, log_to_stderr
from holdfast_server.stdio import Connection, Wire
from holdfast_storage import HoldfastError, Workspace

# A message may hold a whole state and its envelope.
_MORE_THAN_STATE = 2**20
_GRACE_SECONDS = 1
_PLAIN_HTTP = 80
_BACKLOG = 1024
_PORT = re.compile(r"^(?:[^\[\]:]+|\[.*\]):\d+$")


@dataclass(frozen=True, slots=True)
class Serving:
    """How to serve, as flags and environment say."""

    workspace: str | None = None
    agent: str = ""
    tools: Literal["all", "core"] = "all"
    log: str = "info"
    tokens: Path | None = None
    allow_hosts: tuple[str, ...] = ()


class OpenToAll(HoldfastError):
    """An address that others can reach, and no tokens to tell them apart."""

    code = "open_to_all"
    hint = "Make a token (holdfast token add NAME), or bind to 127.0.0.1."

    def __init__(self, host: str) -> None:
        super().__init__(f"refusing to serve on {host} without tokens")
        self.host = host


class CannotListen(HoldfastError):
    """The address is taken, or not one of this machine."""

    code = "cannot_listen"
    hint = "Choose another port, or 0 for any that is free."

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {why}")
        self.host, self.port = host, port


async def over_stdio(options: Serving) -> None:
    """Serve one client on stdin and stdout."""
    log_to_stderr(options.log)
    # Before anything else runs that might print.
    wire = Wire.of_process()
    connection = Connection(wire)
    _on_signals(connection.stop)
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
    from holdfast_server.http.app import web_app
    from holdfast_server.http.guard import Guard, Rules
    from holdfast_server.http.running import Running
    from holdfast_server.http.streams import Streams
    from holdfast_server.http.tokens import Tokens, default_file

    log_to_stderr(options.log)
    tokens = Tokens(options.tokens or default_file())
    if not is_loopback(host) and not tokens:
        raise OpenToAll(host)
    async with Workspace.open(options.workspace) as workspace:
        with _listening(host, port) as listener:
            port = listener.getsockname()[1]
            metrics = Metrics()
            server, subscriptions = build(
                workspace,
                agent=options.agent,
                tools=options.tools,
                is_shared=True,
                metrics=metrics,
            )
            app = web_app(
                server,
                workspace,
                metrics,
                lambda: watching(workspace, subscriptions),
                body_limit=message_bytes(workspace),
            )
            streams = Streams(app)
            rules = Rules(hosts=known_hosts(host, port, options.allow_hosts))
            running = Running(Guard(streams, rules, tokens), streams, grace_seconds=_GRACE_SECONDS)
            _on_signals(running.stop)
            where = {"host": host, "port": port, "pid": os.getpid()}
            event("serving", workspace=workspace.location, transport="http", **where)
            await running.serve(sockets=[listener])
    event("stopped")


def message_bytes(workspace: Workspace) -> int:
    """Say how large a message may be: a whole state and what is around it."""
    return workspace.settings.limits.state_bytes + _MORE_THAN_STATE


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Asyncio turns off Nagle's algorithm only where the protocol is named; it costs 40 ms an answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(host, port, error.strerror or str(error)) from error
    return listener


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach the address."""
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def known_hosts(host: str, port: int, more: tuple[str, ...]) -> frozenset[str]:
    """Give the names that a request may call us by, as they stand in a Host header."""
    address = _address(host)
    names = {f"[{host}]" if ":" in host else host}
    if is_loopback(host) or (address is not None and address.is_unspecified):
        names |= {"127.0.0.1", "localhost", "[::1]"}
    # The port belongs to the name: another port is another site. Only what the operator allows may
    # come without one, through a proxy.
    known = {f"{name}:{port}" for name in {*names, *more} if not _PORT.search(name)}
    if port == _PLAIN_HTTP:
        known |= names
    return frozenset(name.lower() for name in known.union(more))


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None
