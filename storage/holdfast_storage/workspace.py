"""The one door: a shared place of tasks, opened by agents, programs and people alike."""

from __future__ import annotations

import os
import platform
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from holdfast_storage import answers, copying, listing, pruning, standing
from holdfast_storage.caller import Caller
from holdfast_storage.copying import File
from holdfast_storage.core import delta, ids, strict_json, view
from holdfast_storage.core.decide.context import (
    Belief,
    Context,
    Decision,
    require_state,
    require_task,
)
from holdfast_storage.core.decide.people import (
    decide_acknowledge,
    decide_answer,
    decide_finish,
    decide_go_on,
    decide_pin,
)
from holdfast_storage.core.decide.save import SaveRequest, decide_save
from holdfast_storage.core.decide.state import StateRequest
from holdfast_storage.core.decide.steps import decide_release, decide_reopen, decide_resolve
from holdfast_storage.core.delta import MISSING
from holdfast_storage.core.errors import (
    MISFITS,
    HoldfastError,
    PartlyImported,
    Unreadable,
)
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.limits import Settings, read_settings
from holdfast_storage.desk import Author, Desk
from holdfast_storage.engines.base import Engine, Finding, Trashed
from holdfast_storage.engines.memory import MemoryEngine
from holdfast_storage.location import locate
from holdfast_storage.people import HUMAN, People
from holdfast_storage.readme import README
from holdfast_storage.refs import Refs
from holdfast_storage.results import (
    Asked,
    Brief,
    Course,
    Difference,
    Edited,
    Finished,
    Load,
    Problem,
    Pruned,
    Saved,
    Standing,
    TaskLine,
)
from holdfast_storage.task import Task

Clock = Callable[[], datetime]
T = TypeVar("T")


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return os.urandom(10).hex()


def _default_by() -> str:
    return f"python@{platform.node().split('.')[0] or 'localhost'}"


