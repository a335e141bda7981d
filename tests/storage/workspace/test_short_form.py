"""The short form for programs: a loop that, killed anywhere and started again, goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast_storage.core.errors import InDoubt, InvalidName, RunClosed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.storage.workspace.conftest import Place

    from holdfast_storage.workspace import Workspace

DOCS = [f"doc-{number}" for number in range(6)]


async def test_the_loop_goes_on_where_it_was_killed(place: Place) -> None:
    worked: list[str] = []

    async def program(dies_after: int) -> None:
        workspace = await place.open()
        task = workspace.task("ingest")
        async for doc in task.remaining(DOCS):
            if len(worked) == dies_after:
                break
            worked.append(doc)
            await task.done(doc, {"pages": len(doc)})
        else:
            await task.finish()
        await workspace.close()

    await program(dies_after=2)
    await program(dies_after=3)
    await program(dies_after=99)

    assert worked == DOCS
    brief = await (await place.open()).task("ingest").load()
    assert (brief.status, brief.progress.done, brief.run) == ("done", 6, 1)


async def test_failed_items_come_again_and_skipped_ones_do_not(place: Place) -> None:
    task = (await place.open()).task("ingest")
    await task.failed("doc-0", "timeout")
    await task.skip("doc-1")
    await task.done("doc-2")

    left = [doc async for doc in (await place.open()).task("ingest").remaining(DOCS[:4])]

    assert left == ["doc-0", "doc-3"]


async def test_items_may_be_anything_that_has_a_name(workspace: Workspace) -> None:
    task = workspace.task("ingest")
    await task.done("2")

    assert [n async for n in task.remaining(range(4))] == [0, 1, 3]
    rows = [{"id": "2"}, {"id": "x"}]
    assert [row async for row in task.remaining(rows, key=lambda row: row["id"])] == [{"id": "x"}]


async def test_items_may_come_one_by_one(workspace: Workspace) -> None:
    task = workspace.task("ingest")
    await task.done("doc-1")

    async def arriving() -> AsyncIterator[str]:
        for doc in DOCS[:3]:
            yield doc

    assert [doc async for doc in task.remaining(arriving())] == ["doc-0", "doc-2"]


async def test_what_others_do_meanwhile_does_not_remain(place: Place) -> None:
    one, two = await place.open(), await place.open()
    seen: list[str] = []

    async for doc in one.task("ingest").remaining(DOCS[:3]):
        seen.append(doc)
        if doc == "doc-0":
            await two.task("ingest").done("doc-1")

    assert seen == ["doc-0", "doc-2"]


async def test_an_item_in_doubt_is_an_error_before_it_is_one_done_twice(place: Place) -> None:
    crashed = await place.open()
    begun = await crashed.task("ingest").begin("doc-1")
    await crashed.close()
    seen: list[str] = []

    task = (await place.open()).task("ingest")

    with pytest.raises(InDoubt) as doubt:
        async for doc in task.remaining(DOCS):
            await task.done(doc)
            seen.append(doc)

    assert seen == ["doc-0"]
    assert (doubt.value.step, doubt.value.idempotency_key) == ("doc-1", begun.idempotency_key)


async def test_no_plan_is_recorded(workspace: Workspace) -> None:
    task = workspace.task("ingest")
    async for doc in task.remaining(DOCS):
        await task.done(doc)
        break

    brief = await task.load()

    assert (brief.remaining, brief.progress.total) == ([], 1)
    assert (await task.finish()).status == "done"


async def test_nothing_is_written_by_asking_what_remains(workspace: Workspace) -> None:
    assert [doc async for doc in workspace.task("ingest").remaining(DOCS)] == DOCS
    assert not (await workspace.task("ingest").load()).found


async def test_after_a_finished_run_everything_remains_again(place: Place) -> None:
    task = (await place.open()).task("ingest")
    for doc in DOCS:
        await task.done(doc)
    await task.finish()
    again = (await place.open()).task("ingest")
    worked: list[str] = []

    async for doc in again.remaining(DOCS):
        worked.append(doc)
        await again.done(doc)

    assert worked == DOCS
    assert (await again.load()).run == 2


async def test_a_late_writer_does_not_open_a_run(place: Place) -> None:
    late = (await place.open()).task("ingest")
    await late.done("doc-0")
    await (await place.open()).task("ingest").finish()

    with pytest.raises(RunClosed):
        await late.done("doc-1")


async def test_save_and_begin_in_the_short_form(place: Place) -> None:
    task = (await place.open()).task("ingest")
    await task.save({"model": "small"}, goal="Summarise.")
    begun = await task.begin("doc-0")
    again = await task.begin("doc-0", claim=begun.claim)
    await task.done("doc-0", claim=again.claim, state={"pages": 3})
    await task.save()
    await task.finish("paused", "later")

    brief = await (await place.open()).task("ingest").load(max_tokens=500)

    assert (brief.goal, brief.state) == ("Summarise.", {"model": "small", "pages": 3})
    assert (brief.status, brief.progress.done) == ("paused", 1)


async def test_a_task_must_have_a_name(workspace: Workspace) -> None:
    with pytest.raises(InvalidName):
        workspace.task("")
