"""Where to listen, under which names, and until when."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

from holdfast_storage import HoldfastError

_PLAIN_HTTP = 80
_BACKLOG = 1024
_PORT = re.compile(r"^(?:[^\[\]:]+|\[.*\]):\d+$")


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


def on_signals(stop: Callable[[], None]) -> None:
    """Stop when somebody asks us to."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


def listening(host: str, port: int) -> socket.socket:
    """Listen there, or say why that cannot be."""
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
