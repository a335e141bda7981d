"""Say whether the server of this container is well: `python -m holdfast_server.cli.health`."""

from __future__ import annotations

import http.client
import sys
from pathlib import Path

from holdfast_server.cli.serve import address

_EVERYWHERE = ("0.0.0.0", "::")
_SECONDS = 3


def is_well(arguments: list[str]) -> bool:
    """Ask the server that was started so; one on stdio has nobody to ask but its client."""
    told = next((each for each in arguments if each.startswith("--http")), "")
    if not told:
        return True
    text = told.partition("=")[2] or arguments[arguments.index(told) + 1]
    host, port = address(text)
    asking = http.client.HTTPConnection(
        "127.0.0.1" if host in _EVERYWHERE else host, port, timeout=_SECONDS
    )
    try:
        asking.request("GET", "/health")
        return asking.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        asking.close()


if __name__ == "__main__":
    # In a container the server is the first process.
    started = Path("/proc/1/cmdline").read_text().split("\0")
    sys.exit(0 if is_well(started) else 1)
