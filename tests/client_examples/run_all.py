"""Run every example as a newcomer would, and print of each the one line that says how it went."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "client_examples"
FRAMEWORKS = ROOT / ".venv-frameworks" / "bin" / "python"
# Each takes seconds; on a machine that does much else, more.
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Ran:
    """How an example went."""

    path: Path
    status: int
    output: str
    seconds: float

    @property
    def summary(self) -> str:
        last = self.output.strip().splitlines()[-1:] or ["(it said nothing)"]
        return f"{last[0]}  [{self.seconds:.1f} s]"


def examples() -> list[tuple[Path, Path]]:
    """List each example with the Python that runs it."""
    plain = [(path, Path(sys.executable)) for path in sorted(EXAMPLES.glob("*.py"))]
    # Several frameworks need an older mcp than ours, so they have an environment of their own.
    framed = sorted((EXAMPLES / "frameworks").glob("*_agent.py"))
    return [*plain, *((path, FRAMEWORKS) for path in framed)]


def run(example: tuple[Path, Path]) -> Ran:
    path, python = example
    began = time.monotonic()
    ended = subprocess.run(
        [str(python), str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    output = ended.stdout if not ended.returncode else ended.stderr + ended.stdout
    return Ran(path, ended.returncode, output, time.monotonic() - began)


def main() -> int:
    failed: list[Ran] = []
    with ThreadPoolExecutor(os.cpu_count()) as together:
        for ran in together.map(run, examples()):
            print(ran.summary if not ran.status else f"{ran.path.stem}: FAILED", flush=True)
            failed += [ran] if ran.status else []
    for ran in failed:
        print(f"\n{ran.path.relative_to(ROOT)} ended with {ran.status}:\n{ran.output}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
