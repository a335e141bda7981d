"""What each release wrote loads for ever, exactly, and work goes on in it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast_storage.core.errors import Unavailable
from holdfast_storage.core.strict_json import is_object
from holdfast_storage.workspace import Workspace

if TYPE_CHECKING:
    from types import ModuleType

FORMATS = Path(__file__).resolve().parent.parent / "formats"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_v1", FORMATS / "make_v1.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def taken_from(release: Path, project: Path) -> Path:
    """Copy a golden workspace to where it can be used, with the modes that git does not keep."""
    root = project / ".holdfast"
    shutil.copytree(release / "workspace", root)
    (root / "gitignore").rename(root / ".gitignore")
    for path in (root, *root.rglob("*")):
        is_rendering = path.parent.name == "checkpoints"
        path.chmod(0o700 if path.is_dir() else 0o400 if is_rendering else 0o600)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return taken_from(FORMATS / "v1", tmp_path / "project")


def differing(expected: Any, found: Any) -> dict[str, Any]:
    """Give what was expected and is not found; what later releases add is no difference."""
    return {
        f"{task}: {part}": (value, found[task][part])
        for task, parts in expected.items()
        for part, value in parts.items()
        if not _covers(found[task][part], value)
    }


def _covers(found: Any, expected: Any) -> bool:
    if is_object(expected) and is_object(found):
        return all(key in found and _covers(found[key], expected[key]) for key in expected)
    return bool(found == expected)


async def test_format_1_loads_exactly(root: Path) -> None:
    expected = json.loads((FORMATS / "v1" / "expected.json").read_text())

    found = json.loads(json.dumps(await script().expected(root)))

    assert differing(expected, found) == {}


async def test_format_1_is_healthy(root: Path) -> None:
    async with Workspace.open(root) as workspace:
        assert await workspace.check() == []


async def test_work_goes_on_in_format_1(root: Path) -> None:
    async with Workspace.open(root) as workspace:
        eve = workspace.caller("eve")
        brief = await eve.load("ingest")
        begun = await eve.begin("ingest", "pay")
        await eve.mark("ingest", "pay", {"paid": True}, claim=begun.claim)
        again = await eve.mark("ingest", "check", ["fine", 1.5, None, True])
        await workspace.answer("ingest", "yes")
        saved = await eve.save("ingest", {"pages": 8}, revision=brief.revision)
        await workspace.render("ingest")
        view = json.loads((root / "tasks" / "ingest" / "state.json").read_bytes())
        finished = await eve.finish("ingest")

        assert (begun.go, begun.status) == (False, "in_doubt")
        assert (again.already_done, again.differs) == (True, False)
        assert (saved.checkpoint, saved.conflicts) == (7, [])
        assert view["note"] == "kept though nobody knows it"
        assert finished.status == "done"
        await eve.load("ingest")
        assert (await eve.save("ingest", {"third": True})).run == 3
        assert await workspace.check() == []


async def test_what_was_pruned_in_format_1_can_be_restored(root: Path) -> None:
    async with Workspace.open(root) as workspace:
        with pytest.raises(Unavailable):
            await workspace.state_at("ingest", 2)
        pinned = await workspace.state_at("ingest", 3)

        [trashed] = await workspace.trash()
        await workspace.restore(trashed.name)

        two = {"model": "small", "totals": {"pages": 1}, "names": ["doc-001"]}
        assert await workspace.state_at("ingest", 2) == two
        assert await workspace.state_at("ingest", 3) == pinned
        assert await workspace.check() == []


async def test_an_editor_may_save_the_view_of_format_1(root: Path) -> None:
    path = root / "tasks" / "ingest" / "state.json"
    view = json.loads(path.read_bytes())
    view["state"]["pages"] = 9
    path.write_text(json.dumps(view, indent=4))

    async with Workspace.open(root) as workspace:
        brief = await workspace.caller("eve").load("ingest")

        assert brief.state["pages"] == 9
        assert brief.conflicts == []


def test_this_release_writes_what_format_1_says(tmp_path: Path) -> None:
    expected = json.loads((FORMATS / "v1" / "expected.json").read_text())

    script().main(tmp_path / "now")

    found = json.loads((tmp_path / "now" / "expected.json").read_text())
    assert differing(expected, found) == {}


def test_git_keeps_every_file_of_it() -> None:
    if shutil.which("git") is None or not (FORMATS.parent.parent / ".git").exists():
        pytest.skip("this is no checkout")
    files = [str(path) for path in FORMATS.rglob("*") if "__pycache__" not in path.parts]

    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *files],
        cwd=FORMATS,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ignored.stdout == ""
