"""The web application: the tools at /mcp, /health, /metrics for Prometheus, the page at /."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from holdfast_server import __version__
from holdfast_server.metrics import PROMETHEUS, Metrics
from holdfast_storage import Workspace


def web_app(
    server: MCPServer,
    workspace: Workspace,
    metrics: Metrics,
    watching: Callable[[], AbstractAsyncContextManager[None]],
    *,
    page: ASGIApp,
    body_limit: int,
) -> Starlette:
    """Put the application together; the guard comes around it."""
    tools = server.streamable_http_app(
        max_request_body_size=body_limit,
        # The guard has looked at Host and Origin already, for every route and on any bind.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    async def counted(_: Request) -> Response:
        tasks = Counter(line.status for line in await workspace.tasks())
        return PlainTextResponse(metrics.text(tasks), media_type=PROMETHEUS)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with tools.router.lifespan_context(tools), watching():
            yield

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/metrics", counted),
            *tools.routes,
            Mount("/", app=page),
        ],
        lifespan=lifespan,
    )
