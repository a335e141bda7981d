"""What registering changes in a person's files: decided and shown before anything is written."""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast_server.clients import claude_hooks, jsonc, toml
from holdfast_server.clients.known import NAME, Client, Scope, Surroundings
from holdfast_storage.core.errors import HoldfastError


class CannotChange(HoldfastError):
    """A client's file is not what it should be, and is left as it is."""

    code = "cannot_change"

    def __init__(self, file: Path, why: str, snippet: str) -> None:
        super().__init__(f"{file} was not changed: {why}")
        self.hint = f"Correct the file, or put this into it yourself:\n\n{snippet}"
        self.file, self.why = file, why


class ChangedMeanwhile(HoldfastError):
    """Somebody else wrote the file after the change was shown."""

    code = "changed_meanwhile"
    hint = "Nothing was written. Run the command again."

    def __init__(self, file: Path) -> None:
        super().__init__(f"{file} was changed by somebody else meanwhile")
        self.file = file


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after; nothing (`None`) where there is no file."""

    file: Path
    before: str | None
    after: str | None

    def diff(self) -> str:
        """Show it as people are used to."""
        old, new = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(
            old,
            new,
            "/dev/null" if self.before is None else str(self.file),
            "/dev/null" if self.after is None else str(self.file),
        )
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)

    def write(self) -> None:
        """Replace the file as a whole, unless somebody else wrote it after it was read."""
        # People link their settings to where they keep them: the link stays one.
        target = self.file.resolve()
        if _read(target) != self.before:
            raise ChangedMeanwhile(self.file)
        if self.after is None:
            target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            self._fill(temporary, target)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def _fill(self, temporary: Path, target: Path) -> None:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            if self.before is not None:
                os.fchmod(file.fileno(), target.stat().st_mode & 0o7777)
            file.write((self.after or "").encode())
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class Registration:
    """What to write for one client: the server, and for Claude Code perhaps hooks."""

    client: Client
    scope: Scope
    here: Surroundings
    command: list[str]
    workspace: str = ""
    with_hooks: bool = False

    @property
    def entry(self) -> dict[str, Any]:
        """The server, as the client wants it described."""
        told = self.workspace or self.client.workspace(self.scope, self.here)
        return self.client.entry(self.command, told)

    @property
    def hooks(self) -> dict[str, Any]:
        """The hooks, event by event."""
        return claude_hooks.hooks(self.command, self.workspace)

    def added(self) -> list[Change]:
        """Say what changes if the server is registered."""

        def put(text: str) -> str:
            if self.client.is_toml:
                return toml.put(text, self.client.section, NAME, self.entry)
            for key, value in self.entry.items():
                text = jsonc.put(text, (self.client.section, NAME, key), value)
            return text

        hooks = self._hooks(lambda text: claude_hooks.put(text, self.hooks))
        return _some(self._server(put), hooks if self.with_hooks else None)

    def removed(self) -> list[Change]:
        """Say what changes if it is undone, hooks included."""

        def drop(text: str) -> str:
            if self.client.is_toml:
                return toml.drop(text, self.client.section, NAME)
            return jsonc.drop(text, (self.client.section, NAME))

        return _some(self._server(drop), self._hooks(claude_hooks.drop))

    def _server(self, change: Callable[[str], str]) -> Change | None:
        file = self.client.file(self.scope, self.here)
        return _changed(file, change, self.client.snippet(self.entry))

    def _hooks(self, change: Callable[[str], str]) -> Change | None:
        if not self.client.has_hooks:
            return None
        file = claude_hooks.settings_file(self.scope, self.here)
        return _changed(file, change, claude_hooks.put("", self.hooks))


def _some(*changes: Change | None) -> list[Change]:
    return [change for change in changes if change]


def _changed(file: Path, change: Callable[[str], str], snippet: str) -> Change | None:
    try:
        before = _read(file)
        after = change(before or "")
    except (HoldfastError, UnicodeDecodeError) as error:
        raise CannotChange(file, str(error), snippet) from error
    if after == (before or ""):
        return None
    # A file that held nothing but ours goes with it.
    return Change(file, before, None if after.strip() in ("", "{}") else after)


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return None
