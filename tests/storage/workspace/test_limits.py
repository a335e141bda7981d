"""Every input has a limit; what is over it is refused by name and leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.core.errors import (
    HoldfastError,
    InvalidName,
    InvalidValue,
    NewerFormat,
    TooLarge,
    Unreadable,
)
from holdfast_storage.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.storage.workspace.conftest import FolderPlace, Place

    from holdfast_storage.caller import Caller


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def unfolding() -> list[Any]:
    """Name one list a thousand times, and that one a thousand times, and so on."""
    value: list[Any] = [1]
    for _ in range(8):
        value = [value] * 1000
    return value


class Text(str):
    __slots__ = ()


REFUSED: dict[str, tuple[Callable[[Caller], Awaitable[object]], type[HoldfastError]]] = {
    "a state over 16 MiB": (lambda c: c.save("t", {"a": "x" * 2**24}), TooLarge),
    "an append over 16 MiB": (lambda c: c.save("t", append={"a": ["x" * 2**24]}), TooLarge),
    "a state that unfolds without end": (lambda c: c.save("t", {"a": unfolding()}), TooLarge),
    "an append that unfolds without end": (
        lambda c: c.save("t", append={"a": unfolding()}),
        TooLarge,
    ),
    "a result that unfolds without end": (lambda c: c.mark("t", "s", unfolding()), TooLarge),
    "a result over 64 KiB": (lambda c: c.mark("t", "s", "x" * 2**16), TooLarge),
    "a goal over 16 KiB": (lambda c: c.save("t", goal="x" * (2**14 + 1)), TooLarge),
    "a next over 16 KiB": (lambda c: c.mark("t", "s", next="ä" * (2**13 + 1)), TooLarge),
    "a summary over 16 KiB": (lambda c: c.finish("known", summary="x" * 20_000), TooLarge),
    "a state too deep": (lambda c: c.save("t", {"a": deep(64)}), InvalidValue),
    "a state far too deep": (lambda c: c.save("t", {"a": deep(100_000)}), InvalidValue),
    "a result too deep": (lambda c: c.mark("t", "s", deep(65)), InvalidValue),
    "too many steps at once": (lambda c: c.save("t", plan=["s"] * 10_001), TooLarge),
    "NaN": (lambda c: c.save("t", {"a": [float("nan")]}), InvalidValue),
    "infinity": (lambda c: c.mark("t", "s", float("-inf")), InvalidValue),
    "half a character": (lambda c: c.save("t", {"a": "\ud800"}), InvalidValue),
    "half a character as a key": (lambda c: c.save("t", {"\udfff": 1}), InvalidValue),
    "half a character as a goal": (lambda c: c.save("t", goal="\ud800"), InvalidValue),
    "a key that is no text": (lambda c: c.save("t", {1: 1}), InvalidValue),  # type: ignore[dict-item]
    "a tuple": (lambda c: c.mark("t", "s", (1, 2)), InvalidValue),
    "bytes": (lambda c: c.mark("t", "s", b"x"), InvalidValue),
    "a text of another kind": (lambda c: c.mark("t", "s", Text("x")), InvalidValue),
    "an endless number": (lambda c: c.mark("t", "s", 10**5000), InvalidValue),
    "no task": (lambda c: c.save("", {"a": 1}), InvalidName),
    "a task of control characters": (lambda c: c.save("a\x00b", {"a": 1}), InvalidName),
    "a task that turns the writing": (lambda c: c.save("a\u202eb", {"a": 1}), InvalidName),
    "a task with unseen characters": (lambda c: c.save("a\u200bb", {"a": 1}), InvalidName),
    "a task with half a character": (lambda c: c.save("a\ud800", {"a": 1}), InvalidName),
    "a task with white space around": (lambda c: c.mark(" a", "s"), InvalidName),
    "a task of 513 bytes": (lambda c: c.begin("x" * 513, "s"), InvalidName),
    "a step of two lines": (lambda c: c.mark("t", "a\nb"), InvalidName),
    "a step begun without end": (lambda c: c.begin("t", "x" * 513), InvalidName),
    "a planned step that is none": (lambda c: c.save("t", plan=["fine", ""]), InvalidName),
    "a label of two lines": (lambda c: c.save("t", {"a": 1}, label="a\nb"), InvalidName),
    "a question over 16 KiB": (lambda c: c.ask("t", "?" * 20_000), TooLarge),
    "an option over 16 KiB": (lambda c: c.ask("t", "?", ["x" * 20_000]), TooLarge),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_over_a_limit_leaves_nothing_behind(folder: FolderPlace, name: str) -> None:
    call, error = REFUSED[name]
    workspace = await folder.open()
    await workspace.caller("ann").save("known", {"a": 1})
    await workspace.close()  # so that nothing is left to be rendered
    ann = (await folder.open()).caller("ann")
    before = folder.tree()

    with pytest.raises(error) as refused:
        await call(ann)

    assert folder.tree() == before
    assert len(str(refused.value)) < 1000
    assert refused.value.hint


@pytest.mark.parametrize("name", REFUSED)
async def test_where_there_is_no_workspace_a_refusal_makes_none(
    folder: FolderPlace, name: str
) -> None:
    call, _ = REFUSED[name]
    ann = (await folder.open()).caller("ann")

    with pytest.raises(HoldfastError):
        await call(ann)

    assert folder.tree() == {}


ODD_NAMES = [
    "../x",
    "..",
    ".",
    "/etc/passwd",
    "a/b\\c",
    "CON",
    "con",
    "nul.txt",
    ".holdfast",
    ".lock",
    "~",
    "-rf",
    "a b",
    "x" * 300,
    "Über",
    "U\u0308ber",  # the same to the eye, another name
    "雪だるま ☃",
    "a%2e%2e%2fb",
    "state.json",
    "*",
    "a\u00a0b",
]


@pytest.mark.parametrize("task", ODD_NAMES)
async def test_any_readable_name_is_a_task_and_stays_inside(folder: FolderPlace, task: str) -> None:
    workspace = await folder.open()
    ann = workspace.caller("ann")

    await ann.save(task, {"a": task}, label=task)
    await ann.mark(task, task, {"n": 1})
    await workspace.render(task)
    await workspace.close()

    assert sorted(path.name for path in folder.project.iterdir()) == [".holdfast"]
    [only] = (folder.root / "tasks").iterdir()
    assert len(only.name.encode()) <= 64
    other = await folder.open()
    brief = await other.caller("bob").load(task)
    assert (brief.task, brief.state, brief.progress.last_done) == (task, {"a": task}, task)
    assert [line.task for line in (await other.caller("bob").list_checkpoints()).tasks] == [task]


async def test_names_that_look_alike_are_different_tasks(folder: FolderPlace) -> None:
    ann = (await folder.open()).caller("ann")
    names = ["Report", "report", "REPORT", "Über", "U\u0308ber", "re port", "re-port"]

    for name in names:
        await ann.save(name, {"name": name})

    assert [(await ann.load(name)).state["name"] for name in names] == names
    folders = [path.name for path in (folder.root / "tasks").iterdir()]
    # Also where the file system knows no difference between cases.
    assert len({name.lower() for name in folders}) == len(names)


async def test_the_largest_state_and_result_are_kept_exactly(workspace: Workspace) -> None:
    ann = workspace.caller("ann")
    large = "x" * (2**24 - len('{"a":""}'))
    result = "y" * (2**16 - 2)

    await ann.save("report", {"a": large})
    await ann.mark("report", "one", result)

    assert (await workspace.state_at("report", 1))["a"] == large
    assert (await ann.mark("report", "one", result)).differs is False


async def test_small_additions_cannot_pass_the_limit_together(place: Place) -> None:
    place.write_settings(b'{"format": 1, "workspace": "w", "limits": {"state_bytes": 100}}')
    ann = (await place.open()).caller("ann")
    await ann.save("report", {"a": "x" * 60})

    with pytest.raises(TooLarge) as refused:
        await ann.save("report", {"b": "x" * 60})
    with pytest.raises(TooLarge):
        await ann.mark("report", "one", append={"l": ["x" * 60]})

    assert (refused.value.where, refused.value.limit) == ("state", 100)
    assert (await ann.load("report")).progress.done == 0
    # What is taken away makes room.
    await ann.save("report", {"a": None})
    assert (await ann.save("report", {"b": "x" * 60})).checkpoint == 3


async def test_there_is_a_limit_to_steps(place: Place) -> None:
    place.write_settings(b'{"format": 1, "workspace": "w", "limits": {"steps": 3}}')
    ann = (await place.open()).caller("ann")
    await ann.save("report", plan=["one", "two"])
    await ann.mark("report", "three")

    for call in (
        ann.mark("report", "four"),
        ann.begin("report", "four"),
        ann.save("report", plan=["one", "four"]),
    ):
        with pytest.raises(TooLarge) as refused:
            await call
        assert refused.value.limit == 3
    assert (await ann.mark("report", "one")).outcome == "done"
    assert (await ann.save("report", plan=["two", "one"])).checkpoint == 2


async def test_a_person_is_held_to_the_limits_as_well(place: Place) -> None:
    place.write_settings(b'{"format": 1, "workspace": "w", "limits": {"state_bytes": 100}}')
    workspace = await place.open()
    ann = workspace.caller("ann")
    await ann.save("report", {"a": 1})

    await place.edit(workspace, lambda view: view["state"].update(b="x" * 200))
    brief = await ann.load("report")

    assert brief.state == {"a": 1}
    assert any("state was put back" in warning for warning in brief.warnings)


# --- holdfast.json ----------------------------------------------------------------------------


async def test_an_unparseable_holdfast_json_refuses_to_start(folder: FolderPlace) -> None:
    folder.write_settings(b'{\n  "format": 1,\n  "limits": {"steps": 3,}\n}')
    before = folder.tree()

    with pytest.raises(Unreadable) as refused:
        await folder.open()

    assert (refused.value.line, refused.value.file) == (3, "holdfast.json")
    assert refused.value.column > 20
    assert folder.tree() == before


@pytest.mark.parametrize(
    "raw",
    [
        b'{"format": 1, "limits": {"steps": 1, "steps": 2}}',
        b'{"format": 1, "lease_seconds": NaN}',
        b"[]",
        b"",
        b"\xff\xfe",
    ],
    ids=["a key twice", "NaN", "no object", "empty", "no text"],
)
async def test_what_is_no_settings_file_refuses_to_start(folder: FolderPlace, raw: bytes) -> None:
    folder.write_settings(raw)

    with pytest.raises(Unreadable):
        await folder.open()


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        (b'{"limit": {}}', "limit"),
        (b'{"limits": {"step": 1}}', "limits.step"),
        (b'{"limits": {"steps": "many"}}', "limits.steps"),
        (b'{"limits": {"steps": true}}', "limits.steps"),
        (b'{"limits": []}', "limits"),
        (b'{"retention": {"keep_last": -1}}', "retention.keep_last"),
        (b'{"lease_seconds": null}', "lease_seconds"),
    ],
)
async def test_a_wrong_setting_is_named(place: Place, settings: bytes, where: str) -> None:
    place.write_settings(settings)

    with pytest.raises(InvalidValue) as refused:
        await place.open()

    assert refused.value.where == f"holdfast.json: {where}"


async def test_a_newer_workspace_is_not_touched(folder: FolderPlace) -> None:
    folder.write_settings(b'{"format": 2, "workspace": "w", "what": "ever"}')
    before = folder.tree()

    with pytest.raises(NewerFormat) as refused:
        Workspace.open(folder.root)

    assert (refused.value.found, refused.value.known) == (2, 1)
    assert folder.tree() == before


async def test_while_running_the_last_good_settings_count(place: Place) -> None:
    place.write_settings(b'{"format": 1, "workspace": "w", "limits": {"steps": 1}}')
    ann = (await place.open()).caller("ann")
    await ann.mark("report", "one")
    place.write_settings(b"{oops")
    await ann.load("report")

    with pytest.raises(TooLarge):
        await ann.mark("report", "two")
    saved = await ann.save("report", {"a": 1})
    place.write_settings(b'{"format": 1, "workspace": "w", "limits": {"steps": 2}}')
    await ann.load("report")

    assert any("last good" in warning for warning in saved.warnings)
    assert (await ann.mark("report", "two")).warnings == []
