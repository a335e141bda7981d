"""Every example runs as a newcomer would run it: killed, resumed, and nothing done twice."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "client_examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
# Seconds on a quiet machine, and no reason to fail on a busy one.
_SECONDS = 200
pytestmark = pytest.mark.timeout(_SECONDS + 20)
SUMMARY = r"{name}: killed at .+, resumed at .+, effects done once \(.+\)"


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_killed_and_resumed_and_leaves_nothing_behind(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()

    ended = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={"TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert "KILLED" in ended.stdout
    assert len([line for line in lines if line.startswith("  yes: ")]) >= 2
    assert re.fullmatch(SUMMARY.format(name=name), lines[-1])
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]


def test_an_example_that_goes_wrong_says_so(tmp_path: Path) -> None:
    broken = (
        (EXAMPLES / "killed_and_resumed.py").read_text().replace("task.remaining(ITEMS)", "ITEMS")
    )
    (tmp_path / "shared").symlink_to(EXAMPLES / "shared")
    (tmp_path / "broken.py").write_text(
        broken.replace("async for item in ITEMS", "for item in ITEMS")
    )

    ended = subprocess.run(
        [sys.executable, str(tmp_path / "broken.py")], check=False, capture_output=True, text=True
    )

    assert ended.returncode == 1
    assert "NO: the second start went on with item 21" in ended.stderr


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_listed(name: str) -> None:
    assert f"]({name}.py)" in (EXAMPLES / "README.md").read_text()
