"""The pages of one task: where it stands, what happened, its steps, its state."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.server.dashboard.conftest import Person, browser

from holdfast_server.dashboard import words
from holdfast_server.dashboard.checkpoints import side_by_side
from holdfast_server.dashboard.pages import address
from holdfast_server.http.tokens import Tokens
from holdfast_storage import Workspace
from holdfast_storage.results import Difference

VIEWS = ["task", "timeline", "steps", "state", "checkpoints", "diff", "prune", "edit"]


async def story(workspace: Workspace, task: str = "report") -> None:
    agent = workspace.caller("claude@laptop")
    await agent.save(task, {"ceo": "Ann", "pages": 1}, goal="A report", plan=["a", "b", "c"])
    await agent.mark(task, "a", {"words": 120}, refs=["a.md"])
    await agent.mark(task, "b", {"words": 80}, outcome="failed")
    await agent.save(task, {"ceo": "Bea"}, label="half", milestone=True, next="c")
    await agent.ask(task, "Which colour?", ["red", "blue"])


@pytest.mark.parametrize("view", VIEWS)
async def test_every_view_is_there_and_names_the_task(person: Person, view: str) -> None:
    await story(person.workspace)

    page = await person.see(f"/{view}/report")

    assert page.status == 200
    assert "report · Holdfast" in page.text
    assert ("main", {"id": "main", "tabindex": "-1"}) in page.tags


@pytest.mark.parametrize("view", VIEWS)
async def test_an_unknown_task_is_said_to_be_unknown(person: Person, view: str) -> None:
    page = await person.see(f"/{view}/nobody")

    assert page.status == 404
    assert "there is no task 'nobody'" in page.text


@pytest.mark.parametrize("task", ["a/b", "..", ".", "../x", "Übersicht 1?&", "100%", "a//b", "#1"])
async def test_every_id_has_an_address(person: Person, task: str) -> None:
    await story(person.workspace, task)

    for view in VIEWS:
        page = await person.see(address(view, task))
        assert page.status == 200, view
        assert f"{task} · Holdfast" in page.text
    assert (await person.see("/")).links[task] == address("task", task)


async def test_the_overview_says_where_it_stands(person: Person) -> None:
    await story(person.workspace)

    page = await person.see("/task/report")

    for said in ("waiting", "A report", "1 of 3", "1 failed", "Which colour?", "Bea", "pages"):
        assert said in page.text
    assert "claude@laptop saved checkpoint 2 · half" in page.text


async def test_the_timeline_tells_everything_by_author(person: Person) -> None:
    workspace = person.workspace
    await story(workspace)
    await workspace.answer("report", "red", by="human:maria")
    await workspace.rewind("report", 1)
    view = (await workspace.view("report")).replace(b'"goal": "A report"', b'"goal": "Two"')
    await workspace.edit("report", view)
    await workspace.caller("codex@build").load("report")

    text = (await person.see("/timeline/report")).text

    told = [
        "codex@build took up run 1",
        "human edited",
        "/goal",
        "human rewound to checkpoint 1, saved as 3",
        "human:maria answered red",
        "claude@laptop asked Which colour?",
        "claude@laptop saved checkpoint 2 · half",
        "claude@laptop could not do b",
        "claude@laptop did a",
        "claude@laptop saved checkpoint 1",
    ]
    places = [text.index(said) for said in told]
    assert places == sorted(places)


async def test_a_question_of_an_earlier_run_is_not_told_in_the_words_of_a_later_one() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    async with Workspace.open("memory:", clock=lambda: now) as workspace:
        agent = workspace.caller("agent")
        await agent.ask("report", "The first?")
        await workspace.finish("report", "abandoned")
        now += timedelta(hours=1)
        await agent.load("report")
        await agent.ask("report", "The second?")
        standing = await workspace.standing("report")
        listed = await agent.list_checkpoints("report", show="events")

        told = words.timeline(listed.events, [], standing.questions)

    asked = [each.what for each in told if isinstance(each, words.Told) and each.verb == "asked"]
    assert asked == ["The second?", "q1"]


async def test_many_steps_in_a_row_are_one_line_to_unfold(person: Person) -> None:
    for number in range(1, 8):
        await person.workspace.task("report").done(f"doc-{number}")

    text = (await person.see("/timeline/report")).text

    assert "did 7 steps , doc-1 to doc-7" in text


async def test_steps_come_with_results_and_refs(person: Person) -> None:
    await story(person.workspace)

    page = await person.see("/steps/report")
    failed = await person.see("/steps/report?status=failed")

    assert '{"words":120}' in page.text
    assert "a.md" in page.text
    assert '{"words":80}' in failed.text
    assert '{"words":120}' not in failed.text


async def test_the_state_is_a_tree_with_large_parts_behind_links(person: Person) -> None:
    state = {"items": list(range(250)), "text": "x" * 5000, "deep": {"a": {"b": {"c": 1}}}}
    await person.workspace.task("report").save(state)

    page = await person.see("/task/report")
    more = await person.see(page.links["150 more"])
    whole = await person.see(page.links["all 5,000 characters"])

    assert "250 items" in page.text
    assert "x" * 5000 not in page.text
    assert "x" * 5000 in whole.text
    assert "199" in more.text


async def test_progress_over_time_is_drawn(person: Person) -> None:
    for number in range(5):
        await person.workspace.task("report").done(f"s{number}")

    page = await person.see("/task/report")

    assert [tag for tag, _ in page.tags].count("svg") == 2  # the mark, and the chart
    assert re.search(r'<path class="line" d="M0 [\d.]+(H[\d.]+V[\d.]+)+"/>', page.response.text)
    assert "5 steps done of 5 between" in page.text


async def test_two_checkpoints_stand_side_by_side(person: Person) -> None:
    await story(person.workspace)

    page = await person.see("/diff/report?a=1&b=2")

    assert "From checkpoint 1 to checkpoint 2" in page.text
    assert "1 value differs" in page.text
    assert re.search(r'"Ann"\s+"Bea"', page.text)


async def test_a_checkpoint_can_be_compared_with_the_present(person: Person) -> None:
    task = person.workspace.task("report")
    await task.save({"a": [1, 2], "gone": True})
    await task.done("s", state={"a": [1, 2, 3], "gone": None, "new": "here"})

    text = (await person.see("/diff/report?a=1&b=0")).text

    assert "From checkpoint 1 to now" in text
    assert "/gone removed" in text
    assert "/new added" in text


async def test_a_change_in_a_long_list_is_found_and_equal_lines_are_left_out(
    person: Person,
) -> None:
    items = [f"item {number}" for number in range(2000)]
    await person.workspace.task("report").save({"items": items})
    items[1500] = "another"
    await person.workspace.task("report").save({"items": items})

    text = (await person.see("/diff/report?a=1&b=2")).text

    assert re.search(r'"item 1500",\s+"another",', text)
    assert "1,498 equal lines" in text
    assert len(text) < 3000


async def test_a_state_that_cannot_be_read_is_unknown_and_not_empty(
    tmp_path: Path, tokens: Tokens
) -> None:
    root = tmp_path / ".holdfast"
    async with Workspace.open(root) as workspace:
        await workspace.task("report").save({"a": 1})
    [segment] = (root / "tasks/report/journal").iterdir()
    segment.write_bytes(segment.read_bytes().replace(b'"a":1', b'"a":2'))

    async with Workspace.open(root) as workspace, browser(workspace, tokens) as client:
        page = await Person(client, workspace).see("/task/report")

    assert page.status == 200
    assert "Nobody knows: what was saved cannot be read." in page.text
    assert "Accept the damage" in page.text


async def test_a_checkpoint_that_is_not_there_is_said_so(person: Person) -> None:
    await story(person.workspace)

    assert (await person.see("/diff/report?a=1&b=99")).status == 404
    assert (await person.see("/state/report?checkpoint=99")).status == 404
    assert (await person.see("/state/report?path=/nothing")).status == 404
    assert (await person.see("/state/report?path=nothing")).status == 422


async def test_ten_thousand_steps_are_never_loaded_at_once(tmp_path: Path, tokens: Tokens) -> None:
    async with Workspace.open(tmp_path / ".holdfast") as workspace:
        task = workspace.task("long")
        names = [f"step-{number:05d}" for number in range(10_000)]
        await task.save({"a": 1}, plan=names)
        # One record with many steps, so that the test does not take 10,000 commits.
        await _all_done(workspace, names)
        async with browser(workspace, tokens) as client:
            person = Person(client, workspace)
            sizes: dict[str, int] = {}
            begun = time.process_time()
            for view in VIEWS:
                page = await person.see(f"/{view}/long")
                assert page.status == 200
                sizes[view] = len(page.response.text)
            took = time.process_time() - begun

    assert max(sizes.values()) < 100_000
    # Eight pages; 0.5 s were measured.
    assert took < 8


async def _all_done(workspace: Workspace, names: list[str]) -> None:
    view = (await workspace.view("long")).decode()
    steps = ",\n".join(f'"{name}": "done"' for name in names)
    head, _, rest = view.partition('"plan": {')
    await workspace.edit("long", (head + '"plan": {' + steps + rest[rest.index("}") :]).encode())


def test_comparing_ends_however_much_there_is() -> None:
    old = [7] + [0] * 390 + [8]
    new = [9] + [value for number in range(195) for value in (0, 100 + number)] + [6]
    worst = Difference.model_validate({"path": "/x", "from": old, "to": new})

    lines = side_by_side(worst, until=time.monotonic() - 1)

    assert {line.kind for line in lines} >= {"removed"}
    assert "changed" not in {line.kind for line in lines[1:390]}
