"""Every example runs as a newcomer would run it, and does what its README says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "client_examples"


def run(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    return subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, timeout=50
    )


def test_a_killed_program_goes_on_where_it_was_and_sends_no_letter_twice(tmp_path: Path) -> None:
    ended = run("killed_and_resumed.py", tmp_path)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "began with 'done: item-21' and ended after 'done: item-50'" in ended.stdout
    assert "was killed after 'sent: item-21'" in ended.stdout
    assert ended.stdout.count("   yes  ") == 5
    assert "\r" not in ended.stdout


def test_an_example_leaves_nothing_behind(tmp_path: Path) -> None:
    run("killed_and_resumed.py", tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_is_listed(example: str) -> None:
    assert f"]({example})" in (EXAMPLES / "README.md").read_text()
