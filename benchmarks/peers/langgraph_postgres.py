"""LangGraph's PostgresSaver on a server of its own, started from Debian's package."""

from __future__ import annotations

import atexit
import getpass
import shutil
import subprocess
from pathlib import Path

from benchmarks.peers.langgraph_sqlite import Threads
from benchmarks.store import LeftOut

_PROGRAMS = Path("/usr/lib/postgresql")


class LanggraphPostgres(Threads):
    """The synchronous saver."""

    flushes = "flushes its log at each commit (synchronous_commit=on), twice a step"

    async def open(self, folder: Path) -> None:
        from langgraph.checkpoint.postgres import PostgresSaver

        is_first = not (folder / "socket").exists()
        if is_first:
            _start(folder)
        address = f"host={folder / 'socket'} user=postgres dbname=postgres"
        self.saver = self._stack.enter_context(PostgresSaver.from_conn_string(address))
        if is_first:
            self.saver.setup()


def _start(folder: Path) -> None:
    """Start a server that ends when its folder is gone."""
    found = sorted(_PROGRAMS.glob("*/bin/initdb"))
    if not found:
        raise LeftOut("there is no PostgreSQL server here (Debian: apt install postgresql)")
    programs = found[-1].parent
    owner = "postgres" if getpass.getuser() == "root" else None
    data, socket = folder / "data", folder / "socket"
    for made in (data, socket):
        made.mkdir()
        if owner:
            shutil.chown(made, owner)
    for above in (folder, folder.parent):
        above.chmod(0o755)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    initdb = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust"]
    subprocess.run(initdb, check=True, user=owner, cwd="/", **quiet)  # type: ignore[call-overload]
    serve = [
        *(str(programs / "pg_ctl"), "-D", str(data), "-w", "start"),
        *("-o", f"-k {socket} -c listen_addresses=''"),
    ]
    subprocess.run(serve, check=True, user=owner, cwd="/", **quiet)  # type: ignore[call-overload]
    stop = [str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop"]
    # Whoever started it ends it; children that only connect find the socket there.
    atexit.register(
        lambda: subprocess.run(stop, check=False, user=owner, cwd="/", **quiet)  # type: ignore[call-overload]
    )


STORE = LanggraphPostgres
