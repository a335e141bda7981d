"""Refs are looked at and hashed, and only where the operator allows it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.core.errors import InvalidValue, TooLarge
from holdfast_storage.refs import Refs
from holdfast_storage.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def workspace(project: Path) -> AsyncIterator[Workspace]:
    async with Workspace.open(project / ".holdfast") as opened:
        yield opened


async def statuses(workspace: Workspace) -> dict[str, str]:
    brief = await workspace.caller("bob").load("report")
    return {each.ref: each.status for each in brief.refs}


async def test_a_file_is_ok_until_it_changes_or_goes(project: Path, workspace: Workspace) -> None:
    (project / "a.txt").write_text("one")
    (project / "b.txt").write_text("two")
    ann = workspace.caller("ann")
    await ann.save("report", refs=["a.txt", "./b.txt", str(project / "a.txt")])

    before = await statuses(workspace)
    (project / "a.txt").write_text("uno")
    (project / "b.txt").unlink()

    assert set(before.values()) == {"ok"}
    assert await statuses(workspace) == {
        "a.txt": "changed",
        "./b.txt": "missing",
        str(project / "a.txt"): "changed",
    }


async def test_a_file_made_later_has_changed(project: Path, workspace: Workspace) -> None:
    await workspace.caller("ann").mark("report", "one", refs=["later.txt"])

    before = await statuses(workspace)
    (project / "later.txt").write_text("x")

    assert before == {"later.txt": "missing"}
    assert await statuses(workspace) == {"later.txt": "changed"}


async def test_a_ref_noted_again_is_what_it_is_now(project: Path, workspace: Workspace) -> None:
    (project / "a.txt").write_text("one")
    ann = workspace.caller("ann")
    await ann.save("report", refs=["a.txt"])
    (project / "a.txt").write_text("two")

    await ann.mark("report", "one", refs=["a.txt"])

    assert await statuses(workspace) == {"a.txt": "ok"}


async def test_a_folder_is_ok_while_it_is_one(project: Path, workspace: Workspace) -> None:
    (project / "out").mkdir()
    await workspace.caller("ann").save("report", refs=["out"])

    before = await statuses(workspace)
    (project / "out").rmdir()
    (project / "out").write_text("a file")

    assert before == {"out": "ok"}
    assert await statuses(workspace) == {"out": "changed"}


@pytest.mark.parametrize(
    "ref",
    [
        "https://example.com/a?b=c",
        "s3://bucket/key",
        "mailto:somebody@example.com",
        "../outside.txt",
        "sub/../../outside.txt",
        "/etc/passwd",
        "~/secret",
    ],
)
async def test_what_lies_outside_is_not_looked_at(
    project: Path, workspace: Workspace, ref: str
) -> None:
    (project.parent / "outside.txt").write_text("x")
    await workspace.caller("ann").save("report", refs=[ref])

    [(_, status)] = (await statuses(workspace)).items()

    assert status in ("unchecked", "missing")
    if ref != "~/secret":
        assert status == "unchecked"


async def test_a_link_that_leads_out_is_not_followed(project: Path, workspace: Workspace) -> None:
    (project.parent / "outside.txt").write_text("x")
    (project / "link.txt").symlink_to(project.parent / "outside.txt")
    (project / "linked").symlink_to(project.parent)

    ann = workspace.caller("ann")
    await ann.save("report", refs=["link.txt", "linked/outside.txt"])

    assert set((await statuses(workspace)).values()) == {"unchecked"}


async def test_a_link_that_comes_to_lead_out_is_unchecked(
    project: Path, workspace: Workspace
) -> None:
    (project / "a.txt").write_text("x")
    await workspace.caller("ann").save("report", refs=["a.txt"])
    (project / "a.txt").unlink()
    (project / "a.txt").symlink_to("/etc/passwd")

    assert await statuses(workspace) == {"a.txt": "unchecked"}


async def test_a_link_inside_is_what_it_leads_to(project: Path, workspace: Workspace) -> None:
    (project / "a.txt").write_text("x")
    (project / "link").symlink_to("a.txt")
    await workspace.caller("ann").save("report", refs=["link"])

    (project / "a.txt").write_text("y")

    assert await statuses(workspace) == {"link": "changed"}


async def test_links_in_a_circle_hold_nobody_up(project: Path, workspace: Workspace) -> None:
    (project / "circle").symlink_to("circle")

    await workspace.caller("ann").save("report", refs=["circle"])

    assert (await statuses(workspace))["circle"] in ("missing", "unchecked")


@pytest.mark.timeout(10)
async def test_a_pipe_holds_nobody_up(project: Path, workspace: Workspace) -> None:
    os.mkfifo(project / "pipe")

    await workspace.caller("ann").save("report", refs=["pipe"])

    assert await statuses(workspace) == {"pipe": "unchecked"}


async def test_roots_that_the_operator_allows_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("x")
    root = tmp_path / "project" / ".holdfast"
    async with Workspace.open(root, roots=[tmp_path / "data"]) as workspace:
        ref = str(tmp_path / "data" / "a.csv")
        await workspace.caller("ann").save("report", refs=[ref])

        assert await statuses(workspace) == {ref: "ok"}


async def test_in_memory_nothing_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    async with Workspace.open("memory:") as workspace:
        await workspace.caller("ann").save("report", refs=[str(tmp_path / "a.txt")])

        assert set((await statuses(workspace)).values()) == {"unchecked"}


async def test_a_large_file_is_known_by_size_and_time(project: Path) -> None:
    large = project / "large.bin"
    large.touch()
    os.truncate(large, 65 * 2**20)
    refs = Refs(project)

    noted = await refs.note(["large.bin"])
    same = await refs.verify(noted)
    os.utime(large, ns=(1, 1))

    assert set(noted[0]) == {"ref", "size", "mtime_ns"}
    assert same == [{"ref": "large.bin", "status": "ok"}]
    assert await refs.verify(noted) == [{"ref": "large.bin", "status": "changed"}]


async def test_a_file_that_cannot_be_read_is_not_ok(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.txt").write_text("x")
    refs = Refs(project)
    noted = await refs.note(["a.txt"])

    async def refuse(path: Path) -> str:
        raise PermissionError(path)

    monkeypatch.setattr("holdfast_storage.refs._hash", refuse)

    assert (await refs.verify(noted))[0]["status"] != "ok"


@pytest.mark.parametrize("refs", ["a.txt", [""], ["a\nb"], [7], ["x" * 5000], ["\ud800"]])
async def test_what_is_no_ref_is_refused(project: Path, refs: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        await Refs(project).note(refs)

    assert refused.value.where == "refs"


async def test_there_is_a_limit_to_refs(project: Path) -> None:
    with pytest.raises(TooLarge):
        await Refs(project, most=2).note(["a", "b", "c"])
