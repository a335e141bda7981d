"""`holdfast completion`: let the shell complete commands, options and the names of tasks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast_server.cli.command import with_workspace

if TYPE_CHECKING:
    from holdfast_storage import Workspace

_BASH = """\
_holdfast() {
    local IFS=$'\\n'
    COMPREPLY=($(compgen -W "$(holdfast __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" \\
        -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _holdfast holdfast
"""
_ZSH = """\
#compdef holdfast
_holdfast() {
    local -a found
    found=("${(@f)$(holdfast __complete "${words[@]:1:CURRENT-1}" 2>/dev/null)}")
    compadd -a found
}
compdef _holdfast holdfast
"""
_FISH = """\
complete -c holdfast -f -a '(holdfast __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="let your shell complete commands and task names",
        description="Print a script for your shell.",
        epilog="example: source <(holdfast completion bash)            in ~/.bashrc\n"
        "         source <(holdfast completion zsh)             in ~/.zshrc\n"
        "         holdfast completion fish | source             in config.fish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=tuple(_SCRIPTS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.write(_SCRIPTS[options.shell])
    return 0


def complete(words: Sequence[str]) -> int:
    """Print what the last of these words can become; never fail somebody who is typing."""
    try:
        found = candidates(list(words))
    except (Exception, SystemExit):  # noqa: BLE001 - a shell waits, and has nowhere to show it
        return 0
    # A name with a control character in it does not exist, but a folder may lie.
    sys.stdout.writelines(f"{each}\n" for each in found if each.isprintable())
    return 0


def candidates(words: list[str]) -> list[str]:
    """Give what the last word can become."""
    from holdfast_server.cli.main import COMMANDS, parser_of_command

    typed = words[-1] if words else ""
    before = words[:-1]
    if not before:
        return [each for each in (*COMMANDS, "--help", "--version") if each.startswith(typed)]
    if before[0] not in COMMANDS:
        return []
    found = _for_parser(parser_of_command(before[0]), before[1:], typed)
    return [each for each in found if each.startswith(typed)]


def _for_parser(parser: argparse.ArgumentParser, before: list[str], typed: str) -> Iterable[str]:
    actions = parser._actions  # pyright: ignore[reportPrivateUsage]
    flags = {flag: action for action in actions for flag in action.option_strings}
    if typed.startswith("-"):
        return flags
    if before and before[-1] in flags and flags[before[-1]].nargs != 0:
        return map(str, flags[before[-1]].choices or ())
    given, options = _positionals(before, flags)
    places = [action for action in actions if not action.option_strings]
    if not places:
        return ()
    place = places[min(len(given), len(places) - 1)]
    if len(given) >= len(places) and place.nargs not in ("*", "+"):
        return ()
    if place.choices:
        return map(str, place.choices)
    finder = _FINDERS.get(place.dest)
    return finder(options.get("--workspace"), given) if finder else ()


def _positionals(
    before: list[str], flags: dict[str, argparse.Action]
) -> tuple[list[str], dict[str, str]]:
    given: list[str] = []
    options: dict[str, str] = {}
    words = iter(before)
    for word in words:
        if word in flags:
            if flags[word].nargs != 0:
                options[word] = next(words, "")
        elif word != "--":
            given.append(word)
    return given, options


# --- names ------------------------------------------------------------------------------------

Finder = Callable[[str | None, list[str]], Iterable[str]]


def _tasks(workspace: str | None, given: list[str]) -> list[str]:
    from holdfast_server.cli.ls import tasks_of

    return [line["task"] for line in tasks_of(workspace) if line["task"] not in given]


def _steps(workspace: str | None, given: list[str]) -> list[str]:
    async def names(opened: Workspace) -> list[str]:
        page = await opened.caller("holdfast").list_checkpoints(given[0], show="steps", limit=200)
        return [line.step for line in page.steps if line.step not in given]

    return with_workspace(workspace, names)


def _trash(workspace: str | None, given: list[str]) -> list[str]:
    async def names(opened: Workspace) -> list[str]:
        return [each.name for each in await opened.trash()]

    return with_workspace(workspace, names)


_FINDERS: dict[str, Finder] = {
    "task": _tasks,
    "tasks": _tasks,
    "step": _steps,
    "steps": _steps,
    "name": _trash,
}
