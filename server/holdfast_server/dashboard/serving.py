"""Serve the page alone, without the tools, to this machine."""

from __future__ import annotations

import asyncio
import webbrowser
from pathlib import Path

from holdfast_server.dashboard.app import FOR_STRANGERS, page_app
from holdfast_server.http.guard import Guard, Rules
from holdfast_server.http.listening import known_hosts, listening, on_signals
from holdfast_server.http.running import Running
from holdfast_server.http.sessions import Sessions
from holdfast_server.http.streams import Streams
from holdfast_server.http.tokens import Tokens, default_file
from holdfast_server.observe import log_to_stderr
from holdfast_storage import Workspace

_HOST = "127.0.0.1"
_GRACE_SECONDS = 1


async def serve_page(
    location: str | None, port: int, *, tokens_file: Path | None, opens_browser: bool
) -> None:
    """Serve until somebody stops it; the address is printed, and opened if that is wanted."""
    log_to_stderr("warning")
    tokens = Tokens(tokens_file or default_file())
    async with Workspace.open(location) as workspace:
        with listening(_HOST, port) as listener:
            port = listener.getsockname()[1]
            sessions = Sessions(tokens, port)
            streams = Streams(page_app(workspace, sessions))
            rules = Rules(hosts=known_hosts(_HOST, port, ()), for_strangers=FOR_STRANGERS)
            guard = Guard(streams, rules, tokens, sessions=sessions)
            running = Running(guard, streams, grace_seconds=_GRACE_SECONDS)
            on_signals(running.stop)
            address = f"http://{_HOST}:{port}/"
            print(f"The tasks of {workspace.location} are at {address}", flush=True)
            if opens_browser:
                # The listener holds the browser's first request until we serve.
                asyncio.get_running_loop().run_in_executor(None, webbrowser.open, address)
            await running.serve(sockets=[listener])
