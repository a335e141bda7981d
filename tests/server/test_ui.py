"""`holdfast ui`: the page in a process of its own, for this machine."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from holdfast_server.cli.main import main


@contextmanager
def running(folder: Path, *flags: str, **env: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Run `holdfast ui` on a folder, and give the address that it prints."""
    program = [
        sys.executable,
        "-m",
        "holdfast_server",
        "ui",
        "--workspace",
        str(folder / ".holdfast"),
    ]
    with subprocess.Popen(
        [*program, "--tokens", str(folder / "tokens.json"), *flags],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().rpartition(" ")[2].strip()
        process.kill()


def test_the_page_is_served_where_it_says_and_ends_when_it_is_told(tmp_path: Path) -> None:
    with running(tmp_path, "--no-browser") as (process, address):
        with urlopen(address) as answer:
            assert b"<h1>Tasks</h1>" in answer.read()
        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=20) == 0
    assert address.startswith("http://127.0.0.1:")
    # Looking leaves nothing behind.
    assert not (tmp_path / ".holdfast").exists()


def test_a_browser_is_opened_on_it(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    os.mkfifo(seen)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)

    with running(tmp_path, BROWSER=str(browser)) as (_, address):
        assert seen.read_text().strip() == address


def test_a_port_that_is_taken_is_said_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        status = main(["ui", "--no-browser", "--port", port, "--workspace", str(tmp_path)])

    assert status == 1
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err


def test_a_port_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ui", "--port", "70000"])

    assert "give a port from 1 to 65535" in capsys.readouterr().err


def test_the_page_does_not_pay_for_mcp() -> None:
    program = "import sys, holdfast_server.dashboard.serving; sys.exit('mcp' in sys.modules)"

    subprocess.run([sys.executable, "-c", program], check=True)
