"""A tool as the SDK serves it: strict arguments in, one compact answer out, errors a model can use."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import func_metadata
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import PrivateAttr

from holdfast_server.callers import AnyContext, Callers
from holdfast_server.metrics import Metrics
from holdfast_server.observe import LOG, event, is_observed
from holdfast_server.tools.arguments import WrongCall, checked
from holdfast_server.tools.calls import call
from holdfast_server.tools.elicit import answered_by_client
from holdfast_server.tools.meant import Around, hint_for, right_name
from holdfast_server.tools.refusals import Bug, in_words, next_call
from holdfast_server.tools.specs import Spec
from holdfast_server.tools.told import schema_of, told
from holdfast_storage import Caller, Workspace
from holdfast_storage.core.errors import HoldfastError
from holdfast_storage.core.strict_json import encode
from holdfast_storage.results import Answer, Asked

_NOTED = ("task", "step", "checkpoint", "revision", "run", "status", "go", "found")
_OPEN = ("active", "waiting", "paused", "failed")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool says: for the model as text, and unless it is a refusal as data; each is enough."""

    text: str
    said: dict[str, Any] | None = None

    def as_result(self) -> CallToolResult:
        """Give it as the SDK takes it."""
        content: list[Any] = [TextContent(type="text", text=self.text)]
        is_error = self.said is None
        return CallToolResult(content=content, structured_content=self.said, is_error=is_error)

    def on_the_wire(self) -> dict[str, Any]:
        """Give it as the SDK would send it, less what the generation of the protocol adds."""
        content = [{"type": "text", "text": self.text}]
        if self.said is None:
            return {"content": content, "isError": True}
        return {"content": content, "structuredContent": self.said, "isError": False}


class ServedTool(Tool):
    """One of our tools. The SDK's own argument parsing is passed by: it guesses, we do not."""

    _spec: Spec = PrivateAttr()
    _callers: Callers = PrivateAttr()
    _workspace: Workspace = PrivateAttr()
    _metrics: Metrics = PrivateAttr()
    _served: Collection[str] = PrivateAttr()

    @classmethod
    def of(
        cls,
        spec: Spec,
        callers: Callers,
        workspace: Workspace,
        metrics: Metrics,
        served: Collection[str],
    ) -> ServedTool:
        """Make a tool of its spec; `served` are the names of all there are."""
        tool = cls(
            fn=_never_called,
            name=spec.name,
            title=spec.title,
            description=spec.description,
            parameters=spec.input_schema,
            fn_metadata=func_metadata(_never_called),
            is_async=True,
            context_kwarg=None,
            annotations=ToolAnnotations(
                title=spec.title,
                read_only_hint=spec.read_only,
                destructive_hint=spec.destructive,
                idempotent_hint=spec.idempotent,
                open_world_hint=False,
            ),
        )
        tool._spec, tool._callers = spec, callers
        tool._workspace, tool._metrics, tool._served = workspace, metrics, served
        return tool

    @cached_property
    def output_schema(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return schema_of(self._spec.answer)

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> CallToolResult | InputRequiredResult:
        """Answer through the SDK."""
        reply = await self.reply(arguments, context)
        return reply.as_result() if isinstance(reply, Reply) else reply

    @property
    def may_ask_the_client(self) -> bool:
        """Whether an answer may need the client before it is one."""
        return self._spec.answer is Asked

    async def reply(
        self, arguments: dict[str, Any], context: AnyContext
    ) -> Reply | InputRequiredResult:
        """Check the arguments, do it, and answer; a refusal is an answer too."""
        began = time.perf_counter()
        try:
            caller = self._callers.of(context)
            try:
                answer = await self._done(caller, arguments, context)
            except WrongCall as error:
                self._count(began, error.code, {"by": caller.by})
                return Reply(in_words(error, await self._corrected(caller, arguments)))
            except HoldfastError as error:
                self._count(began, error.code, {"by": caller.by})
                has_begin = "begin_step" in self._served
                hint = next_call(error, self.name, arguments, has_begin=has_begin)
                return Reply(in_words(error, hint))
            if isinstance(answer, InputRequiredResult):
                return answer
            self._callers.note_task(caller, getattr(answer, "task", ""))
            said = told(answer, arguments)
            text = encode(said).decode()
        except MCPError:
            # The protocol's own refusals are not ours to put into words.
            raise
        except Exception:  # noqa: BLE001
            # A bug. The SDK would answer with its text, which may hold contents: that is for the log.
            LOG.exception("%s failed", self.name)
            self._count(began, Bug.code, {})
            return Reply(in_words(Bug(self.name)))
        self._count(began, "ok", self._about(caller, arguments, answer) if is_observed() else {})
        return Reply(text, said)

    async def _done(
        self, caller: Caller, arguments: dict[str, Any], context: AnyContext
    ) -> Answer | InputRequiredResult:
        given = checked(self._spec, arguments, right_name)
        answer = await call(caller, self.name, given)
        if isinstance(answer, Asked) and isinstance(context, Context):
            return await answered_by_client(answer, given, context, self._workspace)
        return answer

    async def _corrected(self, caller: Caller, arguments: dict[str, Any]) -> str:
        """Work out the call that was meant, looking at the tasks only if none was named."""
        last = self._callers.last_task(caller)
        open_tasks: list[str] = []
        if "task" in self._spec.required and not last:
            lines = await self._workspace.tasks()
            open_tasks = [line.task for line in lines if line.status in _OPEN]
        return hint_for(self._spec, arguments, Around(self._served, last, open_tasks))

    def _about(self, caller: Caller, arguments: dict[str, Any], answer: Answer) -> dict[str, Any]:
        noted = {name: value for name in _NOTED if (value := getattr(answer, name, None))}
        if not self._spec.read_only:
            noted["bytes"] = _size(arguments)
        return {"by": caller.by} | noted

    def _count(self, began: float, outcome: str, about: dict[str, Any]) -> None:
        seconds = time.perf_counter() - began
        self._metrics.called(self.name, outcome, seconds)
        if is_observed():
            event(self.name, outcome=outcome, **about, ms=round(seconds * 1000, 2))


def _size(arguments: dict[str, Any]) -> int:
    try:
        return len(encode(arguments))
    except ValueError:
        # What cannot be written was not kept either, so it was something without effect.
        return 0


async def _never_called() -> None:
    LOG.error("a tool was called around its own door")
