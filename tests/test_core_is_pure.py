"""The core never looks at the clock or opens a file: import contracts cannot see those calls."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

STORAGE = Path(__file__).resolve().parent.parent / "storage" / "holdfast_storage"

CLOCK_AND_CHANCE = {"now", "utcnow", "today", "uuid1", "uuid4"}


def impure_calls(source: str) -> list[tuple[int, str]]:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [(call.lineno, ast.unparse(call.func)) for call in calls if _is_impure(call)]


def _is_impure(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name == "open" or name in CLOCK_AND_CHANCE
        case ast.Attribute(attr=name):
            return name in CLOCK_AND_CHANCE
        case _:
            return False


@pytest.mark.parametrize(
    "path", sorted((STORAGE / "core").rglob("*.py")), ids=lambda path: path.stem
)
def test_time_randomness_and_files_come_in_through_arguments(path: Path) -> None:
    assert impure_calls(path.read_text()) == []


@pytest.mark.parametrize("call", ["datetime.now", "dt.datetime.utcnow", "open", "uuid4"])
def test_an_impure_call_is_found(call: str) -> None:
    assert impure_calls(f"x = 1\ny = {call}('z')\n") == [(2, call)]
