"""Whose memory a request has: a process's, a session's or a token's, and never somebody else's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast_server import callers
from holdfast_server.bearer import TOKEN_NAME
from holdfast_server.callers import Callers
from holdfast_storage import Workspace


def request(
    session: str = "", token: str = "", client: str = "claude-code", version: str = "2025-11-25"
) -> Any:
    """Give the context of a request, as far as it matters whose it is."""
    headers = {"mcp-session-id": session} if session else {}
    info = SimpleNamespace(client_info=SimpleNamespace(name=client)) if client else None
    return SimpleNamespace(
        session=SimpleNamespace(client_params=info, protocol_version=version),
        request=SimpleNamespace(scope={TOKEN_NAME: token}, headers=headers),
    )


def shared(workspace: Workspace, agent: str = "") -> Callers:
    return Callers(workspace, agent=agent, core_only=False, is_shared=True)


async def test_one_process_is_one_caller(workspace: Workspace) -> None:
    alone = Callers(workspace, agent="", core_only=False, is_shared=False)

    assert alone.of(request()) is alone.of(request())


async def test_a_session_is_a_caller(workspace: Workspace) -> None:
    found = shared(workspace)

    assert found.of(request("s1")) is found.of(request("s1"))
    assert found.of(request("s1")) is not found.of(request("s2"))


async def test_two_sessions_with_one_token_do_not_share_a_memory(workspace: Workspace) -> None:
    found = shared(workspace)

    one, two = found.of(request("s1", "ann")), found.of(request("s2", "ann"))

    assert one is not two
    assert (one.by, two.by) == ("ann", "ann")


async def test_a_session_of_another_token_is_another_caller(workspace: Workspace) -> None:
    found = shared(workspace)

    assert found.of(request("s1", "ann")) is not found.of(request("s1", "bob"))


async def test_without_a_session_the_token_is_the_caller(workspace: Workspace) -> None:
    found = shared(workspace)

    assert found.of(request(token="ann")) is found.of(request(token="ann"))
    assert found.of(request(token="ann")) is not found.of(request(token="bob"))


async def test_with_neither_nothing_is_remembered(workspace: Workspace) -> None:
    found = shared(workspace)

    assert found.of(request()) is not found.of(request())


@pytest.mark.parametrize(
    ("client", "by"),
    [
        ("claude-code", "claude-code@"),
        ("", "agent@"),
        ("  \u200b ", "agent@"),
        ("a\nb\u202ec", "abc@"),
        ("x" * 500, "x" * 80 + "@"),
    ],
)
async def test_by_is_the_clients_name_made_harmless(
    workspace: Workspace, client: str, by: str
) -> None:
    assert shared(workspace).of(request("s", client=client)).by.startswith(by)


async def test_a_given_name_comes_before_the_clients_and_the_tokens_before_both(
    workspace: Workspace,
) -> None:
    found = shared(workspace, agent="given")

    assert found.of(request("s")).by == "given"
    assert found.of(request("s", "ann")).by == "ann"


async def test_the_oldest_sessions_are_forgotten_first(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "_SESSIONS_KEPT", 2)
    found = shared(workspace)
    first, second = found.of(request("s1")), found.of(request("s2"))
    found.of(request("s1"))

    found.of(request("s3"))

    assert found.of(request("s1")) is first
    assert found.of(request("s2")) is not second


async def test_a_session_that_was_made_up_is_none(workspace: Workspace) -> None:
    found = shared(workspace)

    one, two = (found.of(request("made-up", version="2026-07-28")) for _ in range(2))

    assert one is not two


@pytest.mark.parametrize("name", ["human", "human:boss", "Human"])
async def test_a_client_that_calls_itself_a_person_is_recorded_as_an_agent(
    workspace: Workspace, name: str
) -> None:
    assert shared(workspace).of(request("s1", client=name)).by.startswith(f"agent-{name}@")
