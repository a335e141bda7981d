"""Everything that can be refused, for the person or agent who must act next."""

from __future__ import annotations

from shlex import quote
from typing import Any, ClassVar

MISFITS = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What comes of a journal whose lines are sound and say what no program of ours writes."""


class HoldfastError(Exception):
    """The root: `code` is a stable word, `hint` says what to do next, `str()` says what happened."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    hint: str = ""

    def fields(self) -> dict[str, Any]:
        """Give what a program may want to act upon."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    def __reduce__(self) -> tuple[Any, ...]:
        # By default it would be made again from its message, which is not what a subclass takes.
        return _made_again, (type(self), self.args), vars(self)


def _made_again(kind: type[HoldfastError], args: tuple[Any, ...]) -> HoldfastError:
    return kind.__new__(kind, *args)


# --- what was given cannot be taken -----------------------------------------------------------


class InvalidValue(HoldfastError):
    """A value that an agent or a program gave is not something Holdfast can keep."""

    code = "invalid_value"
    hint = "Correct the value and call again; nothing was saved."

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where, self.problem = where, problem


class TooLarge(HoldfastError):
    """A value is over its limit."""

    code = "too_large"
    hint = (
        "Keep large artefacts as files and name them in refs, or raise the limit in holdfast.json; "
        "nothing was saved."
    )

    def __init__(self, where: str, size: int, limit: int, unit: str = "bytes") -> None:
        super().__init__(f"{where} has {size:,} {unit} where at most {limit:,} are allowed")
        self.where, self.size, self.limit, self.unit = where, size, limit, unit


class InvalidName(HoldfastError):
    """An id or a name contains what no name may contain."""

    code = "invalid_name"
    hint = "Use a plain readable name; nothing was saved."

    def __init__(self, kind: str, name: str, problem: str) -> None:
        super().__init__(f"{kind} {name[:80]!a}: {problem}")
        self.kind, self.name, self.problem = kind, name, problem


class Unreadable(HoldfastError):
    """A file that people may edit does not parse."""

    code = "unreadable"
    hint = "Correct the file at that place; until then the last good content counts."

    def __init__(self, message: str, line: int, column: int, file: str = "") -> None:
        at = f"{file}: " if file else ""
        super().__init__(f"{at}line {line}, column {column}: {message}")
        self.problem, self.line, self.column, self.file = message, line, column, file


# --- nothing was saved ------------------------------------------------------------------------


class NotSaved(HoldfastError):
    """The disk did not take it, or it could not be flushed."""

    code = "not_saved"
    retryable = True
    hint = "Make room or mend the disk, then make the same call again."

    def __init__(self, why: str) -> None:
        super().__init__(f"NOT SAVED: {why}")
        self.why = why


class Busy(HoldfastError):
    """Another process held the task's lock for too long."""

    code = "busy"
    retryable = True
    hint = "Wait a few seconds and make the same call again; nothing was saved."

    def __init__(self, task: str, waited_seconds: float) -> None:
        super().__init__(f"{task} stayed locked for {waited_seconds:g} s")
        self.task, self.waited_seconds = task, waited_seconds


class UnsafeFile(HoldfastError):
    """A link or a foreign kind of file lies where one of ours should be."""

    code = "unsafe_file"
    hint = "Remove it by hand if you did not put it there; Holdfast neither follows nor deletes it."

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}")
        self.file, self.problem = file, problem


class NewerFormat(HoldfastError):
    """The workspace was written by a later version."""

    code = "newer_format"
    hint = "Upgrade Holdfast; this version does not touch the workspace."

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"the workspace has format {found}, this version knows up to {known}")
        self.found, self.known = found, known


class Damaged(HoldfastError):
    """Something is there and cannot be believed."""

    code = "damaged"
    hint = "Run holdfast check to see what is wrong, holdfast check --repair to set it aside."

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(f"{what}: {problem}")
        self.what, self.problem = what, problem


class JournalReplaced(HoldfastError):
    """The journal is not the one that was read before: whoever remembers it must read it anew."""

    code = "journal_replaced"
    retryable = True
    hint = "Make the same call again."

    def __init__(self, task: str) -> None:
        super().__init__(f"the journal of {task} was replaced underneath")
        self.task = task


# --- there is no such thing -------------------------------------------------------------------


class Unknown(HoldfastError):
    """A task, checkpoint, step, question or conflict of that name does not exist."""

    code = "unknown"
    hint = "Call list_checkpoints to see what there is."

    def __init__(self, kind: str, name: str, similar: list[str] | None = None) -> None:
        also = f"; did you mean {', '.join(similar)}?" if similar else ""
        super().__init__(f"there is no {kind} {name[:80]!a}{also}")
        self.kind, self.name, self.similar = kind, name, similar or []
        if kind == "path":
            self.hint = "Load without path to see which there are."


