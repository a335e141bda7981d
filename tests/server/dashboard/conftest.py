"""A person at a browser without scripts: follows links, fills forms, sees text."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast_server.dashboard.app import FOR_STRANGERS, page_app
from holdfast_server.http.guard import Guard, Rules
from holdfast_server.http.sessions import Sessions
from holdfast_server.http.tokens import Tokens
from holdfast_storage import Workspace

HOST = "127.0.0.1:8765"
SITE = f"http://{HOST}"


@dataclass
class Form:
    """A form and what it would send."""

    action: str
    fields: dict[str, str] = field(default_factory=dict[str, str])
    buttons: list[dict[str, str]] = field(default_factory=list[dict[str, str]])


class Page(HTMLParser):
    """A page as it is read: its text, its forms, its links."""

    _SILENT = ("script", "style")

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self.response = response
        self.status = response.status_code
        self.forms: list[Form] = []
        self.links: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._words: list[str] = []
        self._link: tuple[str, list[str]] | None = None
        self._silent = 0
        self.feed(response.text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        self._silent += tag in self._SILENT
        if tag == "form":
            self.forms.append(Form(given.get("action", "")))
        elif tag == "input" and self.forms and "name" in given and "form" not in given:
            self.forms[-1].fields[given["name"]] = given.get("value", "")
        elif tag == "button" and self.forms:
            self.forms[-1].buttons.append(given)
        elif tag == "a":
            self._link = (given.get("href", ""), [])

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in self._SILENT
        if tag == "a" and self._link:
            href, said = self._link
            self.links[" ".join("".join(said).split())] = href
            self._link = None

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._words.append(data)
        if self._link:
            self._link[1].append(data)

    def form(self, do: str, **having: str) -> Form:
        wanted = {"do": do, **having}
        found = [form for form in self.forms if wanted.items() <= form.fields.items()]
        assert found, f"no form {wanted} among {[form.fields for form in self.forms]}"
        return found[0]


@dataclass
class Person:
    """Somebody at a browser."""

    client: httpx.AsyncClient
    workspace: Workspace

    async def see(self, address: str, **more: Any) -> Page:
        return Page(await self.client.get(address, **more))

    async def send(self, form: Form, **typed: str) -> Page:
        """Press a button of a form; follow where it leads."""
        answer = await self.client.post(
            form.action,
            data={**form.fields, **typed},
            headers={"origin": SITE},
            follow_redirects=True,
        )
        return Page(answer)


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.json")


@pytest.fixture
async def person(workspace: Workspace, tokens: Tokens) -> AsyncGenerator[Person]:
    async with browser(workspace, tokens) as client:
        yield Person(client, workspace)


def browser(workspace: Workspace, tokens: Tokens, burst: int = 10_000) -> httpx.AsyncClient:
    """Open a browser on the page of a workspace, the guard before it."""
    sessions = Sessions(tokens, 8765)
    known = Rules(hosts=frozenset({HOST}), for_strangers=FOR_STRANGERS, burst=burst)
    guard = Guard(page_app(workspace, sessions), known, tokens, sessions=sessions)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=guard), base_url=SITE)
