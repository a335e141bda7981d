"""One line on stderr for everything that happens: ids and sizes, never contents."""

from __future__ import annotations

import json
import logging
import os
import re
import select
import traceback
from datetime import UTC, datetime
from typing import Any

from opentelemetry.trace import get_current_span

LOG = logging.getLogger("holdfast")

_STDERR = 2
# A pipe that can be written to at all takes this much without waiting.
_WITHOUT_WAITING = 4096
_VALUE = re.compile(r"\s*(?:\b(\w+)=)?%[sdr]")


def log_to_stderr(level: str = "info") -> None:
    """Send our own lines, and others' warnings, to stderr; never to stdout, which is the wire."""
    handler = _Stderr()
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOG.setLevel(level.upper())


def is_observed() -> bool:
    """Say whether anybody would see an event: it costs something to describe one."""
    return LOG.isEnabledFor(logging.INFO) or get_current_span().is_recording()


def event(name: str, **fields: Any) -> None:
    """Note that something happened, in the log and on the span of the request it belongs to."""
    span = get_current_span()
    if span.is_recording():
        told = {key: value for key, value in fields.items() if isinstance(value, str | int | float)}
        span.set_attributes({f"holdfast.{key}": value for key, value in told.items()})
    LOG.info(name, extra={"fields": fields})


class _Stderr(logging.Handler):
    """Writes lines for as long as somebody takes them: a client that does not must not stop us."""

    def __init__(self) -> None:
        super().__init__()
        self._dropped = 0
        self._wait = select.poll()
        self._wait.register(_STDERR, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped and self._written(_line({"event": "dropped", "lines": self._dropped})):
                self._dropped = 0
            if not self._written(self.format(record)):
                self._dropped += 1
        except OSError:
            # Nobody is there to be told.
            self._dropped += 1

    def _written(self, line: str) -> bool:
        left = line.encode(errors="replace") + b"\n"
        begun = False
        while left:
            # Half a line would spoil the next one: what was begun is waited for, a little.
            if not any(ready & select.POLLOUT for _, ready in self._wait.poll(100 if begun else 0)):
                return begun
            left = left[os.write(_STDERR, left[:_WITHOUT_WAITING]) :]
            begun = True
        return True


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"at": at, "level": record.levelname.lower()}
        if record.name != LOG.name:
            line["from"] = record.name
        line |= _told(record)
        if record.exc_info and record.exc_info[1]:
            line |= _raised(record.exc_info[1])
        return _line(line)


def _told(record: logging.LogRecord) -> dict[str, Any]:
    """Give the event and its fields. A value that nobody named may be anything: it stays out."""
    # Only the first line of what others say: asyncio quotes what was raised in the second.
    template = str(record.msg).partition("\n")[0]
    fields: dict[str, Any] = dict(getattr(record, "fields", {}))
    values = record.args if isinstance(record.args, tuple) else ()
    for name, value in zip(_VALUE.findall(template), values, strict=False):
        if name:
            fields[name] = value
        elif isinstance(value, BaseException):
            fields["error"] = getattr(value, "code", type(value).__name__)
    return {"event": _VALUE.split(template)[0].strip(), **fields}


def _raised(error: BaseException) -> dict[str, Any]:
    """Say what was raised and where; what it says may quote what somebody saved."""
    frames = traceback.extract_tb(error.__traceback__)
    where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "traceback": where}


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, default=str)
