"""One connection and the eight things it can do: what it saw and said decides what it may overwrite."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from holdfast_storage import answers, listing, pruning, sent
from holdfast_storage.core import hints, ids, strict_json
from holdfast_storage.core.brief import BriefRequest, changes_since, compose, is_person
from holdfast_storage.core.cuts import is_cut
from holdfast_storage.core.decide.context import Belief, Context, Decision, require_state
from holdfast_storage.core.decide.people import AskRequest, decide_ask, decide_finish
from holdfast_storage.core.decide.save import SaveRequest, decide_save
from holdfast_storage.core.decide.state import StateChange, StateRequest
from holdfast_storage.core.decide.steps import (
    BeginRequest,
    MarkRequest,
    decide_begin,
    decide_mark,
    progress_of,
)
from holdfast_storage.core.delta import path_of
from holdfast_storage.core.errors import (
    ClaimReplaced,
    Damaged,
    HoldfastError,
    InvalidName,
    InvalidValue,
    RevisionNeeded,
    Unavailable,
    Unknown,
)
from holdfast_storage.core.fold import Changed, Changes, Fold
from holdfast_storage.core.records import Place, Record
from holdfast_storage.core.snapshot import Snapshot
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.core.times import stamp
from holdfast_storage.desk import Author, Desk
from holdfast_storage.eager import begun
from holdfast_storage.people import People
from holdfast_storage.refs import Refs
from holdfast_storage.remembered import Memory, Taken
from holdfast_storage.results import (
    Answer,
    Asked,
    Begun,
    Brief,
    Finished,
    Listing,
    Marked,
    Pruned,
    Saved,
    TaskLine,
)

R = TypeVar("R", bound=Answer)
_MANY_ATTEMPTS = 3
_OWN_KEPT = 2048
# A save of no more than this takes no longer to decide on and to write than a step does, unless it
# falls to it to write a large state in full, or to copy one.
_LIGHT_BYTES = 128 * 2**10
_LIGHT_STATE_BYTES = 2 * 2**20
_OVER = "it belongs to a run that is over; load first"
_NO_STATE = StateRequest()


@dataclasses.dataclass(slots=True)
class _Told(Generic[R]):
    """An answer on its way: what it says, and the moment it tells of."""

    form: type[R]
    fields: JsonObject
    fold: dataclasses.InitVar[Fold]
    belief: dataclasses.InitVar[Belief]
    record: Record | None
    change: StateChange | None = None
    is_paused: bool = False
    run: int = 0
    seq: int = 0
    believed: Snapshot | None = None
    answer: R = dataclasses.field(init=False)
    # What the caller may have to be told of, taken now: what the same write brings after it may push
    # it out of the fold's memory, and the caller will at most have heard of more by then.
    _unheard: list[Changed] = dataclasses.field(init=False)
    _remembered: Changes = dataclasses.field(init=False)

    def __post_init__(self, fold: Fold, belief: Belief) -> None:
        self.run, self.seq = fold.run, fold.seq
        if self.change is not None:
            is_so = self.change.believed is self.change.state and self.record is not None
            # The very same one, if it came about as said: the next save need not compare the two.
            self.believed = fold.snapshot if is_so else self.change.believed
        since = max(belief.told, belief.met)
        if fold.person_seq <= since:
            # People's changes are told again and again, others' once: its own leave hundreds behind.
            since = max(since, belief.heard)
        self._unheard = fold.changes.after(since)
        self._remembered = fold.changes

    def remembered_of(self, ids: Iterable[str]) -> set[str]:
        """Give those of these records of whose changes the fold could still be asked."""
        return {changed.id for changed in self._remembered}.intersection(ids)

    def tell(self) -> None:
        """Make up an answer that has no changes in it."""
        self.answer = self.form.model_validate(self.fields)

    def tell_changes(self, belief: Belief) -> None:
        """Make up an answer with the changes that somebody who believes this has to be told of."""
        changes = changes_since(self._unheard, belief) if self._unheard else []
        if changes:
            # Apart from the fold's own values: what a program does with its answer is no change to ours.
            changes = strict_json.apart(changes)
        conflicts = self.fields.get("conflicts", ())
        about = hints.about(changes=changes, conflicts=conflicts, is_paused=self.is_paused)
        told = {"changes": changes, "hint": about + self.fields.get("hint", "")}
        self.answer = self.form.model_validate(self.fields | told)


@dataclasses.dataclass(slots=True)
class _Noted:
    """What a load has to see to before it can tell: the files it rests on, and itself."""

    refs: list[JsonObject]
    resume: JsonObject
    statuses: list[JsonObject] = dataclasses.field(default_factory=list[JsonObject])


class Caller:
    """Somebody who uses the workspace: an agent's connection, or a program."""

    def __init__(
        self,
        desk: Desk,
        people: People,
        refs: Refs,
        by: str,
        *,
        core_only: bool = False,
        must_give_revision: bool = False,
        is_looking: bool = False,
    ) -> None:
        self._is_looking = is_looking
        self._desk, self._people, self._refs = desk, people, refs
        if is_person(ids.check_id("by", by)):
            raise InvalidName("by", by, "that is what people are recorded as")
        self._author = Author(by)
        self._core_only = core_only
        self._must_give_revision = must_give_revision
        self._memory = Memory()
        self._last_task = ""

    @property
    def by(self) -> str:
        """The name under which everything of this caller is recorded."""
        return self._author.by

    def _belief(self, task: str) -> Belief:
        return self._memory.of(task).belief

    async def _write(
        self,
        task: str,
        decide: Callable[[Fold, Context], Decision],
        answer: Callable[[Fold, Decision, Record | None], _Told[R]],
        learn: Callable[[_Told[R]], object],
        *,
        is_light: bool = True,
    ) -> _Told[R]:
        """Take people's edits in first, then commit, then have the view rendered."""
        ids.check_id("task", task)
        if self._desk.engine.may_have_changed(task):
            await self._people.look(task)
        before, self._last_task = self._last_task, task
        try:
            told, record = await self._desk.commit(
                task, self._author, decide, answer, learn, is_light=is_light
            )
        except Unknown:
            # There is no such task: it was not touched, but mistaken for another.
            self._last_task = before
            raise
        if record is not None:
            self._people.touch(task)
        return told

    def _learn(self, task: str, told: _Told[R]) -> None:
        """Tell this caller of the changes it has not heard of, and remember that it was told."""
        belief = self._meet(task, told)
        told.tell_changes(belief)
        belief.heard = told.seq

    def _meet(self, task: str, told: _Told[R]) -> Belief:
        """Remember what this caller did, and that it was answered."""
        belief, record = self._belief(task), told.record
        if record is not None:
            belief.own.add(record.id)
            if len(belief.own) > _OWN_KEPT:
                # Only of what the fold still remembers is it asked whose it was.
                belief.own = told.remembered_of(belief.own)
            if record.opens:
                self._memory.of(task).belief = belief = Belief(
                    run=told.run, own={record.id}, claims=belief.claims, state={}
                )
        belief.met = belief.met or told.seq
        return belief

    # --- save_checkpoint ----------------------------------------------------------------------

    async def save(
        self,
        task: str,
        state: JsonObject | None = None,
        *,
        replace: bool = False,
        append: Mapping[str, list[Any]] | None = None,
        goal: str = "",
        next: str = "",
        plan: Sequence[str] = (),
        total: int = 0,
        label: str = "",
        milestone: bool = False,
        refs: Sequence[str] = (),
        revision: int = 0,
    ) -> Saved:
        """Save where the work stands; what is left out stays as it was."""
        said = sent.kept(state, append, self._desk.settings.limits)
        rest = [replace, goal, next, list(plan), total, label, milestone, list(refs), revision]
        asked = sent.known_by(said, rest, replace=replace)
        remembered = self._memory.meet(task)
        known = remembered.last_save
        if asked and known and known[0] == asked:
            # The same call again, with nothing of this caller's in between: the answer got lost.
            return await asyncio.shield(known[1])
        request = SaveRequest(
            state=said.request(replace=replace),
            goal=goal,
            next=next,
            plan=plan,
            total=total,
            label=label,
            milestone=milestone,
        )
        is_light = (
            asked is not None
            and len(said.raw) + len(said.raw_append) <= _LIGHT_BYTES
            and self._desk.state_bytes(task) <= _LIGHT_STATE_BYTES
        )
        begin = begun if self._desk.engine.capabilities.begins_anywhere else asyncio.ensure_future
        saving = begin(self._save(task, request, refs, revision, is_light))
        # Nobody else has had a turn so far: the same call at the same time finds this one.
        remembered.last_save = (asked, saving)
        if saving.done():
            remembered.forget_if_failed(saving)
            return saving.result()
        saving.add_done_callback(remembered.forget_if_failed)
        return await asyncio.shield(saving)

    async def _save(
        self, task: str, said: SaveRequest, refs: Sequence[str], revision: int, is_light: bool
    ) -> Saved:
        # One after the other, in the order they came: a save builds on what this caller said before,
        # and would otherwise conflict with itself.
        async with self._memory.of(task).turn:
            base = await self._base_at(task, revision)
            if revision or refs != ():
                said = dataclasses.replace(
                    said,
                    state=dataclasses.replace(said.state, base=base),
                    refs=await self._refs.note(refs),
                )
            return await self._save_in_turn(task, said, revision, is_light=is_light)

    async def _save_in_turn(
        self, task: str, request: SaveRequest, revision: int, *, is_light: bool
    ) -> Saved:

        def decide(fold: Fold, context: Context) -> Decision:
            if self._must_give_revision and not revision and fold.checkpoints:
                raise RevisionNeeded(task, fold.seq)
            _refuse_of_another_run(revision, fold.opened_seq)
            self._hear_of(task, revision, fold)
            return decide_save(fold, request, self._belief(task), context)

        def answer(fold: Fold, decision: Decision, record: Record | None) -> _Told[Saved]:
            change: StateChange = decision.found["change"]
            fields: JsonObject = {
                "task": task,
                "run": fold.run,
                "checkpoint": decision.found["checkpoint"],
                "revision": fold.seq,
                "conflicts": strict_json.apart(answers.conflicts(change, fold, record)),
                "warnings": self._warnings(fold, request.plan),
            }
            return _Told(
                Saved, fields, fold, self._belief(task), record, change, fold.paused_by_person
            )

        def learn(told: _Told[Saved]) -> None:
            self._learn(task, told)
            self._believe(task, told)

        told = await self._write(task, decide, answer, learn, is_light=is_light)
        return told.answer

    async def _base_at(self, task: str, revision: int) -> Snapshot | None:
        """Give the state at a revision that the caller says it has seen."""
        if type(revision) is not int or revision < 0:
            raise InvalidValue("revision", "it must be a revision that an answer named")
        if not revision:
            return None
        await self._people.look(task)
        head = await self._desk.ask(task, lambda fold: (fold.seq, fold.snapshot, fold.opened_seq))
        if revision == head[0]:
            return head[1]
        if revision > head[0]:
            raise InvalidValue("revision", f"the newest revision is {head[0]}")
        _refuse_of_another_run(revision, head[2])
        try:
            then = await self._desk.fold_to(task, revision)
        except Unknown as error:
            # Another run was opened in between.
            raise InvalidValue("revision", _OVER) from error
        if then.state_pruned:
            raise InvalidValue("revision", "the state it names was pruned; load first")
        return then.snapshot

    def _hear_of(self, task: str, revision: int, fold: Fold) -> None:
        belief = self._belief(task)
        if revision > belief.told:
            belief.told = revision
            belief.enter(fold.run)
            belief.show_all(fold.snapshot)

    def _believe(self, task: str, told: _Told[R]) -> None:
        belief = self._belief(task)
        belief.enter(told.run)
        change, believed = told.change, told.believed
        if change is None:
            return
        if change.said is not None:
            # A key that was sent as null is not there, and if it comes again nobody has seen it.
            belief.shown.update(filter((believed or change.state).keys.__contains__, change.said))
        if believed is None:
            return
        if change.said is None:
            belief.show_all(believed)
            is_all_shown = True
        else:
            is_on_top = change.touched is not None
            is_all_shown = (is_on_top and belief.is_all_shown) or believed.keys <= belief.shown
        belief.state, belief.is_all_shown = believed, is_all_shown

    def _warnings(self, fold: Fold, names: Sequence[str] = (), new_step: str = "") -> list[str]:
        desk = self._desk
        warnings = self._people.warnings(fold.task)
        warnings += answers.about_health(fold, desk.clock, desk.engine.host)
        if desk.settings_problem:
            warnings.append(desk.settings_problem)
        for name in (*names, new_step) if new_step else names:
            like = fold.alike.get(ids.resembles(name), name)
            if like != name:
                warnings.append(f"two steps have nearly the same name: {name!r} and {like!r}")
        return warnings[:20] if warnings else warnings

    # --- load_checkpoint ----------------------------------------------------------------------

    async def load(
        self, task: str = "", *, checkpoint: int = 0, path: str = "", max_tokens: int = 3000
    ) -> Brief:
        """Give what is needed to go on, within `max_tokens`."""
        chosen_because = ""
        if not task:
            task, chosen_because, tasks = await self._choose()
            if not task:
                return answers.to_choose_from(tasks)
        ids.check_id("task", task)
        self._memory.meet(task)
        await self._desk.refresh_settings()
        await self._people.look(task)
        if checkpoint:
            if await self._desk.ask(task, lambda fold: fold.run) == 0:
                return await self._not_found(task)
            self._last_task = task
            return await self._look_at(task, checkpoint, path, max_tokens)
        more = {"chosen_because": chosen_because} if chosen_because else {}
        brief = await self._brief(task, path, max_tokens, more)
        if brief is None:
            return await self._not_found(task)
        self._last_task = task
        self._people.touch_if_behind(task, brief["revision"])
        return _brief_apart(brief)

    async def _brief(
        self, task: str, path: str, max_tokens: int, more: JsonObject
    ) -> JsonObject | None:
        """Compose the brief and believe it; None if there is no such task.

        Usually the fold is asked once. What has to be looked at or noted first is learnt from it too,
        and then it is asked again.
        """
        noted: _Noted | None = None
        runs = await self._people.resumes(task)

        def of(fold: Fold) -> tuple[JsonObject | None, Belief | None, _Noted | None]:
            if fold.run == 0:
                return None, None, None
            if noted is None and (first := self._to_note(task, fold)):
                return None, None, first
            belief = self._belief(task)
            brief = self._compose(
                fold,
                answers.part_of(fold.state, path) if path else fold.snapshot,
                path,
                max_tokens,
                refs=noted.statuses if noted else [],
                changes=changes_since(fold.changes.after(belief.told), belief),
                resumes=sum(run == fold.run for run in runs),
                more=more,
            )
            return brief, self._loaded(task, fold, path, brief["state"]), None

        while True:
            is_light = self._desk.state_bytes(task) <= max(_LIGHT_BYTES, max_tokens)
            remembered = self._memory.of(task)
            # Not while a save is on its way: it builds on what this caller believed before, and
            # would put that back.
            async with remembered.turn:
                before = remembered.belief
                brief, belief, noted = await self._desk.ask(task, of, is_light=is_light)
                # Only now: whoever has given up waiting was told nothing.
                if belief is not None and not remembered.has_moved_on(before):
                    remembered.learn_load(belief)
            if noted is None:
                return brief
            noted.statuses = await self._refs.verify(noted.refs)
            if noted.resume:
                await self._desk.engine.log_load(task, noted.resume)
                runs = await self._people.resumes(task)

    def _to_note(self, task: str, fold: Fold) -> _Noted | None:
        """Say what comes before the brief: refs to look at; who took up which run, once for each."""
        refs = list(fold.refs.values())[-50:]
        resume: JsonObject = {}
        if self._belief(task).run != fold.run and not self._is_looking:
            resume = self._resume(fold.run, fold.seq)
        return _Noted(refs, resume) if refs or resume else None

    def _compose(
        self, fold: Fold, state: Any, path: str, max_tokens: int, **more: Any
    ) -> JsonObject:
        request = BriefRequest(
            now=self._desk.clock(),
            gone=self._desk.gone(fold),
            max_tokens=max_tokens,
            state=state,
            state_path=path_of(path) if path else (),
            warnings=[*self._warnings(fold), *fold.edit_warnings],
            core_only=self._core_only,
            **more,
        )
        return compose(fold, request)

    def _loaded(self, task: str, fold: Fold, path: str, state: Any) -> Belief:
        before = self._belief(task)
        shown = before.shown if before.run == fold.run else set[str]()
        if path:
            shown = {*shown, path_of(path)[0]}
        elif not is_cut(state) and not fold.snapshot.keys <= shown:
            # To ask first costs a fifth of putting thousands of keys together again.
            shown = shown | fold.snapshot.keys
        return Belief(
            run=fold.run,
            told=fold.seq,
            state=fold.snapshot,
            shown=shown,
            met=fold.seq,
            heard=fold.seq,
            claims=before.claims,
        )

    async def state(self, task: str) -> JsonObject:
        """Give the whole state and nothing else; nothing saved yet is `{}`.

        Whoever has it may save on it, and is still told of what others changed beside it.
        """
        ids.check_id("task", task)
        remembered = self._memory.meet(task)
        if self._desk.engine.may_have_changed(task):
            await self._people.look(task)
            remembered = self._memory.of(task)
        if self._desk.is_somebodys_turn():
            # Before it is asked: whoever is cancelled here was told nothing.
            await asyncio.sleep(0)
        # Not while a save is on its way, as for a load.
        is_free = not remembered.is_in_use
        asked = self._desk.asked_at_once(task, _state_to_take) if is_free else None
        if asked is not None and asked.result.run == remembered.belief.run:
            taken = asked.result
            remembered.learn_state(taken)
        else:
            async with remembered.turn:
                before = remembered.belief
                taken = await self._desk.ask(task, _state_to_take)
                if taken.run and taken.run != before.run:
                    await self._take_up(task, taken.run, taken.seq)
                if not remembered.has_moved_on(before):
                    remembered.learn_state(taken)
        if taken.run:
            self._last_task = task
        else:
            # Nobody has begun it; or it cannot be read, which is not the same.
            await self._not_found(task)
        return taken.state.apart()

    async def _take_up(self, task: str, run: int, seq: int) -> None:
        """Note who takes up which run, and find settings that were changed."""
        await self._desk.refresh_settings()
        if not self._is_looking:
            await self._desk.engine.log_load(task, self._resume(run, seq))

    def _resume(self, run: int, seq: int) -> JsonObject:
        at = stamp(self._desk.clock())
        return {"at": at, "by": self.by, "run": run, "revision": seq}

    async def _look_at(self, task: str, checkpoint: int, path: str, max_tokens: int) -> Brief:
        """Show an earlier checkpoint: looking is not rewinding, and changes no memory."""
        history = await self._desk.fold_to(task, history=True)
        kept = listing.find_checkpoint(history, checkpoint)
        state = await self._desk.state_of(task, kept, history)
        brief = await self._desk.ask(
            task,
            lambda fold: self._compose(
                fold,
                answers.part_of(state, path),
                path,
                max_tokens,
                more={"current": kept.number == fold.checkpoint and not fold.is_closed},
            ),
            is_light=False,
        )
        shown = {"checkpoint": kept.number, "label": kept.label, "saved_at": kept.at}
        return _brief_apart(brief | shown | {"saved_by": kept.by})

    async def _choose(self) -> tuple[str, str, list[TaskLine]]:
        if self._last_task:
            return self._last_task, "the task you last touched", []
        tasks = await listing.all_tasks(self._desk)
        active = [
            line for line in tasks if line.status in ("active", "waiting", "paused", "failed")
        ]
        if len(active) == 1:
            return active[0].task, "the only task that is not finished", []
        return "", "", active or tasks

    async def _not_found(self, task: str) -> Brief:
        own_names = (task, ids.folder_name(task))
        similar: list[str] = []
        # Only names, a portion at a time: a line for each of thousands of tasks, made and let go at
        # every first load of a new one, left the memory of long-lived processes full of holes.
        async for heads in listing.heads_in_portions(self._desk):
            for head in heads:
                # Something lies in its folder, and yet no record: is that a task nobody has begun?
                if (
                    head.task in own_names
                    and (line := await listing.line_of(self._desk, head)).problem
                ):
                    raise Damaged(task, line.problem)
            similar = ids.similar(task, [*similar, *(head.task for head in heads)])
        hint = "There is no such task: start fresh with save_checkpoint and a goal."
        if similar:
            hint = "There is no such task; did you mean one of similar? If not, start fresh."
        return Brief(found=False, task=task, similar=similar, hint=hint)

    # --- mark_step_done -----------------------------------------------------------------------

    async def mark(
        self,
        task: str,
        step: str,
        result: Any = None,
        *,
        outcome: str = "done",
        state: JsonObject | None = None,
        append: Mapping[str, list[Any]] | None = None,
        next: str = "",
        refs: Sequence[str] = (),
        claim: str = "",
    ) -> Marked:
        """Record how a step ended; the same again has no second effect."""
        if self._must_give_revision and state is not None:
            problem = "from this connection, send it with save_checkpoint and its revision"
            raise InvalidValue("state", problem)
        remembered = self._memory.meet(task)
        remembered.last_save = None
        is_about_state = state is not None or append is not None
        about_state = _NO_STATE
        if is_about_state:
            about_state = sent.kept(state, append, self._desk.settings.limits).request()
        request = MarkRequest(
            step,
            result,
            outcome,
            about_state,
            next,
            await self._refs.note(refs) if refs != () else (),
            claim,
        )

        def decide(fold: Fold, context: Context) -> Decision:
            return decide_mark(fold, request, remembered.belief, context)

        def answer(fold: Fold, decision: Decision, record: Record | None) -> _Told[Marked]:
            return self._marked(task, request, fold, decision, record)

        def learn(told: _Told[Marked]) -> None:
            self._learn(task, told)
            self._believe(task, told)
            remembered.belief.claims.pop(step, None)

        try:
            if is_about_state:
                # What it adds is part of what this caller said, and the next save builds on it.
                async with remembered.turn:
                    told = await self._write(task, decide, answer, learn, is_light=False)
            else:
                told = await self._write(task, decide, answer, learn)
        except ClaimReplaced as error:
            await self._keep_refused(task, request, error)
            raise
        if told.record is not None:
            return told.answer
        place: Place = told.fields["place"]
        first = (await self._desk.ending_of(task, step, place, told.seq)).body.get("result")
        differs = not strict_json.same(first, result)
        return told.answer.model_copy(update={"result": first, "differs": differs})

    def _marked(
        self,
        task: str,
        request: MarkRequest,
        fold: Fold,
        decision: Decision,
        record: Record | None,
    ) -> _Told[Marked]:
        change: StateChange | None = decision.found.get("change")
        known = fold.steps[request.step]
        next_step = self._next_step(fold)
        hint = ""
        if known.status == "failed" and known.attempts >= _MANY_ATTEMPTS:
            hint += hints.ATTEMPTS.format(attempts=known.attempts)
        if not fold.paused_by_person:
            hint += hints.after_step(next_step, unfinished=len(fold.unfinished))
        fields: JsonObject = {
            "task": task,
            "step": request.step,
            "outcome": known.status,
            "already_done": record is None,
            "result": request.result,
            "progress": progress_of(fold),
            "next_step": next_step,
            "revision": fold.seq,
            "conflicts": strict_json.apart(answers.conflicts(change, fold, record))
            if change
            else [],
            "warnings": self._warnings(fold, new_step=request.step),
            "hint": hint,
            "place": decision.found.get("already"),
        }
        return _Told(
            Marked, fields, fold, self._belief(task), record, change, fold.paused_by_person
        )

    def _next_step(self, fold: Fold) -> str:
        # After damage whatever is pending is in doubt, and nothing is to be begun unseen.
        return "" if fold.doubts_all else next(iter(fold.pending), "")

    async def _keep_refused(self, task: str, request: MarkRequest, error: ClaimReplaced) -> None:
        """A result that came too late is somebody's work all the same."""
        limits = self._desk.settings.limits
        refused = [request.result, request.claim]
        try:
            strict_json.check(
                refused, "result", max_bytes=limits.result_bytes, max_depth=limits.depth + 1
            )
        except HoldfastError:
            error.hint = (
                "Do not act on this step any more; load_checkpoint shows where it stands. "
                "What you sent was over the limit or no JSON, and was not kept."
            )
            return
        said = {
            "task": task,
            "step": request.step,
            "outcome": request.outcome,
            "result": request.result,
            "claim": request.claim,
            "refused": str(error),
            "by": self.by,
            "at": stamp(self._desk.clock()),
        }
        name = f"{ids.folder_name(request.step)}-{self._desk.new_id()[:8]}.json"
        await self._desk.engine.keep(task, "conflicts", name, strict_json.pretty(said))

    # --- begin_step ---------------------------------------------------------------------------

    async def begin(
        self, task: str, step: str = "", *, claim: str = "", retry: bool = False
    ) -> Begun:
        """Ask for a step before its effect, so that a crash leaves a doubt and not a repetition."""
        self._memory.meet(task).last_save = None
        request = BeginRequest(step, claim, retry)

        def answer(fold: Fold, decision: Decision, record: Record | None) -> _Told[Begun]:
            fields = self._begun(task, fold, decision.found)
            return _Told(
                Begun, fields, fold, self._belief(task), record, None, fold.paused_by_person
            )

        def learn(told: _Told[Begun]) -> None:
            self._learn(task, told)
            if told.record is not None:
                self._believe(task, told)
                self._belief(task).claims[told.fields["step"]] = told.fields["claim"]

        told = await self._write(
            task,
            lambda fold, context: decide_begin(fold, request, self._belief(task), context),
            answer,
            learn,
        )
        place: Place | None = told.fields["place"]
        if place is None:
            return told.answer
        ending = await self._desk.ending_of(task, told.answer.step, place, told.seq)
        return told.answer.model_copy(update={"result": ending.body.get("result")})

    def _begun(self, task: str, fold: Fold, found: dict[str, Any]) -> JsonObject:
        known = fold.steps.get(found["step"])
        held = found.get("held")
        attempts = known.attempts if known else 0
        hint = hints.after_begin(found["status"], go=found["go"])
        if found["status"] == "nothing_left":
            hint += hints.after_step("", unfinished=len(fold.unfinished))
        if attempts >= _MANY_ATTEMPTS:
            hint += hints.ATTEMPTS.format(attempts=attempts)
        return {
            "task": task,
            "go": found["go"],
            "status": found["status"],
            "step": found["step"],
            "claim": found.get("claim", ""),
            "idempotency_key": found.get("key", ""),
            "attempts": attempts,
            "held_by": held.by if held else "",
            "until": stamp(held.until) if held else found.get("until", ""),
            "revision": fold.seq,
            "warnings": self._warnings(fold, new_step=found["step"]),
            "hint": hint,
            "place": found.get("already"),
        }

    # --- ask_human, finish_task ---------------------------------------------------------------

    async def ask(
        self,
        task: str,
        question: str,
        options: Sequence[str] = (),
        *,
        step: str = "",
        expires_in_hours: float = 0,
    ) -> Asked:
        """Ask a person; asked again, the answer if there is one."""
        self._memory.meet(task).last_save = None
        if isinstance(options, str):
            raise InvalidValue("options", "it must be a list of answers to choose from")
        request = AskRequest(question, tuple(options), step, expires_in_hours)

        def answer(fold: Fold, decision: Decision, record: Record | None) -> _Told[Asked]:
            asked = answers.asked(fold, decision.found["question"], self._desk.clock())
            return _Told(Asked, asked.model_dump(), fold, self._belief(task), record)

        def learn(told: _Told[Asked]) -> None:
            self._meet(task, told)
            told.tell()

        told = await self._write(
            task,
            lambda fold, context: decide_ask(fold, request, self._belief(task), context),
            answer,
            learn,
        )
        return told.answer

    async def finish(self, task: str, outcome: str = "done", summary: str = "") -> Finished:
        """End the run (done, abandoned) or lay it down (paused, failed)."""
        self._memory.meet(task).last_save = None

        def answer(fold: Fold, decision: Decision, record: Record | None) -> _Told[Finished]:
            return _Told(
                Finished, answers.finished(fold).model_dump(), fold, self._belief(task), record
            )

        def learn(told: _Told[Finished]) -> None:
            self._meet(task, told)
            told.tell()

        told = await self._write(
            task,
            lambda fold, context: decide_finish(fold, outcome, summary, context),
            answer,
            learn,
        )
        if told.answer.status in ("done", "abandoned"):
            await pruning.retain(self._desk, self._people, task)
        return told.answer

    # --- list_checkpoints, prune --------------------------------------------------------------

    async def list_checkpoints(
        self,
        task: str = "",
        *,
        show: str = "checkpoints",
        status: str = "",
        limit: int = 20,
        cursor: str = "",
    ) -> Listing:
        """List tasks, or one task's checkpoints, steps or events."""
        if task:
            ids.check_id("task", task)
            await self._people.look(task)
        return await listing.page(
            self._desk, task, show=show, status=status, limit=limit, cursor=cursor
        )

    async def prune(
        self,
        task: str,
        keep_last: int = 20,
        older_than_hours: float = 24,
        *,
        dry_run: bool = False,
    ) -> Pruned:
        """Let go of old checkpoints; what goes can be restored for a day."""
        return await pruning.prune(
            self._desk,
            self._people,
            self._author,
            task,
            keep_last=keep_last,
            older_than_hours=older_than_hours,
            dry_run=dry_run,
        )


def _state_to_take(fold: Fold) -> Taken:
    if fold.run:
        require_state(fold)
        newest = fold.checkpoints.get(fold.checkpoint)
        if newest is not None and not newest.readable and fold.state_seq < newest.seq:
            why = "its record is damaged; load_checkpoint gives what was saved before it"
            raise Unavailable(fold.checkpoint, why)
    return Taken(fold.snapshot, fold.run, fold.seq, fold.is_closed)


def _refuse_of_another_run(revision: int, opened: int) -> None:
    """A state of an earlier run is nothing to build on in this one."""
    if 0 < revision < opened:
        raise InvalidValue("revision", _OVER)


def _brief_apart(brief: JsonObject) -> Brief:
    """Make up a brief of objects that are nobody else's."""
    state = brief.pop("state")
    state = state.apart() if isinstance(state, Snapshot) else strict_json.apart(state)
    return Brief.model_validate(strict_json.apart(brief) | {"state": state})
