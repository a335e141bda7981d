"""One sentence for the agent about what to do next; never a word that somebody else wrote."""

from __future__ import annotations

from collections.abc import Sequence

CHANGED = (
    "Somebody changed what you remember: see changes; your memory of those values is wrong, "
    "these are right. "
)
CONFLICTS = (
    "What you sent for the paths in conflicts was not saved, because somebody else changed them "
    "first; where a file is named, your value lies there. Load, then save again if you insist. "
)
MORE = "Much is left out here: load with more max_tokens before you act. "
STATE_LOST = (
    "The saved state cannot be read, which does not mean that there was none: do not start over. "
    "Ask a person to run holdfast check. "
)
STOP = "A person paused this task: stop now, and go on only after a person sets it to active. "
ATTEMPTS = (
    "This step was tried {attempts} times: mark it failed, or ask a person, rather than try again. "
)


def about(*, changes: Sequence[object], conflicts: Sequence[object], is_paused: bool) -> str:
    """Say what comes before anything else."""
    return (
        (STOP if is_paused else "")
        + (CHANGED if changes else "")
        + (CONFLICTS if conflicts else "")
    )


def after_step(next_step: str, *, unfinished: int) -> str:
    """Say how to go on after a step."""
    if next_step:
        return "Go on with next_step."
    if unfinished:
        return "What is left is running, failed or in doubt: load_checkpoint lists it."
    return "Nothing planned is left: plan more, or call finish_task."


def in_doubt(*, core_only: bool) -> str:
    """Say how a doubt is settled."""
    if core_only:
        return (
            "A step in doubt was begun and never confirmed. Do not repeat it: a person settles it "
            "in plan of state.json (done or pending) or with holdfast resolve. "
        )
    return (
        "A step in doubt was begun and never confirmed: do not just repeat it. Call begin_step for "
        "a claim, look whether its effect happened, then mark_step_done with the claim, or "
        "begin_step with claim and retry=true. "
    )


_BEGUN = {
    "in_doubt": (
        "This step was begun before and never confirmed. You hold the claim on it now: look whether "
        "its effect happened. If it did, call mark_step_done with the claim; if not, begin_step with "
        "claim and retry=true."
    ),
    "done": "It is done already: take its result and go on with another step.",
    "skipped": "It was skipped: go on with another step.",
    "held": "Somebody else is at work on it: take another step, or ask again after until.",
}


def after_begin(status: str, *, go: bool) -> str:
    """Say what to do with the answer of begin_step."""
    if status == "running":
        return "" if go else _BEGUN["held"]
    return _BEGUN.get(status, "")