class AlreadyThere(HoldfastError):
    """A task of that name exists, and another cannot take its place."""

    code = "already_there"
    hint = "Choose another name."

    def __init__(self, task: str) -> None:
        super().__init__(f"there is a task {task[:80]!a} already")
        self.task = task


class PartlyImported(HoldfastError):
    """An import took some tasks in, each whole, before it came to one that it could not take."""

    code = "partly_imported"
    hint = (
        "Those that are here are whole. Mend what is named, and import the others by their names."
    )

    def __init__(self, imported: list[str], why: HoldfastError) -> None:
        super().__init__(f"{why}; imported before that: {', '.join(imported)}")
        self.imported, self.why = imported, why.code


class Unavailable(HoldfastError):
    """A checkpoint existed and its state cannot be had any more."""

    code = "unavailable"
    hint = (
        "Choose another checkpoint (list_checkpoints); a pruned one may be in the trash for 24 h."
    )

    def __init__(self, checkpoint: int, why: str) -> None:
        super().__init__(f"checkpoint {checkpoint} is not available: {why}")
        self.checkpoint, self.why = checkpoint, why


# --- not in this order ------------------------------------------------------------------------


class LoadFirst(HoldfastError):
    """A save on a run that has saves, by a caller that never looked at them."""

    code = "load_first"
    hint = "Call load_checkpoint, look at what is there, then save again."

    def __init__(self, task: str, checkpoint: int) -> None:
        super().__init__(
            f"{task} has saved work (checkpoint {checkpoint}) that you have not loaded"
        )
        self.task, self.checkpoint = task, checkpoint


class RevisionNeeded(HoldfastError):
    """A save over HTTP with neither session nor token of its own must say what it builds on."""

    code = "revision_needed"

    def __init__(self, task: str, revision: int) -> None:
        super().__init__(
            f"saves to {task} from this connection must say which revision they build on"
        )
        self.task, self.revision = task, revision
        self.hint = f"If you have seen revision {revision}, call again with revision={revision}; else load first."


class WouldDrop(HoldfastError):
    """`replace` would remove keys that were never shown to the caller."""

    code = "would_drop"
    hint = "Load them first (load_checkpoint with path), or save without replace."

    def __init__(self, task: str, keys: list[str]) -> None:
        super().__init__(
            f"replace would drop keys of {task} you were never shown: {', '.join(keys)}"
        )
        self.task, self.keys = task, keys


class RunClosed(HoldfastError):
    """Somebody finished this run before the write arrived."""

    code = "run_closed"
    hint = "Call load_checkpoint; the next write then opens a new run."

    def __init__(self, task: str, run: int, finished_by: str) -> None:
        super().__init__(f"run {run} of {task} was finished by {finished_by}")
        self.task, self.run, self.finished_by = task, run, finished_by


class StepDone(HoldfastError):
    """A done step cannot become failed or skipped by itself."""

    code = "step_done"

    def __init__(self, task: str, step: str, outcome: str) -> None:
        super().__init__(f"{step} is done already; it was not changed to {outcome}")
        self.task, self.step, self.outcome = task, step, outcome
        self.hint = (
            "Leave it, or let a person reopen it: write its name into reopen in state.json, "
            f"or type: holdfast reopen {quote(task)} {quote(step)}"
        )


class ClaimReplaced(HoldfastError):
    """Somebody else holds the newest claim on the step, so this one cannot confirm it."""

    code = "claim_replaced"
    hint = (
        "Do not act on this step any more; load_checkpoint shows where it stands. "
        "What you sent is kept in conflicts/."
    )

    def __init__(self, task: str, step: str, held_by: str) -> None:
        super().__init__(f"{step} of {task} is in the hands of {held_by}")
        self.task, self.step, self.held_by = task, step, held_by


class Unfinished(HoldfastError):
    """A run cannot be finished as done while something in it is open."""

    code = "unfinished"

    def __init__(self, task: str, steps: list[str], questions: list[str], more: int = 0) -> None:
        listed = ", ".join(steps + [f"question {name}" for name in questions])
        more_of_them = f" and {more} more" if more else ""
        super().__init__(f"{task} is not done: {listed}{more_of_them}")
        self.task, self.steps, self.questions, self.more = task, steps, questions, more
        self.hint = (
            "Do them, or mark each with outcome skipped; resolve what is in doubt; or finish with "
            "outcome paused to go on later."
        )


class InDoubt(HoldfastError):
    """A step was begun and never confirmed: its effect may or may not have happened."""

    code = "in_doubt"

    def __init__(self, task: str, step: str, idempotency_key: str) -> None:
        super().__init__(f"{step} of {task} was begun and never confirmed")
        self.task, self.step, self.idempotency_key = task, step, idempotency_key
        self.hint = (
            "Look whether its effect happened, then say so: "
            f"holdfast resolve {quote(task)} {quote(step)} --happened (or --did-not-happen)"
        )
