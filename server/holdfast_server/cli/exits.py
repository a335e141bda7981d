"""What the exit status of `holdfast` says: the one place that decides it; docs/cli.md repeats it."""

from __future__ import annotations

OK = 0
REFUSED = 1  # nothing was changed (or the message says what was); it says why and what to type next
USAGE = 2  # the command line itself is wrong
NOT_THERE = 3  # no such task, checkpoint, step, question, conflict or trash
PROBLEMS = 4  # check found something
TRY_AGAIN = 5  # busy or not saved: the same command may succeed

# What `holdfast wait` waited for.
ANSWERED = 10
CHANGED = 11
UNPAUSED = 12
FINISHED = 13
TIMED_OUT = 14

INTERRUPTED = 130

_BY_CODE = {
    "unknown": NOT_THERE,
    "unavailable": NOT_THERE,
}


def of(code: str, *, retryable: bool) -> int:
    """Give the status for a refusal."""
    return TRY_AGAIN if retryable else _BY_CODE.get(code, REFUSED)
