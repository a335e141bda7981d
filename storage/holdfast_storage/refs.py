"""Files the work rests on: only looked at and hashed, and only where the operator allows it."""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

import aiofiles

from holdfast_storage.core.errors import InvalidValue, TooLarge
from holdfast_storage.core.strict_json import JsonObject

_HASHED_UP_TO = 64 * 2**20
_CHUNK = 2**20
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")


class Refs:
    """Looks at refs below the project folder and other allowed roots; all else is unchecked."""

    def __init__(self, project: Path | None, roots: Iterable[Path] = (), most: int = 1000) -> None:
        self._project = project
        self._roots = [root.resolve() for root in ([project] if project else []) + list(roots)]
        self._most = most

    async def note(self, refs: Sequence[str]) -> list[JsonObject]:
        """Describe refs as they are now, as they stand in a record."""
        if isinstance(refs, str):
            raise InvalidValue("refs", "it must be a list of paths or addresses")
        if len(refs) > self._most:
            raise TooLarge("refs", len(refs), self._most, "entries")
        for ref in refs:
            if type(ref) is not str or not ref or len(ref) > 4096 or not ref.isprintable():
                raise InvalidValue("refs", "each must be a path or an address in plain text")
        return [{"ref": ref, **await self._facts(ref)} for ref in refs]

    async def verify(self, noted: Iterable[JsonObject]) -> list[JsonObject]:
        """Say of each noted ref whether it is still what it was."""
        return [{"ref": each["ref"], "status": await self._status(each)} for each in noted]

    async def _status(self, noted: JsonObject) -> str:
        if self._allowed(noted["ref"]) is None:
            return "unchecked"
        now = await self._facts(noted["ref"])
        if now.get("missing"):
            return "missing"
        if now.get("special"):
            return "unchecked"
        then = {key: value for key, value in noted.items() if key != "ref"}
        return "ok" if now == then else "changed"

    def _allowed(self, ref: str) -> Path | None:
        if _URL.match(ref) or not self._roots:
            return None
        try:
            path = ((self._project or Path()) / ref).resolve()
        except (
            OSError,
            ValueError,
            RuntimeError,
        ):  # the last before Python 3.13: links in a circle
            return None
        return path if any(path.is_relative_to(root) for root in self._roots) else None

    async def _facts(self, ref: str) -> JsonObject:
        path = await asyncio.to_thread(self._allowed, ref)
        if path is None:
            return {}
        try:
            found = await asyncio.to_thread(path.stat)
            if stat.S_ISDIR(found.st_mode):
                return {"folder": True}
            if not stat.S_ISREG(found.st_mode):
                # Whoever opens a pipe waits for somebody at its other end.
                return {"special": True}
            if found.st_size > _HASHED_UP_TO:
                return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}
            return {"size": found.st_size, "sha256": await _hash(path)}
        except OSError:
            return {"missing": True}


async def _hash(path: Path) -> str:
    digest = sha256()
    async with aiofiles.open(path, "rb") as file:
        while chunk := await file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
