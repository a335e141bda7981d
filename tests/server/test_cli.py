"""What the `holdfast` command promises to somebody at a terminal."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast_server import __version__
from holdfast_server.cli.main import COMMANDS, main
from holdfast_server.http.tokens import Tokens


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])

    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"holdfast {__version__}\n"


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    status = main([])

    assert status == 0
    said = capsys.readouterr().out
    assert all(re.search(rf"^    {command}\s", said, re.MULTILINE) for command in COMMANDS)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([*command.split(), "--help"])

    assert exit_.value.code == 0
    examples = capsys.readouterr().out.partition("\nexample: ")[2]
    assert f"holdfast {command}".rstrip() in examples


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["sing"])

    assert exit_.value.code == 2
    assert "sing" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":"])
def test_an_address_that_is_none_is_refused_with_an_example(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["serve", "--http", address])

    assert status == 1
    assert "127.0.0.1:8765" in capsys.readouterr().err


def test_the_package_runs_as_a_module() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "holdfast_server", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout == f"holdfast {__version__}\n"


def test_the_command_does_not_pay_for_mcp() -> None:
    program = "import sys, holdfast_server.cli.main; sys.exit('mcp' in sys.modules)"

    subprocess.run([sys.executable, "-c", program], check=True)


# --- tokens -----------------------------------------------------------------------------------


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "settings" / "tokens.json"


def test_a_token_is_shown_once_and_kept_as_a_hash(
    tokens: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", "add", "ann", "--tokens", str(tokens)]) == 0

    token = capsys.readouterr().out.strip()
    assert Tokens(tokens).name_of(token) == "ann"
    assert token not in tokens.read_text()
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    assert stat.S_IMODE(tokens.parent.stat().st_mode) == 0o700


def test_tokens_are_listed_and_removed(tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ben", "ann"):
        main(["token", "add", name, "--tokens", str(tokens)])
    capsys.readouterr()

    main(["token", "list", "--tokens", str(tokens)])
    main(["token", "remove", "ben", "--tokens", str(tokens)])
    main(["token", "list", "--tokens", str(tokens)])

    names = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["ann", "ben", "ann"]


def test_tokens_answer_in_json(tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[Any] = []
    for words in (["add", "ann"], ["list"], ["remove", "ann"]):
        main(["token", *words, "--json", "--tokens", str(tokens)])
        told.append(json.loads(capsys.readouterr().out))

    assert told[0]["token"].startswith("hf_")
    assert [each["name"] for each in told[1]] == ["ann"]
    assert told[2] == {"name": "ann", "removed": True}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "ann"], "remove it first"),
        (["add", ""], "token name"),
        (["add", "a\nb"], "token name"),
        (["remove", "nobody"], "nobody"),
    ],
)
def test_a_token_that_cannot_be_is_refused(
    tokens: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Tokens(tokens).add("ann")

    status = main(["token", *arguments, "--tokens", str(tokens)])

    assert status == (3 if arguments[0] == "remove" else 1)
    assert said in capsys.readouterr().err


def test_a_broken_file_of_tokens_is_named(tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens.parent.mkdir()
    for broken in ("{", "[]", "{}", '{"tokens": {"ann": 1}}', '{"tokens": {"ann": {}}}'):
        tokens.write_text(broken)

        assert main(["token", "list", "--tokens", str(tokens)]) == 1

        assert str(tokens) in capsys.readouterr().err


def test_tokens_lie_with_the_settings_of_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    main(["token", "add", "ann"])

    assert (tmp_path / "holdfast" / "tokens.json").exists()
    assert os.listdir(tmp_path / "holdfast") == ["tokens.json"]  # noqa: PTH208
