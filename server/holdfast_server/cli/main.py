"""Read the command line and hand over to the command it names."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

from holdfast_server import __version__
from holdfast_server.cli import exits

if TYPE_CHECKING:
    from holdfast_storage.core.errors import HoldfastError

# Which module knows a command: only that one is imported, so that looking is quick.
COMMANDS = {
    "init": "init",
    "serve": "serve",
    "ui": "ui",
    "demo": "demo",
    "token": "token",
    "install": "install",
    "hook": "hook",
    "ls": "ls",
    "watch": "watch",
    "show": "show",
    "log": "history",
    "steps": "history",
    "diff": "history",
    "edit": "edit",
    "answer": "decisions",
    "resolve": "decisions",
    "reopen": "decisions",
    "release": "decisions",
    "ack": "decisions",
    "pause": "decisions",
    "unpause": "decisions",
    "finish": "decisions",
    "wait": "wait",
    "rewind": "checkpoints",
    "fork": "checkpoints",
    "pin": "checkpoints",
    "prune": "checkpoints",
    "trash": "checkpoints",
    "restore": "checkpoints",
    "export": "moving",
    "import": "moving",
    "check": "check",
    "completion": "completion",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `holdfast` and answer its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        # What cannot be shown in this terminal's encoding is no reason to fail.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if given[:1] == ["__complete"]:
        from holdfast_server.cli.completion import complete

        return complete(given[1:])
    parser = parser_for(given)
    options = parser.parse_args(given)
    if not hasattr(options, "run"):
        parser.print_help()
        return exits.OK
    try:
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing is left to be said at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except OSError as error:
        _complain(f"{error.strerror}: {error.filename}" if error.filename else str(error))
        return exits.REFUSED
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except Exception as error:
        # Imported here: a hook that only takes a note must not pay for the storage.
        from holdfast_storage.core.errors import HoldfastError

        if not isinstance(error, HoldfastError):
            raise
        return _refused(error, options)


def _refused(error: HoldfastError, options: argparse.Namespace) -> int:
    from holdfast_server.cli.advice import advice

    if getattr(options, "json", False):
        from holdfast_server.cli.command import print_json

        print_json({"error": error.code, "message": str(error), "hint": advice(error, options)})
    else:
        _complain(str(error), advice(error, options))
    return exits.of(error.code, retryable=error.retryable)


def _complain(*sentences: str) -> None:
    from holdfast_server.cli.terminal import Screen, Styled

    screen = Screen(sys.stderr)
    screen.line(Styled("holdfast: ", "red"), sentences[0])
    for sentence in sentences[1:]:
        screen.line(sentence)


class Parser(argparse.ArgumentParser):
    """Says, where the command line is wrong, what to type instead."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        _complain(message, f"Type {self.prog} --help for what it takes and examples.")
        raise SystemExit(exits.USAGE)


def parser_for(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser: of one command if one is named, else of all."""
    named = next((each for each in arguments if not each.startswith("-")), "")
    if named and named not in COMMANDS and not {"-h", "--help"} & set(arguments):
        _refuse_command(named)
    parser = Parser(
        prog="holdfast",
        description="Durable checkpoints for AI agents, kept as readable files.",
        epilog="example: holdfast ls\n         holdfast show TASK\n         holdfast COMMAND --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    modules = [COMMANDS[named]] if named in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        import_module(f"holdfast_server.cli.{module}").add_parser(commands)
    return parser


def parser_of_command(name: str) -> argparse.ArgumentParser:
    """Make the parser of one command."""
    commands = argparse.ArgumentParser(prog="holdfast").add_subparsers()
    import_module(f"holdfast_server.cli.{COMMANDS[name]}").add_parser(commands)
    found: dict[str, argparse.ArgumentParser] = commands.choices
    return found[name]


def _refuse_command(named: str) -> NoReturn:
    from difflib import get_close_matches

    similar = get_close_matches(named, COMMANDS, n=2)
    meant = f"; did you mean {' or '.join(similar)}?" if similar else ""
    _complain(f"there is no command {named!a}{meant}", "Type holdfast --help to see all of them.")
    raise SystemExit(exits.USAGE)
