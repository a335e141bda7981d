"""What the tests of whole workspaces share: a folder to work in, and children that can be found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Children import tests.storage.processes, and are told where by this path.
_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give the folder of a workspace that is not there yet."""
    return tmp_path / ".holdfast"
