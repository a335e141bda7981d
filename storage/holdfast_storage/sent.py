"""What a call said, kept as it was when it was made: a program may go on changing its objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from holdfast_storage.core import strict_json
from holdfast_storage.core.decide.state import StateRequest
from holdfast_storage.core.errors import HoldfastError, InvalidValue, TooLarge
from holdfast_storage.core.limits import Limits
from holdfast_storage.core.snapshot import Snapshot
from holdfast_storage.core.strict_json import JsonObject

# More than any call of ours needs that is within its limits; what is beyond is not known again.
_REST_BYTES = 64 * 2**20
# What is no longer than this is remembered as it is, and of anything else its digest.
_SHORT_BYTES = 256

Known = tuple[bytes, bytes, bytes]
"""By what a call is known when it is made again."""


@dataclass(slots=True)
class Sent:
    """A state and what is to be added to it, each encoded once, or why nothing of them was kept."""

    # Where it is none it is no object, which a decision will say.
    state: Snapshot | JsonObject | None = None
    append: Mapping[str, list[Any]] | None = None
    raw: bytes = b""
    raw_append: bytes = b""
    refusal: HoldfastError | None = None

    def request(self, *, replace: bool = False) -> StateRequest:
        """Give what is to be decided on."""
        return StateRequest(self.state, replace, self.append, refusal=self.refusal)


def kept(state: JsonObject | None, append: Mapping[str, list[Any]] | None, limits: Limits) -> Sent:
    """Keep both as they are now; of what is no JSON nothing is kept, and a decision will say why."""
    try:
        raw = b"" if state is None else _encoded(state, "state", limits)
        raw_append = b"" if append is None else _encoded(append, "append", limits)
    except (InvalidValue, TooLarge) as error:
        # Not with the frames it passed: they have in hand what was sent.
        return Sent(refusal=error.with_traceback(None))
    is_object = raw.startswith(b"{")
    return Sent(
        Snapshot.encoded(state, raw) if state and is_object else strict_json.apart(state),
        None if append is None else strict_json.apart(append),
        raw,
        raw_append,
    )


def _encoded(value: Any, where: str, limits: Limits) -> bytes:
    return strict_json.check(value, where, max_bytes=limits.state_bytes, max_depth=limits.depth)


def known_by(sent: Sent, rest: Sequence[Any], *, replace: bool) -> Known | None:
    """Give by what a call is known again, `rest` being all else that it says; None if it cannot be."""
    if sent.refusal is not None:
        return None
    try:
        raw_rest = strict_json.check(rest, "the call", max_bytes=_REST_BYTES)
    except (InvalidValue, TooLarge):
        # Something in it is of another kind than it should be; the decision will say what.
        return None
    # A state that is kept whole need not be made shorter for it.
    raw = sent.raw if replace else _shortened(sent.raw)
    return raw, _shortened(sent.raw_append), _shortened(raw_rest)


def _shortened(raw: bytes) -> bytes:
    return raw if len(raw) <= _SHORT_BYTES else b"sha256 " + sha256(raw).digest()
