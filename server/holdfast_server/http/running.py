"""Run the web application until somebody stops it, streams or no streams."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn

from holdfast_server.http.guard import Guard
from holdfast_server.http.streams import Streams

# Connections that may be open at all; the guard counts what is going on in them.
_CONNECTIONS = 2048


def allow_descriptors() -> int:
    """Raise our limit of open files as far as we may, and give how many connections that allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * _CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 4 * _CONNECTIONS)
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return min(_CONNECTIONS, max(soft, wanted) // 2)


class Running(uvicorn.Server):
    """Uvicorn, with our own way to stop: its own raises the signal again and ends with an error."""

    def __init__(self, app: Guard, streams: Streams, *, grace_seconds: int) -> None:
        self._streams = streams
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="on",
                ws="none",
                # Anybody could write what these headers say.
                proxy_headers=False,
                server_header=False,
                limit_concurrency=allow_descriptors(),
                timeout_graceful_shutdown=grace_seconds,
            )
        )

    def stop(self) -> None:
        """Take no more and end the streams; asked twice, wait for nothing."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._streams.end()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to whoever called us."""
        yield
