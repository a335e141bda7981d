"""A process with everything imported, which becomes a server each time it is asked to.

Starting Python and importing the SDK takes longer than most tests. What this gives is the same: a
process of its own that runs the `holdfast` command on the descriptors it was given.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import traceback
from typing import Any

from mcp.server import MCPServer

# Imported for the sake of the processes that come out of this one.
import holdfast_server.http.app
import holdfast_server.http.guard
import holdfast_server.http.running
import holdfast_server.serving
from holdfast_server.cli.main import main

WARM = (
    holdfast_server.http.app,
    holdfast_server.http.guard,
    holdfast_server.http.running,
    holdfast_server.serving,
)


def listen(address: str) -> None:
    """Serve requests for servers until killed."""
    # What is only imported and built with the first server.
    MCPServer("warm")
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen(64)
        print("ready", flush=True)
        while True:
            asker, _ = door.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                door.close()
                _look_after(asker)
                os._exit(0)
            asker.close()


def _look_after(asker: socket.socket) -> None:
    """Start one server, and tell who asked how it ended."""
    raw, descriptors, _, _ = socket.recv_fds(asker, 2**16, 3)
    asked = json.loads(raw)
    pid = os.fork()
    if pid == 0:
        asker.close()
        _become(asked, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    asker.send(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    asker.send(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(asked: dict[str, Any], descriptors: list[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    # Those of the interpreter remember what kind of file they were opened on.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    if asked["before"]:
        exec(asked["before"], {})  # noqa: S102
    code = 99
    try:
        code = main(asked["arguments"])
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    listen(sys.argv[1])
