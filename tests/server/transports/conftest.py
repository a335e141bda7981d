"""Servers that start in a moment, for the tests of what they speak over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_ROOT = str(Path(__file__).parents[3])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests.server.transports.programs import Starter


@pytest.fixture(scope="session")
def zygote() -> Iterator[str]:
    """Give the address of the process that all servers come from."""
    with TemporaryDirectory(prefix="hf-") as folder:
        address = f"{folder}/door"
        program = Path(__file__).with_name("zygote.py")
        with subprocess.Popen(
            [sys.executable, program, address], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield address
            process.kill()


@pytest.fixture
def starter(zygote: str, tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(zygote, tmp_path)
    yield starter
    starter.end()
