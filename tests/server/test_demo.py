"""What somebody sees who runs the demo."""

from __future__ import annotations

import os
import pty
import resource
import subprocess
import sys

COMMAND = [sys.executable, "-m", "holdfast_server", "demo"]


def test_the_demo_resumes_where_the_agent_was_killed_in_a_pipe_and_on_a_terminal() -> None:
    before = _seconds_worked()
    ours, theirs = pty.openpty()
    # Both at once: neither needs the other, and each takes seconds.
    with (
        subprocess.Popen(
            COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as piped,
        subprocess.Popen(COMMAND, stdin=theirs, stdout=theirs, stderr=theirs) as on_terminal,
    ):
        os.close(theirs)
        shown = _everything(ours)
        said, complained = piped.communicate()
    os.close(ours)

    assert (piped.returncode, on_terminal.returncode) == (0, 0), said + complained + shown
    assert complained == ""
    assert "It resumed at doc-021: 50 documents, each done once." in said
    assert '"status": "done"' in said
    assert "\r" not in said
    assert "█" * 16 + "░" * 24 + "  20 of 50" in shown
    assert "█" * 40 + "  50 of 50" in shown
    assert "Traceback" not in shown
    # On an idle machine this is how long each takes; other tests may be running beside them.
    assert _seconds_worked() - before < 2 * 20


def _everything(descriptor: int) -> str:
    pieces: list[bytes] = []
    try:
        while piece := os.read(descriptor, 2**16):
            pieces.append(piece)
    except OSError:
        # Linux says so when the last program of a terminal has gone.
        pass
    return b"".join(pieces).decode()


def _seconds_worked() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
