"""Moments as they stand in files: UTC, readable, and in the order of their text."""

from __future__ import annotations

from datetime import datetime

_TO_THE_MILLISECOND = len("2026-01-02T03:04:05.678")


def stamp(at: datetime) -> str:
    """Write a moment, to the millisecond."""
    return at.isoformat("T", "milliseconds")[:_TO_THE_MILLISECOND] + "Z"


def moment(text: str) -> datetime:
    """Read a moment back."""
    return datetime.fromisoformat(text)
