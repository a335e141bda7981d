"""How times, sizes and values read to a person."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

# Legal in JSON text and obeyed by some terminals all the same.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_STEPS = ((60, "s"), (60, "min"), (24, "h"), (365, "d"))


def ago(stamp: str, now: datetime | None = None) -> str:
    """Say how long ago something was: "3 min ago"."""
    try:
        then = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    count = max(0.0, ((now or datetime.now(UTC)) - then).total_seconds())
    for most, unit in _STEPS:
        if count < most:
            return "now" if unit == "s" and count < 2 else f"{int(count)} {unit} ago"
        count /= most
    return stamp[:10]


def size(count: int) -> str:
    """Say how many bytes something takes: "12.3 KiB"."""
    number = float(count)
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{int(number)} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def compact(value: Any, most: int = 0) -> str:
    """Write a value in one line of JSON; above `most` characters, its beginning."""
    text = _as_json(value, None)
    return text if not most or len(text) <= most else text[:most] + "…"


def pretty(value: Any) -> str:
    """Write a value as JSON for people."""
    return _as_json(value, 2)


def _as_json(value: Any, indent: int | None) -> str:
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plural(count: int, word: str) -> str:
    """Count something: "1 step", "2 steps"."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
