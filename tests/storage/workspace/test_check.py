"""Checking finds what is wrong and touches nothing; repairing sets aside and deletes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast_storage.core.errors import Unavailable, UnsafeFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.storage.workspace.conftest import FolderPlace, Place

    from holdfast_storage.workspace import Workspace

Lines = list[bytes]


async def filled(place: Place) -> None:
    """Leave a task with saves, steps and a question behind, in a workspace nobody has open."""
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"n": 1}, plan=["one", "two", "three"])
    await ann.mark("report", "one", {"r": 1})
    await ann.save("report", {"n": 2})
    await ann.mark("report", "two", {"r": 2})
    await ann.save("report", {"n": 3})
    await ann.ask("report", "Go on?")
    await workspace.close()


async def test_a_healthy_workspace_has_no_problems(place: Place) -> None:
    await filled(place)
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.load("report")
    await ann.save("report", {"n": 4})
    await place.edit(workspace, lambda view: view.update(goal="By hand."))
    await workspace.prune("report", keep_last=1, older_than_hours=0)
    await workspace.finish("report", "abandoned")
    await ann.load("report")
    await ann.save("report", {"m": 1})

    assert await workspace.check() == []
    assert await (await place.open()).check(repair=True) == []


async def test_where_there_is_no_workspace_there_is_no_problem(folder: FolderPlace) -> None:
    assert await (await folder.open()).check() == []
    assert folder.tree() == {}


DAMAGE: dict[str, Callable[[Lines], Lines]] = {
    "a changed byte": lambda lines: [*lines[:3], lines[3].replace(b'"r":2', b'"r":3'), *lines[4:]],
    "half a line": lambda lines: [*lines[:3], lines[3][:40] + b"\n", *lines[4:]],
    "no JSON": lambda lines: [*lines[:3], b"\x00" * len(lines[3][:-1]) + b"\n", *lines[4:]],
    "a missing line": lambda lines: [*lines[:3], *lines[4:]],
    "swapped lines": lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
    "a doubled line": lambda lines: [*lines[:4], lines[3], *lines[4:]],
    "a missing first line": lambda lines: lines[1:],
    "a cut tail": lambda lines: [*lines[:-1], lines[-1][:-9]],
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_in_a_journal_is_found_and_nothing_is_written(
    folder: FolderPlace, damage: str
) -> None:
    await filled(folder)
    folder.change_lines(DAMAGE[damage])
    before = folder.tree()

    found = await (await folder.open()).check()

    assert found
    assert all("journal" in problem.file for problem in found)
    assert {problem.task for problem in found} == {"report"}
    assert folder.tree() == before


@pytest.mark.parametrize("damage", DAMAGE)
async def test_repairing_deletes_nothing(folder: FolderPlace, damage: str) -> None:
    await filled(folder)
    folder.change_lines(DAMAGE[damage])
    lines = set(folder.lines())

    workspace = await folder.open()
    await workspace.check(repair=True)
    await workspace.caller("bob").mark("report", "four")

    quarantined = b"\n".join((await folder.kept("quarantine")).values())
    for line in lines - set(folder.lines()):
        assert line.rstrip(b"\n") in quarantined


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "a cut tail"])
async def test_a_damaged_task_goes_on_and_says_that_it_is_damaged(
    folder: FolderPlace, damage: str
) -> None:
    await filled(folder)
    folder.change_lines(DAMAGE[damage])
    bob = (await folder.open()).caller("bob")

    brief = await bob.load("report")

    assert brief.found
    # A line that stands there twice costs nothing.
    is_told = any("damaged" in warning for warning in brief.warnings)
    assert is_told == (damage != "a doubled line")
    # Whatever is not known to be done is in doubt, never simply pending.
    assert "two" not in brief.remaining
    saved = await bob.save("report", {"n": 9})
    assert saved.checkpoint == 4
    other = await folder.open()
    assert await other.state_at("report", 4) == {"n": 9}


async def test_what_leaned_on_a_damaged_save_is_unavailable_and_said_to_be(
    folder: FolderPlace,
) -> None:
    await filled(folder)
    folder.change_lines(
        lambda lines: [*lines[:2], lines[2].replace(b'"/n":2', b'"/n":7'), *lines[3:]]
    )
    workspace = await folder.open()

    found = await workspace.check(repair=True)

    assert sum("is not available" in problem.problem for problem in found) == 2
    for number in (2, 3):
        with pytest.raises(Unavailable):
            await workspace.state_at("report", number)
    assert await workspace.state_at("report", 1) == {"n": 1}
    pruned = await workspace.prune("report", keep_last=1, older_than_hours=0)
    assert [line.checkpoint for line in pruned.removed + pruned.kept] == [1]


async def test_damage_that_somebody_accepted_is_announced_no_more(folder: FolderPlace) -> None:
    await filled(folder)
    folder.change_lines(DAMAGE["a missing line"])
    workspace = await folder.open()
    bob = workspace.caller("bob")
    before = await bob.load("report")
    new_before = await bob.begin("report", "new")

    await workspace.acknowledge("report", damage=True, by="human:zoe")
    again = await workspace.acknowledge("report", damage=True)

    after = await (await folder.open()).caller("cat").load("report")
    assert any("damaged" in warning for warning in before.warnings)
    assert (new_before.go, new_before.status) == (False, "in_doubt")
    assert after.warnings == []
    assert after.revision == again
    assert (await bob.begin("report", "newer")).go


async def test_a_conflict_that_somebody_acknowledged_is_announced_no_more(place: Place) -> None:
    workspace = await place.open()
    ann, bob = workspace.caller("ann"), workspace.caller("bob")
    await ann.save("report", {"ceo": "Ada"})
    await bob.load("report")
    await ann.save("report", {"ceo": "Bea"})
    await bob.save("report", {"ceo": "Cleo"})
    [conflict] = (await ann.load("report")).conflicts

    await workspace.acknowledge("report", conflict.id)

    assert (conflict.path, conflict.kept_by) == ("/state/ceo", "ann")
    assert (await ann.load("report")).conflicts == []
    assert len(await place.kept("conflicts")) == 1


async def test_a_broken_view_is_found_and_set_aside_only_by_repairing(place: Place) -> None:
    await filled(place)
    broken = b'{\n"task": "report",\n oops'
    await place.save_view(broken)

    found = await (await place.open()).check()
    still = await place.view()
    repairing = await place.open()
    await repairing.check(repair=True)
    await repairing.caller("bob").mark("report", "four")

    [problem] = found
    assert (problem.file, problem.line) == ("tasks/report/state.json", 3)
    assert problem.repair
    assert still == broken
    assert broken in (await place.kept("quarantine")).values()


async def test_a_broken_holdfast_json_is_found(place: Place) -> None:
    workspace = await place.open()
    await workspace.caller("ann").save("report", {"n": 1})
    place.write_settings(b'{"format": 1,\n')

    [problem] = await workspace.check()

    assert (problem.file, problem.line) == ("holdfast.json", 2)


async def test_a_task_that_cannot_be_read_is_listed_and_found(folder: FolderPlace) -> None:
    await filled(folder)
    journal = folder.folder() / "journal"
    aside = folder.project / "aside"
    journal.rename(aside)
    journal.symlink_to(aside)
    workspace: Workspace = await folder.open()

    found = await workspace.check()
    listed = (await workspace.caller("bob").list_checkpoints()).tasks

    assert "report" in {problem.task for problem in found}
    assert [line.task for line in listed] == ["report"]
    with pytest.raises(UnsafeFile):
        await workspace.caller("bob").load()


async def test_an_edited_checkpoint_file_is_set_aside_and_rendered_anew(
    folder: FolderPlace,
) -> None:
    await filled(folder)
    path = folder.folder() / "checkpoints" / "0002.json"
    original = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(original.replace(b'"n": 2', b'"n": 99'))

    workspace = await folder.open()
    bob = workspace.caller("bob")
    await bob.mark("report", "four")
    await workspace.render("report")
    brief = await bob.load("report")

    assert path.read_bytes() == original
    [kept] = (await folder.kept("conflicts")).values()
    assert b'"n": 99' in kept
    assert brief.state == {"n": 3}
    assert any("0002.json was edited" in warning for warning in brief.warnings)
