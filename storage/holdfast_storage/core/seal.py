"""A view certifies itself: its digest is the SHA-256 of the file with the digest blanked."""

from __future__ import annotations

import re
from hashlib import sha256

from holdfast_storage.core import strict_json

_BLANK = b"0" * 64
# A seal stands at the very end, so a digest-like word inside somebody's state is never taken for it.
_SEAL = re.compile(rb'"digest": "([0-9a-f]{64})"\s*\}\s*\}\s*\Z')


def seal(document: strict_json.JsonObject) -> bytes:
    """Write a view whose last field, `read_only.digest`, certifies all of it."""
    read_only = {**document["read_only"], "digest": _BLANK.decode()}
    raw = strict_json.pretty({**document, "read_only": read_only})
    start = raw.rindex(_BLANK)
    return raw[:start] + sha256(raw).hexdigest().encode() + raw[start + 64 :]


def is_sealed(raw: bytes) -> bool:
    """Say whether these are, byte for byte, something that Holdfast wrote."""
    found = _SEAL.search(raw, max(0, len(raw) - 200))
    if not found:
        return False
    blanked = raw[: found.start(1)] + _BLANK + raw[found.end(1) :]
    return sha256(blanked).hexdigest().encode() == found[1]


def embedded_revision(document: strict_json.JsonObject) -> int | None:
    """Give the revision a view was rendered at, as far as its present content tells."""
    read_only = document.get("read_only")
    revision = read_only.get("revision") if strict_json.is_object(read_only) else None
    return revision if type(revision) is int and revision >= 0 else None
