"""What happens in the worst moment: cancelled, evicted, pruned under a reader, half of a folder gone."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast_storage import Workspace, pruning
from holdfast_storage.core.errors import InvalidName, NotSaved, Unavailable, Unknown
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.folder.disk import Disk
from holdfast_storage.engines.folder.rewriting import Rewriting


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


def in_small_segments(root: Path, **times: Any) -> Workspace:
    return Workspace(FolderEngine.open(root, segment_bytes=600, **times), by="ann")


async def test_a_cancelled_call_costs_the_task_nothing(root: Path) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        await ann.save("report", {"n": 1})
        for number in range(40):
            call = asyncio.create_task(ann.mark("report", f"step-{number}"))
            await asyncio.sleep(number % 5 / 2000)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

            brief = await workspace.caller("bob").load("report")

            assert (brief.found, brief.run, brief.state) == (True, 1, {"n": 1})


async def test_a_fold_that_was_given_up_during_the_flush_costs_nothing(root: Path) -> None:
    class Slow(Disk):
        slow = False

        def flush_data(self, fd: int) -> None:
            if self.slow:
                release.wait(10)  # until 80 other tasks have pushed its fold out of the cache
            super().flush_data(fd)

    import threading

    release = threading.Event()
    disk = Slow()
    async with Workspace(FolderEngine.open(root, disk=disk), by="ann") as workspace:
        ann = workspace.caller("ann")
        for number in range(80):
            await ann.save(f"other-{number}", {})
        await ann.save("report", {"n": 1})
        disk.slow = True
        marking = asyncio.create_task(ann.mark("report", "a"))
        for number in range(80):
            await workspace.brief(f"other-{number}")
        disk.slow = False
        release.set()
        await marking

        brief = await workspace.caller("bob").load("report")

    assert (brief.found, brief.state, brief.progress.done) == (True, {"n": 1}, 1)


async def test_a_prune_that_dies_between_two_segments_leaves_the_state_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_small_segments(root) as workspace:
        ann = workspace.caller("ann")
        await ann.save("report", {"precious": "p" * 200, "k": 0})
        for number in range(1, 30):
            await ann.save("report", {"k": number})
        before = await ann.load("report")
        replaced: list[int] = []
        replace = Rewriting._replace  # pyright: ignore[reportPrivateUsage]

        def once_only(self: Rewriting, number: int, *more: Any) -> None:
            if replaced:
                raise OSError("killed")
            replaced.append(number)
            replace(self, number, *more)

        monkeypatch.setattr(Rewriting, "_replace", once_only)
        with pytest.raises(Exception):  # noqa: B017
            await workspace.prune("report", keep_last=2, older_than_hours=0)
        monkeypatch.undo()

    async with in_small_segments(root) as workspace:
        after = await workspace.caller("bob").load("report")

        assert replaced
        assert after.state == before.state
        assert await workspace.check() == []


async def test_a_missing_beginning_is_damage_and_not_a_new_task(root: Path) -> None:
    async with in_small_segments(root) as workspace:
        ann = workspace.caller("ann")
        for number in range(30):
            await ann.mark("report", f"step-{number}", "r" * 50)
    (root / "tasks" / "report" / "journal" / "000001.jsonl").rename(root / "away")

    async with in_small_segments(root) as workspace:
        bob = workspace.caller("bob")
        brief = await bob.load("report")
        begun = await bob.begin("report", "step-0")

    assert brief.found
    assert brief.state is None
    assert any("damaged" in warning for warning in brief.warnings)
    assert (begun.go, begun.status) == (False, "in_doubt")


async def test_a_save_that_is_durable_is_not_answered_as_failed(root: Path) -> None:
    async with Workspace.open(root) as workspace:
        ann, bob = workspace.caller("ann"), workspace.caller("bob")
        await ann.save("report", {"x": 1})
        await bob.load("report")
        await bob.save("report", {"x": 2})
        # Nobody can make a folder where a file is.
        (root / "tasks" / "report" / "conflicts").write_text("in the way")

        saved = await ann.save("report", {"x": 3}, append={"log": ["charged"]})

        assert [conflict.yours for conflict in saved.conflicts] == [3]
        assert (await bob.load("report")).state == {"x": 2, "log": ["charged"]}


async def test_a_run_that_is_finished_is_answered_as_finished_whatever_retention_does(
    root: Path,
) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        for number in range(30):
            await ann.save("report", {"n": number})
        (root / ".trash").write_text("in the way")
        (root / "holdfast.json").write_text(
            json.dumps({"format": 1, "retention": {"keep_last": 1, "older_than_hours": 0}})
        )
        await ann.load("report")

        assert (await ann.finish("report")).status == "done"


async def test_what_somebody_wrote_into_a_checkpoint_file_is_kept_when_the_file_goes(
    root: Path,
) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        await ann.save("report", {"n": 0})
        await workspace.render("report")
        file = root / "tasks" / "report" / "checkpoints" / "0001.json"
        os.chmod(file, 0o600)  # noqa: PTH101
        file.write_text("my own words")
        for number in range(1, 9):
            await ann.save("report", {"n": number})
        await workspace.render("report")

        kept = [each.read_text() for each in (root / "tasks/report/conflicts").iterdir()]
        assert "my own words" in kept
        assert (await ann.load("report")).conflicts


async def test_a_view_that_could_not_be_rendered_is_rendered_later(root: Path) -> None:
    from holdfast_storage.core.errors import Busy

    async with Workspace.open(root) as workspace:
        engine = workspace._engine  # pyright: ignore[reportPrivateUsage]
        swap, failures = engine.swap_view, [1]
        happened = asyncio.Event()

        async def once_busy(task: str, raw: bytes, revision: int) -> bool:
            if failures:
                failures.pop()
                raise Busy(task, 5)
            published = await swap(task, raw, revision)
            happened.set()
            return published

        engine.swap_view = once_busy  # type: ignore[method-assign]
        await workspace.caller("ann").save("report", {"n": 1})
        await asyncio.wait_for(happened.wait(), 20)

        assert json.loads((root / "tasks/report/state.json").read_text())["state"] == {"n": 1}


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
async def test_a_view_that_is_no_file_stops_nobody(root: Path, kind: str) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        await ann.save("report", {"n": 1})
        await workspace.render("report")
        view = root / "tasks" / "report" / "state.json"
        view.unlink()
        if kind == "folder":
            view.mkdir()
        elif kind == "link":
            view.symlink_to("/etc/hostname")
        else:
            os.mkfifo(view)

        marked = await ann.mark("report", "a")
        brief = await ann.load("report")

        assert marked.outcome == "done"
        assert brief.state == {"n": 1}
        assert any("state.json" in warning for warning in brief.warnings)
        if kind == "folder":
            shutil.rmtree(view)


async def test_a_pin_made_while_prune_plans_holds(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        for number in range(5):
            await ann.save("report", {"n": number})
        plan = pruning._rewritten  # pyright: ignore[reportPrivateUsage]
        pinned: list[int] = []

        async def and_somebody_pins(*arguments: Any) -> Any:
            if not pinned:
                pinned.append(await workspace.pin("report", 1))
            return await plan(*arguments)

        monkeypatch.setattr(pruning, "_rewritten", and_somebody_pins)
        await workspace.prune("report", keep_last=1, older_than_hours=0)

        assert await workspace.state_at("report", 1) == {"n": 0}
        with pytest.raises(Unavailable):
            await workspace.state_at("report", 2)


async def test_a_summary_that_somebody_changed_is_not_believed(root: Path) -> None:
    async with Workspace.open(root) as workspace:
        await workspace.caller("ann").save("report", {"n": 1}, goal="G")
        await workspace.render("report")
        head = root / "tasks" / "report" / ".head"
        told = json.loads(head.read_text())
        told["summary"] = {"task": 7, "status": []}
        head.write_text(json.dumps(told))

        [line] = await workspace.tasks()

        assert (line.task, line.goal) == ("report", "G")


async def test_names_that_are_no_texts_are_refused_as_such(root: Path) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        for call in (
            ann.save(7, {}),  # type: ignore[arg-type]
            ann.mark("report", 7),  # type: ignore[arg-type]
            ann.save("report", {}, label=7),  # type: ignore[arg-type]
        ):
            with pytest.raises(InvalidName):
                await call


async def test_a_thousand_failures_do_not_slow_the_search_for_the_next_step(root: Path) -> None:
    async with Workspace.open("memory:") as workspace:
        ann = workspace.caller("ann")
        await ann.save("report", plan=[f"step-{number}" for number in range(300)])
        for number in range(199):
            await ann.mark("report", f"step-{number}", outcome="failed")
        marked = await ann.mark("report", "step-199", outcome="failed")

        fold = workspace._desk.folds.get("report")  # pyright: ignore[reportPrivateUsage]
        assert marked.next_step == "step-200"
        assert (len(fold.pending), len(fold.unfinished)) == (100, 300)


async def test_a_step_somebody_is_at_work_on_is_not_made_pending_by_an_edit(root: Path) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        await ann.begin("report", "pay")
        await workspace.render("report")
        view = root / "tasks" / "report" / "state.json"
        document = json.loads(view.read_text())
        document["plan"]["pay"] = "pending"
        view.write_text(json.dumps(document))

        begun = await workspace.caller("bob").begin("report", "pay")

        assert (begun.go, begun.status) == (False, "running")


async def test_saves_that_one_caller_makes_at_once_do_not_conflict_with_each_other(
    root: Path,
) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        answers = await asyncio.gather(
            *(ann.save("report", {"n": number}, append={"l": [number]}) for number in range(30))
        )

        brief = await ann.load("report")
        assert [answer.conflicts for answer in answers] == [[]] * 30
        assert brief.state == {"n": 29, "l": list(range(30))}


@pytest.mark.parametrize("name", ["human", "human:ann"])
async def test_no_program_is_recorded_as_a_person(root: Path, name: str) -> None:
    async with Workspace.open(root) as workspace:
        with pytest.raises(InvalidName):
            workspace.caller(name)


async def test_a_restore_that_was_interrupted_makes_no_kept_checkpoint_unavailable(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        for number in range(3):
            await ann.save("report", {"n": number})
        [name] = (await workspace.prune("report", keep_last=1, older_than_hours=0)).trash

        async def die(*arguments: Any) -> None:
            raise NotSaved("the power went")

        monkeypatch.setattr(pruning, "record_upkeep", die)
        with pytest.raises(NotSaved):
            await workspace.restore(name)

    async with Workspace.open(root) as workspace:
        assert [await workspace.state_at("report", n) for n in (1, 2, 3)] == [
            {"n": 0},
            {"n": 1},
            {"n": 2},
        ]
        assert await workspace.check() == []


async def test_a_second_prune_that_was_interrupted_is_no_damage(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Workspace.open(root) as workspace:
        ann = workspace.caller("ann")
        for number in range(3):
            await ann.save("report", {"n": number})
        [name] = (await workspace.prune("report", keep_last=1, older_than_hours=0)).trash
        await workspace.restore(name)

        async def die(*arguments: Any) -> None:
            raise NotSaved("the power went")

        monkeypatch.setattr(pruning, "record_upkeep", die)
        with pytest.raises(NotSaved):
            await workspace.prune("report", keep_last=1, older_than_hours=0)

    async with Workspace.open(root) as workspace:
        assert await workspace.check() == []
        assert [each.checkpoints for each in await workspace.trash()] == [(1, 2)]


async def test_a_prune_that_died_before_it_took_anything_is_not_offered(root: Path) -> None:
    async with in_small_segments(root) as workspace:
        ann = workspace.caller("ann")
        for number in range(3):
            await ann.save("report", {"n": number})
        [name] = (await workspace.prune("report", keep_last=1, older_than_hours=0)).trash
        for taken in (root / ".trash" / name).glob("*.jsonl"):
            taken.unlink()

        assert await workspace.trash() == []
        with pytest.raises(Unknown):
            await workspace.restore(name)


async def test_of_a_prune_that_died_half_way_only_what_it_took_is_told_to_be_back(
    root: Path,
) -> None:
    async with in_small_segments(root) as workspace:
        ann = workspace.caller("ann")
        for number in range(12):
            await ann.save("report", {"n": number, "text": str(number) * 200}, replace=True)
        [name] = (await workspace.prune("report", keep_last=1, older_than_hours=0)).trash
        taken = sorted((root / ".trash" / name).glob("*.jsonl"))
        assert len(taken) > 1
        taken[0].unlink()

        back = await workspace.restore(name)

        assert 0 < len(back.checkpoints) < 11
        for number in back.checkpoints:
            assert (await workspace.state_at("report", number))["n"] == number - 1
