"""Ask the person at the client at once, where the client offers it; otherwise the question waits."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from holdfast_server.observe import LOG
from holdfast_storage import Workspace
from holdfast_storage.results import Asked

_KEY = "answer"


async def answered_by_client(
    asked: Asked, arguments: dict[str, Any], context: Context[Any, Any], workspace: Workspace
) -> Asked | InputRequiredResult:
    """Give the question as it stands after the client was asked; a decline leaves it open."""
    if asked.status != "waiting" or not _shows_forms(context):
        return asked
    form = _form(arguments)
    said: object
    if context.session.can_send_request:
        said = await _ask_now(context, form)
    elif context.input_responses is None:
        # This generation of clients is not asked by us: it asks, and makes the same call again.
        return InputRequiredResult(input_requests={_KEY: ElicitRequest(params=form)})
    else:
        said = context.input_responses.get(_KEY)
    if isinstance(said, ElicitResult) and said.action == "accept" and said.content:
        answer = said.content.get(_KEY)
        if _fits(answer, arguments):
            return await workspace.answer(asked.task, answer, asked.question_id)
    return asked


def _fits(answer: object, arguments: dict[str, Any]) -> bool:
    """Say whether the client kept to the form; what it did not is nobody's answer."""
    options = arguments.get("options")
    return isinstance(answer, str) and bool(answer.strip()) and (not options or answer in options)


def _shows_forms(context: Context[Any, Any]) -> bool:
    """A client may offer to open addresses only; one that says nothing closer shows forms."""
    capabilities = context.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return False
    return capabilities.elicitation.form is not None or capabilities.elicitation.url is None


async def _ask_now(
    context: Context[Any, Any], form: ElicitRequestFormParams
) -> ElicitResult | None:
    session: ServerSession = context.session
    try:
        return await session.elicit_form(form.message, form.requested_schema)
    except (MCPError, ValueError):
        # The client offered it and cannot: the question waits in the file all the same.
        LOG.warning("the client did not take the question", exc_info=True)
        return None


def _form(arguments: dict[str, Any]) -> ElicitRequestFormParams:
    answer: dict[str, Any] = {"type": "string", "title": "Answer"}
    if options := arguments.get("options"):
        answer["enum"] = options
    return ElicitRequestFormParams(
        message=arguments["question"],
        requested_schema={"type": "object", "properties": {_KEY: answer}, "required": [_KEY]},
    )
