"""Moments as they stand in files: UTC, readable, and in the order of their text."""

from __future__ import annotations

from datetime import datetime


def stamp(at: datetime) -> str:
    """Write a moment, to the millisecond."""
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def moment(text: str) -> datetime:
    """Read a moment back."""
    return datetime.fromisoformat(text)
