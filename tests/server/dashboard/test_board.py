"""The board shows every task, and first of all what waits for a person."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from tests.server.dashboard.conftest import Person, browser

from holdfast_server.http.tokens import Tokens
from holdfast_storage import Workspace


def names(page: str) -> list[str]:
    return [part.split('"')[0] for part in page.split('data-key="t-')[1:]]


async def test_an_empty_workspace_says_how_to_begin(person: Person) -> None:
    page = await person.see("/")

    assert page.status == 200
    assert "claude mcp add holdfast -- holdfast serve" in page.text


async def test_a_row_says_what_the_task_is_doing(person: Person) -> None:
    agent = person.workspace.caller("claude@laptop")
    await agent.save("ingest", goal="All files", next="doc-2", plan=["doc-1", "doc-2", "doc-3"])
    await agent.mark("ingest", "doc-1")
    await agent.begin("ingest", "doc-2")

    page = await person.see("/")

    for said in ("ingest", "active", "All files", "1 of 3", "doc-2", "claude@laptop", "just now"):
        assert said in page.text
    assert "Running doc-2 by claude@laptop" in page.text


async def test_progress_is_a_bar_that_a_screen_reader_can_name(person: Person) -> None:
    await person.workspace.task("ingest").save(plan=["a", "b"])

    page = await person.see("/")

    [bar] = [given for tag, given in page.tags if tag == "progress"]
    assert bar == {"value": "0", "max": "2", "aria-label": "Steps done in ingest"}


async def test_what_waits_for_a_person_comes_first(person: Person) -> None:
    agent = person.workspace.caller("agent")
    await agent.save("asks", {"a": 1})
    await agent.ask("asks", "Go on?")
    await agent.save("fails", {"a": 1})
    await agent.finish("fails", outcome="failed")
    await agent.save("newest", {"a": 1})

    page = await person.see("/")
    only = await person.see("/?show=needs-you")

    assert names(page.response.text)[-1] == "newest"
    assert set(names(only.response.text)) == {"fails", "asks"}
    assert "1 question" in page.text


async def test_a_step_whose_agent_died_waits_for_a_person(tmp_path: Path, tokens: Tokens) -> None:
    root = tmp_path / ".holdfast"
    async with Workspace.open(root) as crashing:
        await crashing.task("mails").begin("ann")

    async with Workspace.open(root) as workspace, browser(workspace, tokens) as client:
        page = await Person(client, workspace).see("/?show=needs-you")

    assert names(page.response.text) == ["mails"]
    assert "1 in doubt" in page.text


async def test_tasks_are_found_by_status_and_by_words(person: Person) -> None:
    agent = person.workspace.caller("agent")
    await agent.save("letters", goal="Write to everybody")
    await agent.save("figures", goal="Add them up")
    await agent.finish("figures")

    assert names((await person.see("/?show=done")).response.text) == ["figures"]
    assert names((await person.see("/?q=EVERYbody")).response.text) == ["letters"]
    assert "No task is like that" in (await person.see("/?q=nothing")).text


async def test_a_task_that_cannot_be_read_is_shown_with_the_reason(
    tmp_path: Path, tokens: Tokens
) -> None:
    root = tmp_path / ".holdfast"
    async with Workspace.open(root) as workspace:
        await workspace.task("broken").save({"a": 1})
        await workspace.task("fine").save({"a": 1})
    shutil.rmtree(root / "tasks/broken/journal")

    async with Workspace.open(root) as workspace, browser(workspace, tokens) as client:
        page = await Person(client, workspace).see("/")

    assert set(names(page.response.text)) == {"broken", "fine"}
    assert "it has a state.json and no journal" in page.text


async def test_a_thousand_tasks_come_fifty_at_a_time_and_quickly(person: Person) -> None:
    agent = person.workspace.caller("agent")
    for number in range(1000):
        await agent.save(f"task-{number:04d}", {"n": number}, next="more")
    await person.see("/")

    begun = time.process_time()
    first = await person.see("/")
    took = time.process_time() - begun
    last = await person.see("/?page=20")

    assert len(names(first.response.text)) == 50
    assert len(names(last.response.text)) == 50
    assert not set(names(first.response.text)) & set(names(last.response.text))
    assert first.links["Next"] == "/?&page=2"
    assert "page 20 of 20, 1,000 tasks" in last.text
    # Seconds of our own CPU, so that a busy machine makes no difference; 0.1 were measured.
    assert took < 1


async def test_a_page_that_does_not_exist_is_the_last_one(person: Person) -> None:
    await person.workspace.task("one").save({"a": 1})

    assert names((await person.see("/?page=999")).response.text) == ["one"]
    assert (await person.see("/?page=minus")).status == 422