class Workspace:
    """Everything that can be done with tasks, whoever does it.

    Agents and programs act through a `caller`, which remembers what they have seen; what people
    decide (answers, doubts, reopening, rewinding) stands here. Use it as an async context manager.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        by: str = "",
        location: str = "memory:",
        project: Path | None = None,
        roots: Iterable[Path] = (),
        clock: Clock = _now,
        new_id: Callable[[], str] = _new_id,
    ) -> None:
        self._engine = engine
        self._by = by or _default_by()
        self._location = location
        self._project, self._roots = project, list(roots)
        self._clock, self._new_id = clock, new_id
        self._is_closed = False
        self._set_up(Settings())

    def _set_up(self, settings: Settings) -> None:
        self._desk = Desk(self._engine, self._clock, self._new_id, settings)
        self._people = People(self._desk)
        self._refs = Refs(self._project, self._roots, settings.limits.refs)
        self._own = self.caller(self._by)
        self._looking = Caller(self._desk, self._people, self._refs, self._by, is_looking=True)

    @classmethod
    def open(
        cls,
        url: str | Path | None = None,
        *,
        by: str = "",
        roots: Iterable[Path] = (),
        clock: Clock = _now,
        new_id: Callable[[], str] = _new_id,
    ) -> Self:
        """Open a workspace: a folder, `memory:`, or by default the one that belongs here."""
        if (url or os.environ.get("HOLDFAST_WORKSPACE")) == "memory:":
            return cls(MemoryEngine(), by=by, clock=clock, new_id=new_id)
        from holdfast_storage.engines.folder import FolderEngine

        location = locate(url, os.environ, Path.cwd())
        engine = FolderEngine.open(
            location.root,
            schema=strict_json.pretty(view.schema()),
            readme=README,
            settings=asdict(Settings()),
        )
        return cls(
            engine,
            by=by,
            location=str(location.root),
            project=location.project,
            roots=roots,
            clock=clock,
            new_id=new_id,
        )

    async def __aenter__(self) -> Self:
        try:
            self._set_up(read_settings(dict(await self._engine.settings())))
        except Unreadable as error:
            error.hint = "Correct holdfast.json at that place; nothing starts before it parses."
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def prepare(self) -> None:
        """Make the workspace now; otherwise its first record makes it."""
        await self._engine.prepare()

    async def close(self) -> None:
        """Render what is not rendered yet and let go of the workspace; a second time does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._people.close()
        finally:
            await self._engine.close()

    @property
    def settings(self) -> Settings:
        """What holdfast.json says, with the defaults filled in."""
        return self._desk.settings

    @property
    def location(self) -> str:
        """Where the workspace lies."""
        return self._location

    @property
    def desk(self) -> Desk:
        """Where everything is committed and read: for what adds operations of its own."""
        return self._desk

    @property
    def people(self) -> People:
        """What renders the views and takes edits in: for what adds operations of its own."""
        return self._people

    # --- who acts -----------------------------------------------------------------------------

    def caller(
        self, by: str = "", *, core_only: bool = False, must_give_revision: bool = False
    ) -> Caller:
        """Give the operations of one connection, with a memory of its own."""
        return Caller(
            self._desk,
            self._people,
            self._refs,
            by or self._by,
            core_only=core_only,
            must_give_revision=must_give_revision,
        )

    def task(self, task: str) -> Task:
        """Give one task to a program, in the short form."""
        return Task(self._own, self._desk, ids.check_id("task", task))

    # --- what people decide -------------------------------------------------------------------

    async def _decide(
        self,
        task: str,
        by: str,
        decide: Callable[[Fold, Context], Decision],
    ) -> int:
        """Commit something a person decided; answers the revision."""
        return await self._decided(task, by, decide, lambda fold, decision: fold.seq)

    async def _decided(
        self,
        task: str,
        by: str,
        decide: Callable[[Fold, Context], Decision],
        answer: Callable[[Fold, Decision], T],
    ) -> T:
        ids.check_id("task", task)
        author = Author(by, is_person=True) if by else HUMAN
        await self._people.look(task)
        told, record = await self._desk.commit(
            task, author, decide, lambda fold, decision, record: answer(fold, decision)
        )
        if record is not None:
            self._people.touch(task)
        return told

    async def answer(self, task: str, answer: Any, question: str = "", *, by: str = "") -> Asked:
        """Answer a question (the only open one, if none is named)."""
        return await self._decided(
            task,
            by,
            lambda fold, context: decide_answer(fold, question, answer, context),
            lambda fold, decision: answers.asked(fold, decision.found["question"], self._clock()),
        )

    async def reopen(self, task: str, *steps: str, by: str = "") -> int:
        """Make steps pending again; they get new idempotency keys."""
        return await self._decide(
            task, by, lambda fold, context: decide_reopen(fold, steps, context)
        )

    async def resolve(
        self, task: str, step: str, *, happened: bool, result: Any = None, by: str = ""
    ) -> int:
        """Settle a doubt: the step's effect happened, or it did not."""
        return await self._decide(
            task, by, lambda fold, context: decide_resolve(fold, step, happened, result, context)
        )

    async def release(self, task: str, step: str, *, by: str = "") -> int:
        """End somebody's claim on a step, which is then in doubt."""
        return await self._decide(
            task, by, lambda fold, context: decide_release(fold, step, context)
        )

    async def acknowledge(
        self, task: str, *conflicts: str, damage: bool = False, by: str = ""
    ) -> int:
        """Stop announcing conflicts, or with `damage` accept what a damaged journal lost."""
        return await self._decide(
            task, by, lambda fold, context: decide_acknowledge(fold, conflicts, damage, context)
        )

    async def pin(self, task: str, checkpoint: int, *, pinned: bool = True, by: str = "") -> int:
        """Keep a checkpoint for good, or stop keeping it."""
        history = await self._desk.fold_to(ids.check_id("task", task), history=True)
        return await self._decide(
            task, by, lambda fold, context: decide_pin(history, checkpoint, pinned, context)
        )

    async def pause(self, task: str, *, by: str = "") -> int:
        """Stop agents until `go_on`: what they do is still recorded."""
        return await self._decide(
            task, by, lambda fold, context: decide_finish(fold, "paused", "", context)
        )

    async def go_on(self, task: str, *, by: str = "") -> int:
        """Let a paused or failed run go on."""
        return await self._decide(task, by, decide_go_on)

    async def finish(
        self, task: str, outcome: str = "done", summary: str = "", *, by: str = ""
    ) -> Finished:
        """End or lay down a run, by a person."""
        told = await self._decided(
            task,
            by,
            lambda fold, context: decide_finish(fold, outcome, summary, context),
            lambda fold, decision: answers.finished(fold),
        )
        if told.status in ("done", "abandoned"):
            await pruning.retain(self._desk, self._people, task)
        return told

    async def brief(self, task: str, *, checkpoint: int = 0, max_tokens: int = 3000) -> Brief:
        """Say where a task stands, to somebody who only looks: it counts as no resume."""
        return await self._looking.load(task, checkpoint=checkpoint, max_tokens=max_tokens)

    async def standing(self, task: str) -> Standing:
        """Say where a task stands, to a person who looks after it."""
        await self._people.look(ids.check_id("task", task))
        runs = await self._people.resumes(task)

        def of(fold: Fold) -> Standing:
            require_task(fold)
            now = self._clock()
            warnings = [
                *self._people.warnings(task),
                *answers.about_health(fold, self._clock, self._engine.host),
            ]
            resumes = sum(run == fold.run for run in runs)
            return standing.standing(fold, now, self._desk.gone(fold), resumes, warnings)

        return await self._desk.ask(task, of)

    async def loads(self, task: str) -> list[Load]:
        """Say who took the task up, oldest first, as far back as that is kept."""
        found = await self._engine.loads(ids.check_id("task", task))
        return [Load.model_validate(each) for each in found]

    async def course(self, task: str, *, points: int = 200) -> Course:
        """Say how the open run went: how many steps were done when, in at most so many points."""
        return await self._desk.ask(
            ids.check_id("task", task), lambda fold: standing.course(fold, points), is_light=False
        )

    async def view(self, task: str) -> bytes:
        """Give what state.json should say now; change it and hand it to `edit`."""
        return await self._people.view(ids.check_id("task", task))

    async def edit(self, task: str, view: bytes, *, by: str = "") -> Edited:
        """Take in a view that a person changed, exactly as if it had been saved as state.json."""
        author = Author(by, is_person=True) if by else HUMAN
        await self._desk.ask(ids.check_id("task", task), require_task)
        record = await self._people.edit(task, view, author)
        return await self._desk.ask(task, lambda fold: standing.edited(record, fold.seq))

    async def tasks(self) -> list[TaskLine]:
        """List every task, the most recently touched first."""
        return await listing.all_tasks(self._desk)

    # --- checkpoints --------------------------------------------------------------------------

    async def state_at(self, task: str, checkpoint: int) -> dict[str, Any]:
        """Rebuild the state of any checkpoint that was not pruned (0: the state as it is now)."""
        if checkpoint == 0:
            return await self._desk.ask(ids.check_id("task", task), _state_now, is_light=False)
        history = await self._desk.fold_to(ids.check_id("task", task), history=True)
        require_task(history)
        kept = listing.find_checkpoint(history, checkpoint)
        return await self._desk.state_of(task, kept, history)

    async def rewind(self, task: str, checkpoint: int, *, by: str = "") -> Saved:
        """Go back to a checkpoint's state and next; steps that are done stay done."""
        state = await self.state_at(task, checkpoint)
        then = await self._desk.fold_to(task, await self._seq_of(task, checkpoint), history=True)

        def decide(fold: Fold, context: Context) -> Decision:
            belief = Belief(fold.run, fold.seq, fold.snapshot, set(fold.snapshot.keys))
            request = SaveRequest(
                state=StateRequest(state, replace=True),
                next=then.next or " ",
                restored_from=checkpoint,
            )
            return decide_save(fold, request, belief, context)

        def answer(fold: Fold, decision: Decision) -> Saved:
            number = decision.found["checkpoint"]
            return Saved(task=task, run=fold.run, checkpoint=number, revision=fold.seq)

        return await self._decided(task, by, decide, answer)

    async def _seq_of(self, task: str, checkpoint: int) -> int:
        history = await self._desk.fold_to(task, history=True)
        return listing.find_checkpoint(history, checkpoint).seq

    async def diff(self, task: str, old: int, new: int = 0) -> list[Difference]:
        """Say what differs between two checkpoints (0: the state as it is now)."""
        before, after = await self.state_at(task, old), await self.state_at(task, new)
        changes = delta.diff(before, after)
        return [_difference(path, before, after) for path in sorted(delta.paths(changes))]

    async def prune(
        self,
        task: str,
        keep_last: int = 20,
        older_than_hours: float = 24,
        *,
        dry_run: bool = False,
        by: str = "",
    ) -> Pruned:
        """Let go of old checkpoints, by a person."""
        return await pruning.prune(
            self._desk,
            self._people,
            Author(by, is_person=True) if by else HUMAN,
            task,
            keep_last=keep_last,
            older_than_hours=older_than_hours,
            dry_run=dry_run,
        )

    async def tidy(self) -> None:
        """Apply retention to every task and empty the trash of what is past restoring."""
        for line in await listing.all_tasks(self._desk):
            if not line.problem:
                await pruning.retain(self._desk, self._people, line.task)

    async def trash(self) -> list[Trashed]:
        """List what prune took and can be restored."""
        return await self._engine.trash()

    async def restore(self, name: str, *, by: str = "") -> Trashed:
        """Bring back what prune took."""
        author = Author(by, is_person=True) if by else HUMAN
        return await pruning.restore(self._desk, self._people, author, name)

    # --- copies -------------------------------------------------------------------------------

    async def fork(self, task: str, checkpoint: int, new: str, *, by: str = "") -> int:
        """Copy a task as it was at a checkpoint (0: as it is now) to a new one, which is paused.

        Its steps have idempotency keys of their own, and what ran is in doubt: a place to rehearse.
        """
        ids.check_id("task", new)
        await self._people.look(ids.check_id("task", task))
        await self._desk.ask(task, require_task)
        if checkpoint:
            # What was pruned or damaged is nothing to go on from.
            await self.state_at(task, checkpoint)
            revision = await self._seq_of(task, checkpoint)
        else:
            revision = await self._desk.ask(task, lambda fold: fold.seq)
        author = Author(by, is_person=True) if by else HUMAN
        revision = await copying.fork(self._desk, author, task, checkpoint, revision, new)
        self._people.touch(new)
        return revision

    async def export_to(self, file: File, *tasks: str) -> list[str]:
        """Write tasks (all, if none is named) into a new file or an open descriptor."""
        named = list(tasks) or [line.task for line in await self.tasks()]
        for task in named:
            await self._people.look(ids.check_id("task", task))
            await self._desk.ask(task, require_task)
        await copying.export(self._desk, named, file)
        return named

    async def import_from(self, file: File, *tasks: str, new: str = "") -> list[str]:
        """Take tasks (all, if none is named) in from an export; `new` names the only one anew."""
        if new:
            ids.check_id("task", new)
        taken: list[str] = []
        try:
            async for task in copying.import_from(self._desk, file, tasks, new):
                taken.append(task)
                self._people.touch(task)
        except HoldfastError as error:
            if taken:
                raise PartlyImported(taken, error) from error
            raise
        return taken

    # --- looking after the whole --------------------------------------------------------------

    async def check(self, *, repair: bool = False) -> list[Problem]:
        """Verify everything, read-only; with `repair`, set aside what is broken, never delete."""
        findings = await self._engine.check(repair)
        found = [_problem(finding) for finding in findings]
        at_fault = {finding.task for finding in findings if "/journal" in finding.file}
        async for head in listing.all_heads(self._desk):
            if head.problem:
                found.append(_problem_in(head.task, head.problem))
            elif repair or head.task not in at_fault:
                # Whoever reads a journal mends its torn tail, so one at fault is not read lightly.
                found += await self._check_task(head.task)
        return found

    async def _check_task(self, task: str) -> list[Problem]:
        try:
            history = await self._desk.fold_to(task, history=True)
            standing.standing(history, self._clock(), self._desk.gone(history), 0, ())
        except (HoldfastError, *MISFITS) as error:
            return [_problem_in(task, str(error))]
        found = [_problem_in(task, problem) for problem in history.problems]
        for kept in history.checkpoints.values():
            if kept.pruned:
                continue
            try:
                await self._desk.state_of(task, kept, history)
            except HoldfastError as error:
                found.append(_problem_in(task, str(error)))
        return found

    async def render(self, task: str) -> None:
        """Bring state.json up to date now."""
        await self._people.render(task)

    async def watch(self) -> AsyncIterator[set[str]]:
        """Tell of tasks in which something may have changed, taking people's edits in."""
        async for tasks in self._engine.watch():
            for task in tasks:
                await self._people.look(task)
            yield tasks


def _state_now(fold: Fold) -> dict[str, Any]:
    require_task(fold)
    require_state(fold)
    # The fold goes on living with its own.
    return fold.snapshot.apart()


def _difference(path: str, before: dict[str, Any], after: dict[str, Any]) -> Difference:
    old, new = (delta.at(state, delta.path_of(path)) for state in (before, after))
    kind = "added" if old is MISSING else "removed" if new is MISSING else "changed"
    told = {"from": None if old is MISSING else old, "to": None if new is MISSING else new}
    return Difference.model_validate({"path": path, "kind": kind, **told})


def _problem_in(task: str, problem: str) -> Problem:
    file = f"tasks/{ids.folder_name(task)}/journal"
    return Problem(file=file, problem=problem, task=task)


def _problem(finding: Finding) -> Problem:
    return Problem(
        file=finding.file,
        problem=finding.problem,
        repair=finding.repair,
        task=finding.task,
        line=finding.line,
    )
