"""Read the command line and hand over to the command it names."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from holdfast_server import __version__
from holdfast_server.cli import demo, serve, token
from holdfast_server.cli.imports import quick_imports


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `holdfast` and answer its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        parser.print_help()
        return 0
    with quick_imports():
        from holdfast_storage.core.errors import HoldfastError

    try:
        return int(options.run(options))
    except HoldfastError as error:
        print(f"holdfast: {error}\n{error.hint}", file=sys.stderr)
        return 1
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        print(f"holdfast: {error.strerror}: {error.filename}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing is left to be said at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="Durable checkpoints for AI agents, kept as readable files.",
        epilog="example: holdfast demo",
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    serve.add_parser(commands)
    demo.add_parser(commands)
    token.add_parser(commands)
    return parser
