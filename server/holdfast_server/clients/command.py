"""Which command a client is to start: one that works from wherever it is started."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def holdfast_command(*, needs_whole_path: bool = False) -> list[str]:
    """Give the command of this installation.

    The bare name where everybody's PATH leads here; in a virtual environment PATH is that of one
    shell, and an application started from a menu has hardly any: they get the whole path.
    """
    environment = Path(sys.prefix) / "bin"
    found = shutil.which("holdfast")
    own = environment / "holdfast"
    if found and Path(found).parent != environment and _is_same(Path(found), own):
        return [found] if needs_whole_path else ["holdfast"]
    if own.exists():
        return [str(own)]
    return [sys.executable, "-m", "holdfast_server"]


def _is_same(found: Path, own: Path) -> bool:
    # A tool installer links to the environment it made.
    return found.resolve() == own.resolve()
