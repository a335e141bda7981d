"""Whatever a hint, a help text or a page tells somebody to type is a command that exists."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast_server.cli import advice
from holdfast_server.cli.main import COMMANDS, parser_of_command
from holdfast_storage.core import errors

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"(?<![.\w])holdfast ([a-z][a-z-]*)((?:[^.;,\n`|]|\.(?=\S))*)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# In `mcp add holdfast holdfast serve` the first is the name of the server.
OUR_NAME = "holdfast"


def texts_of(path: Path) -> Iterator[str]:
    """Give the texts in a source file, with a 1 for whatever is filled in."""
    tree = ast.parse(path.read_text())
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "1" for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            yield node.value


def told_to_type(text: str) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in NAMED.finditer(text)]


SOURCES = [*(ROOT / "storage").rglob("*.py"), *(ROOT / "server").rglob("*.py")]
FROM_SOURCE = sorted(
    {each for path in SOURCES for text in texts_of(path) for each in told_to_type(text)}
)
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
FROM_PAGES = sorted(
    {
        each
        for page in PAGES
        for code in re.findall(r"`[^`\n]+`|^\$ .+$", page.read_text(), re.MULTILINE)
        for each in told_to_type(code)
    }
)


def flags_of(command: str) -> set[str]:
    actions = parser_of_command(command)._actions  # pyright: ignore[reportPrivateUsage]
    return {flag for action in actions for flag in action.option_strings}


def test_hints_were_found() -> None:
    assert {"check", "reopen", "resolve", "rewind", "token"} <= {
        command for command, _ in FROM_SOURCE
    }


@pytest.mark.parametrize(("command", "rest"), [*FROM_SOURCE, *FROM_PAGES])
def test_every_command_that_somebody_is_told_to_type_exists(command: str, rest: str) -> None:
    assert command in COMMANDS or command == OUR_NAME
    if command in COMMANDS:
        assert set(FLAG.findall(rest)) <= flags_of(command)


def parsed(line: str) -> argparse.Namespace:
    """Parse a command as a shell would hand it over, placeholders filled in."""
    first = re.split(r"[|;#<]| \(|  ", line)[0]
    _, command, *words = [word for word in shlex.split(first) if "=" not in word]
    filled = ["1" if re.fullmatch(r"[A-Z]+", word) else word for word in words]
    return parser_of_command(command).parse_args(filled)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_in_a_help_text_parses(command: str) -> None:
    epilog = parser_of_command(command).epilog or ""
    examples = [line.removeprefix("example:").strip() for line in epilog.splitlines()]

    assert examples
    for example in examples:
        if example and "<(" not in example:
            parsed(example[example.index("holdfast") :])


@pytest.mark.parametrize(
    "error",
    [errors.StepDone("my task", "it's a step", "failed"), errors.InDoubt("my task", "it's", "key")],
    ids=lambda error: error.code,
)
def test_a_hint_can_be_typed_whatever_the_names_are(error: errors.HoldfastError) -> None:
    typed = parsed(error.hint[error.hint.index("holdfast ") :])

    assert typed.task == "my task"


@pytest.mark.parametrize(
    "text",
    [
        found
        for table in ("_OF_UNKNOWN", "_OF_CODE")
        for advised in getattr(advice, table).values()
        for found in re.findall(r"holdfast .*?(?= to | and | shows|;|,|\.|$)", advised)
    ],
)
def test_every_command_that_is_advised_parses(text: str) -> None:
    parsed(text.format(task="ingest"))
