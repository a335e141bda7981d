"""What the operations answer, field for field as agents see it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """What all answers share: data that nobody changes."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Change(Answer):
    """A value that somebody else changed."""

    by: str
    path: str
    old: Any = Field(default=None, alias="from")
    new: Any = Field(default=None, alias="to")


class ConflictAnswer(Answer):
    """A value that was sent and does not stand."""

    path: str
    yours: Any = None
    current: Any = None
    kept_by: str = ""
    file: str = ""
    insist: str = ""


class Progress(Answer):
    """How far the run is."""

    done: int = 0
    failed: int = 0
    total: int = 0
    last_done: str = ""
    resumes: int = 0


class Saved(Answer):
    """Where a save ended up."""

    task: str
    run: int
    checkpoint: int
    revision: int
    changes: list[Change] = []
    conflicts: list[ConflictAnswer] = []
    warnings: list[str] = []
    hint: str = ""


class Running(Answer):
    """A step that somebody is at work on."""

    step: str
    by: str
    until: str


class QuestionAnswer(Answer):
    """A question and where it stands."""

    id: str
    question: str
    status: str
    answer: Any = None


class OpenConflict(Answer):
    """A conflict that nobody has acknowledged yet."""

    id: str
    path: str
    kept_by: str = ""
    file: str = ""


class RefAnswer(Answer):
    """A file or an address that the work rests on, and whether it is still as it was."""

    ref: str
    status: str


class TaskLine(Answer):
    """One task in a listing."""

    task: str
    status: str
    goal: str = ""
    progress: Progress = Progress()
    next: str = ""
    by: str = ""
    updated_at: str = ""
    questions: int = 0
    # Steps that somebody is at work on, or was: whether they are in doubt depends on the moment.
    begun: int = 0
    in_doubt: int = 0
    conflicts: int = 0
    damaged: bool = False
    problem: str = ""


class Brief(Answer):
    """What an agent needs to go on."""

    found: bool
    task: str = ""
    goal: str = ""
    status: str = ""
    run: int = 0
    revision: int = 0
    checkpoint: int = 0
    label: str = ""
    saved_at: str = ""
    saved_by: str = ""
    next: str = ""
    progress: Progress = Progress()
    remaining: list[str] = []
    running: list[Running] = []
    in_doubt: list[str] = []
    questions: list[QuestionAnswer] = []
    changes: list[Change] = []
    conflicts: list[OpenConflict] = []
    refs: list[RefAnswer] = []
    warnings: list[str] = []
    state: Any = None
    hint: str = ""
    current: bool = True
    chosen_because: str = ""
    # Not there in most: a list to begin with would be copied for each.
    similar: list[str] = Field(default_factory=list[str])
    tasks: list[TaskLine] = Field(default_factory=list[TaskLine])


class CheckpointLine(Answer):
    """One checkpoint in a listing."""

    checkpoint: int
    label: str = ""
    milestone: bool = False
    at: str = ""
    by: str = ""
    bytes: int = 0
    pinned: bool = False
    run: int = 0
    restored_from: int = 0
    available: bool = True


class StepLine(Answer):
    """One step in a listing."""

    step: str
    status: str
    attempts: int = 0
    at: str = ""
    by: str = ""
    result: Any = None
    refs: list[str] = []


class Event(Answer):
    """One operation in a task's life."""

    seq: int
    at: str
    by: str
    op: str
    about: dict[str, Any] = {}


class Listing(Answer):
    """One page of tasks, checkpoints, steps or events."""

    task: str = ""
    tasks: list[TaskLine] = []
    checkpoints: list[CheckpointLine] = []
    steps: list[StepLine] = []
    events: list[Event] = []
    cursor: str = ""


class Marked(Answer):
    """What became of a step."""

    task: str
    step: str
    outcome: str
    already_done: bool = False
    differs: bool = False
    result: Any = None
    progress: Progress = Progress()
    next_step: str = ""
    revision: int = 0
    changes: list[Change] = []
    conflicts: list[ConflictAnswer] = []
    warnings: list[str] = []
    hint: str = ""


class Begun(Answer):
    """Whether to go ahead with a step, and with which key."""

    task: str
    go: bool
    status: str
    step: str = ""
    claim: str = ""
    idempotency_key: str = ""
    attempts: int = 0
    held_by: str = ""
    until: str = ""
    result: Any = None
    revision: int = 0
    changes: list[Change] = []
    warnings: list[str] = []
    hint: str = ""


class Asked(Answer):
    """Where a question stands."""

    task: str
    status: str
    question_id: str
    answer: Any = None
    revision: int = 0
    hint: str = ""


class Finished(Answer):
    """How a run ended, or was laid down."""

    task: str
    run: int
    status: str
    unfinished: list[str] = []
    revision: int = 0
    hint: str = ""


class PruneLine(Answer):
    """One checkpoint and why it stays or goes."""

    task: str
    checkpoint: int
    why: str
    bytes: int = 0


class Pruned(Answer):
    """What prune took, or would take."""

    removed: list[PruneLine] = []
    kept: list[PruneLine] = []
    freed_bytes: int = 0
    restorable_until: str = ""
    trash: list[str] = []
    dry_run: bool = False


class Difference(Answer):
    """One value that differs between two checkpoints; where one has none, `from` or `to` is null."""

    path: str
    kind: Literal["added", "removed", "changed"] = "changed"
    old: Any = Field(default=None, alias="from")
    new: Any = Field(default=None, alias="to")


class StepAtWork(Answer):
    """A step that somebody began: at work on it still, or nobody knows whether it happened."""

    step: str
    by: str = ""
    at: str = ""
    attempts: int = 0


class AskedQuestion(Answer):
    """A question as a person sees it who is to answer it."""

    id: str
    question: str
    status: str
    options: list[str] = []
    step: str = ""
    asked_by: str = ""
    asked_at: str = ""
    expires_at: str = ""
    answer: Any = None
    answered_by: str = ""


class LostValue(Answer):
    """A value that did not make it, and where it lies until somebody acknowledges it."""

    id: str
    path: str
    kept_by: str = ""
    lost_by: str = ""
    file: str = ""
    at: str = ""


class Standing(Answer):
    """Where a task stands, for a person who looks after it."""

    task: str
    status: str
    goal: str = ""
    next: str = ""
    summary: str = ""
    run: int = 0
    revision: int = 0
    checkpoint: int = 0
    progress: Progress = Progress()
    updated_at: str = ""
    by: str = ""
    paused_by_person: bool = False
    running: list[StepAtWork] = []
    in_doubt: list[StepAtWork] = []
    in_doubt_count: int = 0
    questions: list[AskedQuestion] = []
    conflicts: list[LostValue] = []
    conflict_count: int = 0
    refs: list[str] = []
    warnings: list[str] = []
    problems: list[str] = []
    damaged: bool = False


class Load(Answer):
    """Somebody took up a run."""

    at: str = ""
    by: str = ""
    run: int = 0
    revision: int = 0


class ProgressPoint(Answer):
    """How many steps were done at a moment."""

    at: str
    done: int


class Milestone(Answer):
    """A checkpoint that somebody called a milestone."""

    at: str
    checkpoint: int
    label: str = ""


class Course(Answer):
    """How a run went so far."""

    points: list[ProgressPoint] = []
    milestones: list[Milestone] = []


class Edited(Answer):
    """What became of a view that a person changed."""

    revision: int
    changed: bool
    warnings: list[str] = []
    conflicts: list[LostValue] = []


class Problem(Answer):
    """One thing that `check` found."""

    file: str
    problem: str
    repair: str = ""
    task: str = ""
    line: int = 0
