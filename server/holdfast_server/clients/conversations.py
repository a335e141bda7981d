"""Which task each conversation works on: remembered beside the person's other things, for a month."""

from __future__ import annotations

import json
import os
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

_KEPT_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a conversation works on, and where: in the workspace named, or the one of a folder."""

    task: str
    workspace: str
    folder: str


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "holdfast" / "conversations"


def file_of(conversation: str) -> Path:
    """Give the file of a conversation's note."""
    # The client chooses the id; as a name it could lead anywhere.
    return _folder() / f"{sha256(conversation.encode()).hexdigest()[:32]}.json"


def remember(conversation: str, found: Conversation) -> None:
    """Note what a conversation works on, whole or not at all."""
    file = file_of(conversation)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = file.with_suffix(f".{secrets.token_hex(4)}")
    temporary.write_text(json.dumps(asdict(found)))
    temporary.replace(file)


def recall(conversation: str) -> Conversation | None:
    """Give what it works on, if that was noted."""
    try:
        noted = json.loads(file_of(conversation).read_text())
        return Conversation(**{each: str(noted[each]) for each in ("task", "workspace", "folder")})
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def forget_old() -> None:
    """Let go of conversations that nobody goes on with."""
    oldest = time.time() - _KEPT_SECONDS
    for file in _folder().glob("*"):
        with suppress(FileNotFoundError):
            if file.stat().st_mtime < oldest:
                file.unlink()
