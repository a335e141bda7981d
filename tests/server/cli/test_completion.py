"""The shell completes commands, options, and names from the workspace."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.cli.conftest import Desk

from holdfast_server.cli.main import COMMANDS
from holdfast_storage import Workspace


def completed(desk: Desk, *words: str) -> list[str]:
    return desk.ok("__complete", *words).out.splitlines()


def test_commands_are_completed(desk: Desk) -> None:
    assert completed(desk, "re") == ["resolve", "reopen", "release", "rewind", "restore"]
    assert set(completed(desk)) >= set(COMMANDS)
    assert set(completed(desk, "")) >= set(COMMANDS)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["show", ""], ["ingest"]),
        (["show", "ing"], ["ingest"]),
        (["show", "x"], []),
        (["show", "ingest", ""], []),
        (["reopen", "ingest", "doc-00"], ["doc-001", "doc-002", "doc-003", "doc-004", "doc-005"]),
        (["reopen", "ingest", "doc-001", "doc-002", "doc-00"], ["doc-003", "doc-004", "doc-005"]),
        (["resolve", "--happened", "ingest", "doc-003"], ["doc-003"]),
        (["finish", "ingest", "a"], ["abandoned"]),
        (["ls", "--status", "w"], ["waiting"]),
        (["show", "--j"], ["--json"]),
        (["export", "ingest", ""], []),
        (["completion", "z"], ["zsh"]),
        (["sing", ""], []),
        (["show", "--workspace", "nowhere", ""], []),
        (["resolve", "nothing", ""], []),
    ],
    ids=lambda value: " ".join(value) or "-",
)
def test_what_can_follow_is_completed(busy: Desk, words: list[str], expected: list[str]) -> None:
    assert completed(busy, *words) == expected


def test_what_is_in_the_trash_is_completed(desk: Desk) -> None:
    async def save(workspace: Workspace) -> None:
        agent = workspace.caller("agent")
        for number in range(3):
            await agent.save("report", {"n": number})
        await workspace.prune("report", keep_last=1, older_than_hours=0)

    desk.work(save)

    [name] = completed(desk, "restore", "")

    desk.ok("restore", name)


def test_a_broken_workspace_disturbs_nobody_who_types(busy: Desk) -> None:
    (busy.root / "holdfast.json").write_text("{")

    typed = busy("__complete", "show", "")

    assert (typed.status, typed.out, typed.err) == (0, "", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(desk: Desk, shell: str) -> None:
    assert "holdfast __complete" in desk.ok("completion", shell).out


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
def test_bash_completes_the_name_of_a_task(busy: Desk, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "holdfast").write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast_server "$@"\n')
    (tools / "holdfast").chmod(0o700)
    script = busy.ok("completion", "bash").out
    program = (
        f"PATH={tools}:$PATH\n{script}\nCOMP_WORDS=(holdfast show ing); COMP_CWORD=2; _holdfast;"
        'echo "${COMPREPLY[@]}"'
    )

    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout == "ingest\n"
