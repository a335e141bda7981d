"""Bearer tokens: shown once when they are made, kept only as hashes, each the name of an agent."""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from holdfast_storage.core import ids
from holdfast_storage.core.brief import is_person
from holdfast_storage.core.errors import Damaged, InvalidName, Unknown
from holdfast_storage.core.strict_json import is_object

_PREFIX = "hf_"


def default_file() -> Path:
    """Give the place of the tokens: with the person's settings, not in a shared workspace."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "holdfast" / "tokens.json"


class Tokens:
    """The tokens of one file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp: tuple[int, int] | None = None
        self._hashes: dict[str, str] = {}

    def names(self) -> dict[str, str]:
        """Give the names with the day each was made."""
        return {name: entry["made"] for name, entry in self._read().items()}

    def add(self, name: str) -> str:
        """Make a token for a name and give it, this once."""
        if is_person(ids.check_id("token name", name)):
            raise InvalidName("token name", name, "that is what people are recorded as")
        token = _PREFIX + secrets.token_urlsafe(32)
        made = datetime.now(UTC).date().isoformat()
        with self._alone():
            entries = self._read()
            if name in entries:
                raise InvalidName("token name", name, "there is one of that name; remove it first")
            self._write({**entries, name: {"sha256": _hash(token), "made": made}})
        return token

    def remove(self, name: str) -> None:
        """Let a token count no longer."""
        with self._alone():
            entries = self._read()
            if name not in entries:
                error = Unknown("token", name, list(entries))
                error.hint = "holdfast token list shows which there are."
                raise error
            del entries[name]
            self._write(entries)

    def name_of(self, token: str) -> str | None:
        """Say whose token this is, in the same time whether it is one or not."""
        self._refresh()
        given, found = _hash(token), None
        for name, known in self._hashes.items():
            if hmac.compare_digest(given, known):
                found = name
        return found

    def __bool__(self) -> bool:
        self._refresh()
        return bool(self._hashes)

    def _refresh(self) -> None:
        """Read the file again if it changed: a removed token must not work for long."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            self._stamp, self._hashes = None, {}
            return
        stamp = (found.st_mtime_ns, found.st_ino)
        if stamp != self._stamp:
            self._hashes = {name: entry["sha256"] for name, entry in self._read().items()}
            self._stamp = stamp

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            return _entries(json.loads(self._file.read_text()))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise Damaged(str(self._file), "it is not a file of tokens") from error

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Keep others from changing the file between reading and writing it."""
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _write(self, entries: dict[str, dict[str, str]]) -> None:
        temporary = self._file.with_suffix(f".{secrets.token_hex(4)}")
        with os.fdopen(
            os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w"
        ) as file:
            json.dump({"tokens": entries}, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._file)


def _entries(document: object) -> dict[str, dict[str, str]]:
    tokens = document.get("tokens") if is_object(document) else None
    if not is_object(tokens):
        raise ValueError("no tokens")
    return {name: _entry(entry) for name, entry in tokens.items()}


def _entry(entry: object) -> dict[str, str]:
    if not is_object(entry) or not isinstance(entry.get("sha256"), str):
        raise ValueError("no hash")
    return {"sha256": entry["sha256"], "made": str(entry.get("made", ""))}


def _hash(token: str) -> str:
    # A token is 256 random bits: nothing can be guessed, so a plain hash is enough.
    return sha256(token.encode()).hexdigest()
