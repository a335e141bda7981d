"""Which folder is the workspace, when nobody says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast_storage.location import locate
from holdfast_storage.workspace import Workspace


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def made(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_what_is_given_counts_before_all(home: Path, tmp_path: Path) -> None:
    made(home / "project" / ".holdfast")
    environment = {"HOLDFAST_WORKSPACE": str(tmp_path / "by environment")}

    found = locate(tmp_path / "a" / "given", environment, home / "project")

    assert (found.root, found.project) == (tmp_path / "a" / "given", tmp_path / "a")


def test_the_environment_counts_before_what_is_there(home: Path, tmp_path: Path) -> None:
    made(home / "project" / ".holdfast")
    environment = {"HOLDFAST_WORKSPACE": str(tmp_path / "by environment")}

    found = locate(None, environment, home / "project")

    assert found.root == tmp_path / "by environment"


def test_an_empty_environment_says_nothing(home: Path) -> None:
    project = made(home / "project")

    assert locate(None, {"HOLDFAST_WORKSPACE": ""}, project).root == project / ".holdfast"


def test_a_file_url_and_a_tilde_are_paths(home: Path, tmp_path: Path) -> None:
    assert locate(f"file://{tmp_path}/w", {}, tmp_path).root == tmp_path / "w"
    assert locate("~/w", {}, tmp_path).root == home / "w"


def test_a_relative_path_is_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert locate("w", {}, tmp_path).root == tmp_path / "w"


def test_the_nearest_one_above_is_used(home: Path) -> None:
    made(home / "outer" / ".holdfast")
    made(home / "outer" / "inner" / ".holdfast")
    start = made(home / "outer" / "inner" / "a" / "b")

    found = locate(None, {}, start)

    assert (found.root, found.project) == (
        home / "outer" / "inner" / ".holdfast",
        home / "outer" / "inner",
    )


def test_a_file_of_that_name_is_no_workspace(home: Path) -> None:
    made(home / "outer" / ".holdfast")
    start = made(home / "outer" / "inner")
    (start / ".holdfast").write_text("")

    assert locate(None, {}, start).root == home / "outer" / ".holdfast"


@pytest.mark.parametrize("git", ["a folder", "a file, as in a worktree"])
def test_a_new_one_is_at_the_root_of_the_repository(home: Path, git: str) -> None:
    repository = made(home / "repository")
    if git == "a folder":
        made(repository / ".git")
    else:
        (repository / ".git").write_text("gitdir: elsewhere")
    start = made(repository / "a" / "b")

    found = locate(None, {}, start)

    assert (found.root, found.project) == (repository / ".holdfast", repository)


def test_without_a_repository_a_new_one_is_in_the_current_folder(home: Path) -> None:
    start = made(home / "a" / "b")

    found = locate(None, {}, start)

    assert (found.root, found.project) == (start / ".holdfast", start)


@pytest.mark.parametrize("start", ["home", "/"])
def test_the_home_folder_and_the_top_are_no_projects(home: Path, start: str) -> None:
    found = locate(None, {}, home if start == "home" else Path("/"))

    assert (found.root, found.project) == (home / ".holdfast", None)


def test_a_repository_that_is_the_home_folder_is_no_project(home: Path) -> None:
    made(home / ".git")

    found = locate(None, {}, home)

    assert (found.root, found.project) == (home / ".holdfast", None)


def test_the_one_at_home_serves_what_lies_below_and_has_no_project(home: Path) -> None:
    made(home / ".holdfast")

    found = locate(None, {}, made(home / "a"))

    assert (found.root, found.project) == (home / ".holdfast", None)


def test_where_nothing_can_be_written_the_one_at_home_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = made(home / "a")

    def refuse(path: Path, mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", refuse)

    found = locate(None, {}, start)

    assert (found.root, found.project) == (home / ".holdfast", None)


async def test_opening_makes_nothing_and_the_first_write_makes_it_git_ignored(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = made(home / "project")
    monkeypatch.chdir(project)
    monkeypatch.delenv("HOLDFAST_WORKSPACE", raising=False)

    async with Workspace.open() as workspace:
        ann = workspace.caller("ann")
        await ann.load("report")
        await ann.list_checkpoints()
        assert list(project.iterdir()) == []
        await ann.save("report", {"a": 1})

    assert (project / ".holdfast" / ".gitignore").read_text().strip() == "*"
    assert (project / ".holdfast" / "README.md").read_text()
    assert (project / ".holdfast" / "schema" / "state.schema.json").is_file()


async def test_memory_can_be_named_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_WORKSPACE", "memory:")

    async with Workspace.open() as workspace:
        await workspace.caller("ann").save("report", {"a": 1})

    assert os.listdir(tmp_path) == []  # noqa: PTH208 - nothing else is running
