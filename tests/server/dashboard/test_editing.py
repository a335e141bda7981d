"""Editing in the browser is editing state.json: nothing is overwritten unseen, everything is merged."""

from __future__ import annotations

import html
import importlib
import json
import re
from typing import Any

import httpx
import pytest
from tests.server.dashboard.conftest import SITE, Person

from holdfast_server.http.tokens import Tokens
from holdfast_storage.core import strict_json

# It ships no type information.
jsonschema: Any = importlib.import_module("jsonschema")


class Editor:
    """An open editor: its text, and what it knows of the version it came from."""

    def __init__(self, person: Person, task: str, page: str) -> None:
        self.person, self.task = person, task
        [area] = re.findall(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)
        self.document: dict[str, Any] = json.loads(html.unescape(area))
        self.tag = html.unescape(re.findall(r'data-tag="([^"]*)"', page)[0])
        self.proof = re.findall(r'data-proof="([^"]*)"', page)[0]

    @classmethod
    async def open(cls, person: Person, task: str) -> Editor:
        return cls(person, task, (await person.see(f"/edit/{task}")).response.text)

    async def save(self, raw: bytes = b"", **headers: str) -> httpx.Response:
        known = {
            "accept": "application/json",
            "origin": SITE,
            "if-match": self.tag,
            "x-holdfast-proof": self.proof,
        }
        sent = {**known, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await self.person.client.put(
            f"/edit/{self.task}",
            content=raw or json.dumps(self.document).encode(),
            headers={name: value for name, value in sent.items() if value},
        )


async def test_a_change_is_saved_as_a_revision_with_its_author(
    person: Person, tokens: Tokens
) -> None:
    await person.workspace.task("report").save({"ceo": "Ann"}, goal="A report")
    token = tokens.add("maria")
    await person.send((await person.see("/login")).forms[0], token=token)
    editor = await Editor.open(person, "report")
    editor.document["state"]["ceo"] = "Bea"

    answer = await editor.save()

    assert answer.status_code == 200
    assert answer.json()["revision"] == 2
    assert answer.headers["etag"] == '"r2"'
    assert json.loads(answer.json()["text"])["state"] == {"ceo": "Bea"}
    listed = await person.workspace.caller("r").list_checkpoints("report", show="events")
    assert (listed.events[0].op, listed.events[0].by) == ("edit", "human:maria")


async def test_without_saying_which_version_nothing_is_saved(person: Person) -> None:
    await person.workspace.task("report").save({"a": 1})
    editor = await Editor.open(person, "report")
    editor.document["state"]["a"] = 2

    answer = await editor.save(if_match="")

    assert answer.status_code == 428
    assert await person.workspace.state_at("report", 0) == {"a": 1}


async def test_an_old_version_is_refused_with_what_happened_since_and_then_merged(
    person: Person,
) -> None:
    agent = person.workspace.caller("agent")
    await agent.save("report", {"ceo": "Ann", "pages": 1})
    editor = await Editor.open(person, "report")
    await agent.save("report", {"pages": 2})
    editor.document["state"]["ceo"] = "Bea"

    refused = await editor.save()
    merged = await editor.save(if_match="*")

    assert refused.status_code == 412
    [change] = refused.json()["changes"]
    assert (change["by"], change["what"], change["more"]) == (
        "agent",
        "checkpoint 2",
        ["/state/pages"],
    )
    assert merged.status_code == 200
    assert await person.workspace.state_at("report", 0) == {"ceo": "Bea", "pages": 2}


async def test_where_both_changed_a_value_the_persons_stands_and_the_other_is_kept(
    person: Person,
) -> None:
    agent = person.workspace.caller("agent")
    await agent.save("report", {"ceo": "Ann"})
    editor = await Editor.open(person, "report")
    await agent.save("report", {"ceo": "Cem"})
    editor.document["state"]["ceo"] = "Bea"

    answer = await editor.save(if_match="*")

    assert await person.workspace.state_at("report", 0) == {"ceo": "Bea"}
    [lost] = answer.json()["conflicts"]
    assert (lost["path"], lost["lost_by"]) == ("/state/ceo", "agent")
    assert "Conflicts" in (await person.see("/task/report")).text


async def test_an_editor_stays_usable_after_saving(person: Person) -> None:
    await person.workspace.task("report").save({"a": 1, "b": 1})
    editor = await Editor.open(person, "report")
    editor.document["state"]["a"] = 2
    first = await editor.save()

    again = json.loads(first.json()["text"])
    again["state"]["b"] = 2
    second = await editor.save(json.dumps(again).encode(), if_match=first.headers["etag"])

    assert second.status_code == 200
    assert await person.workspace.state_at("report", 0) == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("raw", "line", "column"),
    [(b'{\n "task": "report",\n}', 3, 1), (b'{"a": 1,\n "a": 2}', 2, 2), (b'{"a": NaN}', 1, 7)],
)
async def test_what_does_not_parse_is_refused_with_line_and_column(
    person: Person, raw: bytes, line: int, column: int
) -> None:
    await person.workspace.task("report").save({"a": 1})
    editor = await Editor.open(person, "report")

    answer = await editor.save(raw)

    assert answer.status_code == 422
    assert (answer.json()["line"], answer.json()["column"]) == (line, column)
    assert await person.workspace.state_at("report", 0) == {"a": 1}


async def test_what_is_put_back_is_said(person: Person) -> None:
    await person.workspace.task("report").save({"a": 1}, plan=["x"])
    editor = await Editor.open(person, "report")
    editor.document["status"] = "done"

    answer = await editor.save()

    assert "status was put back" in answer.json()["warnings"][0]


async def test_another_tasks_text_is_refused(person: Person) -> None:
    await person.workspace.task("report").save({"a": 1})
    await person.workspace.task("other").save({"a": 2})
    editor = await Editor.open(person, "report")
    editor.document["task"] = "other"

    assert (await editor.save()).status_code == 422


async def test_nothing_changed_is_no_revision(person: Person) -> None:
    await person.workspace.task("report").save({"a": 1})
    editor = await Editor.open(person, "report")
    raw = await person.workspace.view("report")

    answer = await editor.save(raw)

    assert answer.json()["changed"] is False
    assert (await person.workspace.standing("report")).revision == 1


async def test_more_than_a_state_can_hold_is_not_read(person: Person) -> None:
    await person.workspace.task("report").save({"a": 1})
    editor = await Editor.open(person, "report")

    assert (await editor.save(b"x" * (18 * 2**20))).status_code == 413


@pytest.mark.parametrize("proof", ["", "0" * 64])
async def test_an_edit_that_no_page_of_ours_made_is_refused(person: Person, proof: str) -> None:
    await person.workspace.task("report").save({"a": 1})
    editor = await Editor.open(person, "report")

    assert (await editor.save(x_holdfast_proof=proof)).status_code == 403
    assert (await editor.save(origin="")).status_code == 403
    assert (await editor.save(origin="http://evil.example")).status_code == 403


async def test_the_schema_that_checks_is_served_and_takes_every_view(person: Person) -> None:
    await person.workspace.caller("agent").ask("report", "Which colour?", ["red"])

    schema = (await person.client.get("/schema.json")).json()

    jsonschema.Draft202012Validator.check_schema(schema)
    document = strict_json.parse_object(await person.workspace.view("report"))
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "status": "sleeping"}, schema)
