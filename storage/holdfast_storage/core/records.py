"""One operation is one record, one line, one seq; a line certifies itself by its crc."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform
from zlib import crc32

from holdfast_storage.core import strict_json

T = TypeVar("T")

OPS = frozenset(
    {
        *("save", "done", "begin", "release", "resolve", "reopen", "edit", "ask", "answer"),
        *("finish", "pin", "prune", "restore", "fork", "acknowledge", "write"),
    }
)

_CRC_LENGTH = len(b',"crc":"01234567"}')


if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def immutable(cls: type[T], /) -> type[T]:
        """Make a dataclass that type checkers keep anybody from changing."""
        ...
else:
    # Not frozen here: that makes them three to five times as slow to make, and one or two are made
    # for each line that is read.
    immutable = dataclass(slots=True, unsafe_hash=True)


@immutable
class Place:
    """Where a line lies, so that it can be read again without looking for it."""

    segment: int
    offset: int
    length: int


@immutable
class Draft:
    """An operation that was decided on and has no place in the order yet.

    `opens` says that it is the first of a run: engines keep it where a cold reader finds it
    without reading the runs before.
    """

    id: str
    at: str
    by: str
    op: str
    body: Mapping[str, Any]
    opens: bool = False
    # What of the body was encoded when it was decided on. It is written as it is here: in the body it may
    # be a snapshot, of which nobody has made objects.
    encoded: Mapping[str, bytes] = field(default_factory=dict[str, bytes], compare=False)


@immutable
class Record:
    """An operation that happened. `body` holds the operation's own fields.

    One that was not read from a log but is handed on as it was decided may have a snapshot in there.
    """

    seq: int
    id: str
    at: str
    by: str
    op: str
    body: Mapping[str, Any]
    opens: bool = False
    boot: str = ""
    place: Place = field(default=Place(0, 0, 0), compare=False)


@immutable
class DamagedLine:
    """A complete line that is not believed, with whatever of it could still be made out."""

    place: Place
    problem: str
    seq: int | None = None
    op: str = ""
    step: str = ""
    checkpoint: int | None = None


Entry = Record | DamagedLine


def encode_line(seq: int, draft: Draft, boot: str = "") -> bytes:
    """Write a record as one line, newline included."""
    line: dict[str, Any] = {
        "seq": seq,
        "id": draft.id,
        "at": draft.at,
        "by": draft.by,
        "op": draft.op,
    }
    if draft.opens:
        line["opens"] = True
    if boot:
        line["boot"] = boot
    line.update(draft.body)
    for name in draft.encoded:
        del line[name]
    pieces = [strict_json.encode(line)[:-1]]
    for name, raw in draft.encoded.items():
        pieces += (b",%b:" % strict_json.encode(name), raw)
    crc = 0
    for piece in pieces:
        crc = crc32(piece, crc)
    return b"".join((*pieces, b',"crc":"%08x"}\n' % crc))


def decode_line(line: bytes, place: Place) -> Entry:
    """Read a line (without its newline), believing only what its crc confirms."""
    open_ended = line[:-_CRC_LENGTH]
    if line[-_CRC_LENGTH:] != b',"crc":"%08x"}' % crc32(open_ended):
        return _damaged(line, place, "its crc does not fit")
    try:
        # What is left when the envelope is taken off is the body.
        body = strict_json.decode(line)
        take = body.pop
        del body["crc"]
        seq, name, at, by, op = take("seq"), take("id"), take("at"), take("by"), take("op")
        if not type(name) is type(at) is type(by) is type(op) is str or type(seq) is not int:
            return _damaged(line, place, "it is not a record")
        return Record(seq, name, at, by, op, body, take("opens", False), take("boot", ""), place)
    except (ValueError, KeyError, TypeError, AttributeError):
        return _damaged(line, place, "it is not a record")


def _damaged(line: bytes, place: Place, problem: str) -> DamagedLine:
    try:
        found = strict_json.decode(line)
    except ValueError:
        return DamagedLine(place, "it does not parse")
    if not strict_json.is_object(found):
        return DamagedLine(place, problem)
    seq, step, checkpoint = found.get("seq"), found.get("step"), found.get("checkpoint")
    return DamagedLine(
        place,
        problem,
        seq=seq if type(seq) is int else None,
        op=str(found.get("op", "")),
        step=step if isinstance(step, str) else "",
        checkpoint=checkpoint if type(checkpoint) is int else None,
    )
