"""Tell clients that a task changed, whoever changed it, in both generations of the protocol."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import anyio
from mcp.server import MCPServer
from mcp.server.lowlevel import NotificationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated
from mcp.types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast_server.observe import LOG, event
from holdfast_server.resources import uris_of
from holdfast_storage import HoldfastError, Workspace

# One client that does not read must not keep the news from the others.
_PATIENCE_SECONDS = 1.0
_WATCH_AGAIN_SECONDS = 1.0


def canonical(uri: object) -> str:
    """Give an address in the spelling of ours, however a client wrote it."""
    scheme, _, path = str(uri).partition("://")
    return f"{scheme}://" + "/".join(quote(unquote(part), safe="") for part in path.split("/"))


class Subscriptions:
    """Who listens to which resource."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._known: set[str] = set()
        # Connections of the handshake generation; the SDK serves those no notices by itself.
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        # By address, each connection with the spelling it asked for.
        self._by_uri: dict[str, weakref.WeakKeyDictionary[Any, str]] = {}

    def add_to(self, server: MCPServer) -> None:
        """Serve resources/subscribe and resources/unsubscribe, and say that lists may change."""
        low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]

        async def subscribe(context: Any, params: SubscribeRequestParams) -> EmptyResult:
            listeners = self._by_uri.setdefault(canonical(params.uri), weakref.WeakKeyDictionary())
            listeners[context.session._connection] = str(params.uri)
            return EmptyResult()

        async def unsubscribe(context: Any, params: UnsubscribeRequestParams) -> EmptyResult:
            uri = canonical(params.uri)
            if uri in self._by_uri:
                self._by_uri[uri].pop(context.session._connection, None)
            self._forget_unheard()
            return EmptyResult()

        low.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
        low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)
        low.middleware.append(self._note_connection)
        # Every transport asks for these, and only one of ours says itself that lists change.
        options = NotificationOptions(resources_changed=True)
        low.create_initialization_options = partial(  # type: ignore[method-assign]
            low.create_initialization_options, options
        )

    async def _note_connection(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        if ctx.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._connections.add(ctx.session._connection)
        return await call_next(ctx)

    async def publish_changes(self, workspace: Workspace) -> None:
        """Announce changes for as long as the workspace is open."""
        while True:
            try:
                await self._publish_until_broken(workspace)
                return
            except HoldfastError as error:
                # A file that cannot be read now may be readable soon; tools say what is wrong.
                LOG.warning("watching failed: %s", error)
            except Exception:  # noqa: BLE001
                # A bug, or no more descriptors: notices are worth another try, and the log the reason.
                LOG.exception("watching failed")
            await asyncio.sleep(_WATCH_AGAIN_SECONDS)

    async def _publish_until_broken(self, workspace: Workspace) -> None:
        self._known |= {line.task for line in await workspace.tasks()}
        async for tasks in workspace.watch():
            for task in tasks:
                event("changed", task=task)
                for uri in uris_of(task):
                    await self._publish(uri)
            self._forget_unheard()
            if new := tasks - self._known:
                self._known |= new
                await self._publish_list()

    def _forget_unheard(self) -> None:
        for uri in [uri for uri, listeners in self._by_uri.items() if not listeners]:
            del self._by_uri[uri]

    async def _publish(self, uri: str) -> None:
        for spelling in {uri, unquote(uri)}:
            await self.bus.publish(ResourceUpdated(uri=spelling))
        listeners = self._by_uri.get(uri)
        for connection, spelling in list(listeners.items()) if listeners else []:
            with anyio.move_on_after(_PATIENCE_SECONDS):
                await connection.send_resource_updated(spelling)

    async def _publish_list(self) -> None:
        await self.bus.publish(ResourcesListChanged())
        for connection in list(self._connections):
            with anyio.move_on_after(_PATIENCE_SECONDS):
                await connection.send_resource_list_changed()
