"""What leaves this repository: one wheel with two typed packages, and no trace of where it was made."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from holdfast_server import __version__

ROOT = Path(__file__).resolve().parent.parent

INDEX_SETTING = re.compile(r"index[-_]url|find[-_]links|^registry = ", re.MULTILINE | re.IGNORECASE)


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_two_packages_and_nothing_else(wheel_names: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel_names}

    assert tops == {"holdfast_server", "holdfast_storage", f"holdfast-{__version__}.dist-info"}


def test_the_wheel_holds_every_module(wheel_names: set[str]) -> None:
    modules = {
        path.relative_to(ROOT / parent).as_posix()
        for parent in ("server", "storage")
        for path in (ROOT / parent).rglob("*.py")
    }

    assert modules <= wheel_names


def test_the_wheel_holds_what_the_page_is_made_of(wheel_names: set[str]) -> None:
    page = ROOT / "server" / "holdfast_server" / "dashboard"
    files = [file for name in ("templates", "static") for file in (page / name).iterdir()]

    assert {file.relative_to(ROOT / "server").as_posix() for file in files} <= wheel_names


@pytest.mark.parametrize("package", ["holdfast_server", "holdfast_storage"])
def test_both_packages_are_typed(wheel_names: set[str], package: str) -> None:
    assert f"{package}/py.typed" in wheel_names


def test_the_wheel_carries_the_licence(wheel_names: set[str]) -> None:
    assert f"holdfast-{__version__}.dist-info/licenses/LICENSE" in wheel_names


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == __version__


def test_no_file_names_a_package_index() -> None:
    assert [path for path in _files_in_git() if INDEX_SETTING.search(_text(path))] == []


@pytest.mark.parametrize("name", ["build", "dev", "runtime"])
def test_requirements_are_pinned_by_hash_and_carry_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    requirements = re.findall(r"^[a-z0-9].*(?:\n +.*)*", text, re.MULTILINE)

    assert requirements
    assert all("==" in each and "--hash=sha256:" in each for each in requirements)
    assert "://" not in text
    assert not re.search(r"(^|\s)(/|file:|-f |-i )", text)


def _files_in_git() -> list[Path]:
    # In a container the checkout often belongs to somebody else, which git refuses by itself.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(
        [*command, "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")
