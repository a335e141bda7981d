"""The one door: a shared place of tasks, opened by agents, programs and people alike."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from holdfast_storage import answers, listing, pruning
from holdfast_storage.caller import Caller
from holdfast_storage.core import delta, ids, strict_json, view
from holdfast_storage.core.decide.context import Belief, Context, Decision, require_task
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
from holdfast_storage.core.errors import HoldfastError, Unreadable
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
    Difference,
    Finished,
    Problem,
    Pruned,
    Saved,
    TaskLine,
)
from holdfast_storage.task import Task

Clock = Callable[[], datetime]


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return secrets.token_hex(10)


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
        ids.check_id("task", task)
        author = Author(by, is_person=True) if by else HUMAN
        await self._people.look(task)
        revision, record = await self._desk.commit(
            task, author, decide, lambda fold, decision, record: fold.seq
        )
        if record is not None:
            self._people.touch(task)
        return revision

    async def answer(self, task: str, answer: Any, question: str = "", *, by: str = "") -> Asked:
        """Answer a question (the only open one, if none is named)."""
        found: list[str] = []

        def decide(fold: Fold, context: Context) -> Decision:
            decision = decide_answer(fold, question, answer, context)
            found.append(decision.found["question"])
            return decision

        await self._decide(task, by, decide)
        return await self._desk.ask(
            task, lambda fold: answers.asked(fold, found[-1], self._clock())
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
        await self._decide(
            task, by, lambda fold, context: decide_finish(fold, outcome, summary, context)
        )
        told = await self._desk.ask(task, answers.finished)
        if told.status in ("done", "abandoned"):
            await pruning.retain(self._desk, self._people, task)
        return told

    async def brief(self, task: str, *, max_tokens: int = 3000) -> Brief:
        """Say where a task stands, to somebody who only looks: it counts as no resume."""
        return await self._looking.load(task, max_tokens=max_tokens)

    async def tasks(self) -> list[TaskLine]:
        """List every task, the most recently touched first."""
        return await listing.all_tasks(self._desk)

    # --- checkpoints --------------------------------------------------------------------------

    async def state_at(self, task: str, checkpoint: int) -> dict[str, Any]:
        """Rebuild the state of any checkpoint that was not pruned."""
        history = await self._desk.fold_to(ids.check_id("task", task), history=True)
        require_task(history)
        kept = listing.find_checkpoint(history, checkpoint)
        return await self._desk.state_of(task, kept, history)

    async def rewind(self, task: str, checkpoint: int, *, by: str = "") -> Saved:
        """Go back to a checkpoint's state and next; steps that are done stay done."""
        state = await self.state_at(task, checkpoint)
        then = await self._desk.fold_to(task, await self._seq_of(task, checkpoint), history=True)
        saved: list[int] = []

        def decide(fold: Fold, context: Context) -> Decision:
            belief = Belief(fold.run, fold.seq, fold.state, set(fold.state))
            request = SaveRequest(
                state=StateRequest(state, replace=True),
                next=then.next or " ",
                restored_from=checkpoint,
            )
            decision = decide_save(fold, request, belief, context)
            saved.append(decision.found["checkpoint"])
            return decision

        revision = await self._decide(task, by, decide)
        run = await self._desk.ask(task, lambda fold: fold.run)
        return Saved(task=task, run=run, checkpoint=saved[-1], revision=revision)

    async def _seq_of(self, task: str, checkpoint: int) -> int:
        history = await self._desk.fold_to(task, history=True)
        return listing.find_checkpoint(history, checkpoint).seq

    async def diff(self, task: str, old: int, new: int = 0) -> list[Difference]:
        """Say what differs between two checkpoints (0: the state as it is now)."""
        before = await self.state_at(task, old)
        if new:
            after = await self.state_at(task, new)
        else:
            after = await self._desk.ask(task, lambda fold: fold.state)
        changes = delta.diff(before, after)
        return [
            Difference.model_validate(
                {"path": path, "from": _value(before, path), "to": _value(after, path)}
            )
            for path in sorted(delta.paths(changes))
        ]

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

    # --- looking after the whole --------------------------------------------------------------

    async def check(self, *, repair: bool = False) -> list[Problem]:
        """Verify everything, read-only; with `repair`, set aside what is broken, never delete."""
        findings = await self._engine.check(repair)
        found = [_problem(finding) for finding in findings]
        at_fault = {finding.task for finding in findings if "/journal" in finding.file}
        for head in await listing.all_heads(self._desk):
            if head.problem:
                found.append(_problem_in(head.task, head.problem))
            elif repair or head.task not in at_fault:
                # Whoever reads a journal mends its torn tail, so one at fault is not read lightly.
                found += await self._check_task(head.task)
        return found

    async def _check_task(self, task: str) -> list[Problem]:
        try:
            history = await self._desk.fold_to(task, history=True)
        except HoldfastError as error:
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


def _value(state: dict[str, Any], path: str) -> Any:
    found = delta.at(state, delta.path_of(path))
    return None if found is MISSING else found


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
