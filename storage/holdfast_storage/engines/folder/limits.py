"""Times and sizes of the folder engine, as arguments, so that no test has to wait for them."""

from __future__ import annotations

from dataclasses import dataclass

ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What the engine waits for, and how large things grow."""

    lock_wait_seconds: float = 5.0
    # Whoever had to wait for the lock keeps it for so long, as long as it is used all the time; 0: not
    # at all. Whoever waits reads on so often.
    stint_seconds: float = 0.01
    read_ahead_seconds: float = 0.005
    segment_bytes: int = 4 << 20
    # So much room is made behind the last line, by who has written to a segment so often; more for
    # long lines, up to so much.
    room_bytes: int = 32 << 10
    most_room_bytes: int = 256 << 10
    room_after_writes: int = 8
    # A person's file is read when it has held still.
    settle_pause_seconds: float = 0.05
    settled_after_seconds: float = 2.0
    settle_attempts: int = 20
    # A view is left alone while one of these holds.
    young_view_seconds: float = 1.0
    # One that is larger than this for so many times as long as it is larger, but no more than so many: to
    # render it takes the processor from whoever saves next.
    large_view_bytes: int = 2 << 20
    most_rests: int = 5
    open_editor_seconds: float = 600.0
    editor_poll_seconds: float = 2.0
    missing_view_seconds: float = 10.0
    # Where nobody can tell whether a displaced file is open, it is removed after this.
    leftover_seconds: float = 10.0
    view_bytes: int = 64 << 20
    loads_bytes: int = 256 << 10
    # Of so many tasks the files stay open, and of so many what was read is remembered.
    hot_tasks: int = 64
    known_tasks: int = 256
    # Commits that take no longer than this may be made in the event loop's own thread; 0: none.
    at_once_seconds: float = 0.002
    threads: int = 8
    # What a process that died was about to put in place is removed after this.
    abandoned_seconds: float = ABANDONED_SECONDS
