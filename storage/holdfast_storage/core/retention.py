"""Decide which checkpoints may go, so that whoever removes them has nothing left to decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Retention:
    """What stays besides milestones and pinned checkpoints: the newest few, and the young."""

    keep_last: int = 20
    older_than_hours: float = 24


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint whose state can still be had."""

    checkpoint: int
    at: datetime
    milestone: bool
    pinned: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a checkpoint stays, and why, in words for people."""

    checkpoint: int
    stays: bool
    why: str
    bytes: int


def plan_retention(checkpoints: Sequence[Kept], policy: Retention, now: datetime) -> list[Verdict]:
    """Say for each checkpoint, in the order given, whether it stays, and why.

    The newest one always stays: it is where the next resume begins.
    """
    newest_first = sorted((kept.checkpoint for kept in checkpoints), reverse=True)
    rank_of = {checkpoint: rank for rank, checkpoint in enumerate(newest_first)}
    return [_verdict(kept, rank_of[kept.checkpoint], policy, now) for kept in checkpoints]


def _verdict(kept: Kept, rank: int, policy: Retention, now: datetime) -> Verdict:
    reason = _reason_to_stay(kept, rank, policy, now)
    why = reason or _reason_to_go(policy)
    return Verdict(kept.checkpoint, bool(reason), why, kept.bytes)


def _reason_to_stay(kept: Kept, rank: int, policy: Retention, now: datetime) -> str:
    if kept.pinned:
        return "pinned"
    if kept.milestone:
        return "milestone"
    if rank == 0:
        return "the newest"
    if rank < policy.keep_last:
        return f"among the newest {policy.keep_last}"
    # With 0 hours, age is no reason, not even for a checkpoint that a wrong clock put in the future.
    age_hours = (now - kept.at).total_seconds() / 3600
    if policy.older_than_hours > 0 and age_hours < policy.older_than_hours:
        return f"younger than {policy.older_than_hours:g} h"
    return ""


def _reason_to_go(policy: Retention) -> str:
    rank = f"not among the newest {policy.keep_last}" if policy.keep_last > 1 else "not the newest"
    if policy.older_than_hours <= 0:
        return rank
    return f"older than {policy.older_than_hours:g} h and {rank}"
