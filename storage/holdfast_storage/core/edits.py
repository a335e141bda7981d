"""Read back what a person made of a view, and bring it together with what agents did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast_storage.core import delta, ids, merge, ordering, strict_json
from holdfast_storage.core.cuts import RESERVED
from holdfast_storage.core.decide.context import Context, Decision, check_text, draft
from holdfast_storage.core.decide.people import refuse_unfinished
from holdfast_storage.core.decide.state import last_writers
from holdfast_storage.core.delta import MISSING
from holdfast_storage.core.errors import HoldfastError, InvalidName, Unfinished
from holdfast_storage.core.fold import FINISHED, Fold, IngestedEdit
from holdfast_storage.core.merge import Clash
from holdfast_storage.core.records import Record
from holdfast_storage.core.strict_json import JsonObject, is_array, is_object, pointer
from holdfast_storage.core.view import EDITABLE_KEYS, OWN_KEYS

_STEP_WORDS = ("pending", "done", "failed", "skipped")
_STATUS_WORDS = ("paused", "active", "done", "abandoned")


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file a person saved: its content, when, and the revision it was rendered at."""

    document: JsonObject
    digest: str
    mtime_ns: int
    revision: int
    is_sealed: bool = False


@dataclass(frozen=True, slots=True)
class Base:
    """What a person had before them: the view as it was rendered, with their earlier saves laid over."""

    content: JsonObject
    shown: JsonObject


def is_known(fold: Fold, file: SavedFile) -> bool:
    """Say whether this save is in the journal already, so that nobody takes it in twice."""
    earlier = fold.edits.get(file.revision, [])
    newest = max((edit.mtime_ns for edit in earlier), default=0)
    if file.is_sealed:
        # Our own bytes: an edit only if somebody pressed undo after having saved something else.
        return not earlier or file.mtime_ns <= newest
    if earlier and earlier[-1].digest == file.digest:
        return True
    return any(edit.digest == file.digest for edit in earlier) and file.mtime_ns <= newest


def edits_before(fold: Fold, file: SavedFile) -> list[IngestedEdit]:
    """Give the saves from the same buffer that this one was made on top of."""
    return [edit for edit in fold.edits.get(file.revision, []) if edit.mtime_ns <= file.mtime_ns]


def apply_said(content: JsonObject, record: Record) -> JsonObject:
    """Give what the file of an ingested edit said, from what it was based on.

    Raises ValueError where that cannot be told any more.
    """
    body = record.body
    content = dict(content)
    for name in ("status", "goal", "next"):
        if name in body:
            content[name] = body[name]
    content["state"] = delta.apply(content["state"], body.get("changes", {}))
    for lost in body.get("conflicts", ()):
        content = _with_lost(content, lost, record.by)
    plan: JsonObject = content["plan"] | body.get("steps", {})
    if "plan" in body:
        plan = {name: plan.get(name, "pending") for name in body["plan"]}
    content["plan"] = plan
    content["reopen"] = [*content["reopen"], *body.get("reopen", ())]
    answers = body.get("answers", {})
    content["questions"] = [
        question | {"answer": answers.get(question["id"], question["answer"])}
        for question in content["questions"]
    ]
    extra: JsonObject = body.get("extra", {})
    return content | extra


def _with_lost(content: JsonObject, lost: JsonObject, by: str) -> JsonObject:
    """A value of the person's that did not make it was in the file all the same."""
    was_in_it = lost["lost_by"] == by and "taken_back" not in lost
    path = delta.path_of(lost["path"]) if was_in_it else ()
    if len(path) == 1 and path[0] in ("goal", "next", "status"):
        return content | {path[0]: lost["lost"]}
    if len(path) == 2 and path[0] == "plan":
        return content | {"plan": content["plan"] | {path[1]: lost["lost"]}}
    if path[:1] != ("state",):
        return content
    where = pointer(path[1:])
    changes = {"set": {where: lost["lost"]}} if "lost" in lost else {"drop": [where]}
    try:
        return content | {"state": delta.apply(content["state"], changes)}
    except ValueError:
        return content


# --- taking an edit in ------------------------------------------------------------------------


def decide_edit(fold: Fold, file: SavedFile, base: Base, context: Context) -> Decision:
    """Make a person's save a revision of its own, or find that it says nothing new."""
    if is_known(fold, file):
        return Decision(None)
    reading = _Reading(fold, file, base, context)
    reading.read()
    if not reading.body and not reading.warnings:
        return Decision(None)
    body: JsonObject = {
        "base": file.revision,
        "digest": file.digest,
        "mtime_ns": file.mtime_ns,
        **reading.body,
    }
    if reading.warnings:
        body["warnings"] = reading.warnings
    return Decision(draft(context, "edit", body))


def decide_keep_aside(
    fold: Fold, file: SavedFile, kept_as: str, why: str, context: Context
) -> Decision:
    """Announce a file that could not be merged and lies in conflicts/."""
    if is_known(fold, file):
        return Decision(None)
    lost: JsonObject = {
        "id": f"{context.id[:8]}-1",
        "path": "",
        "kept_by": fold.updated_by,
        "lost_by": context.by,
        "file": kept_as,
    }
    body: JsonObject = {
        "base": file.revision,
        "digest": file.digest,
        "mtime_ns": file.mtime_ns,
        "conflicts": [lost],
        "warnings": [why],
    }
    return Decision(draft(context, "edit", body))


class _Reading:
    """Goes through one saved file, collecting what it changes and what has to be put back."""

    def __init__(self, fold: Fold, file: SavedFile, base: Base, context: Context) -> None:
        self.fold, self.file, self.context = fold, file, context
        self.base, self.shown = base.content, base.shown
        self.theirs = file.document
        self.body: JsonObject = {}
        self.warnings: list[str] = []
        self.lost: list[JsonObject] = []

    def read(self) -> None:
        self._texts()
        self._state()
        self._plan()
        self._reopened()
        self._answers()
        self._status()
        self._unknown_keys()
        if self.lost:
            self.body["conflicts"] = self.lost

    def _put_back(self, what: str, why: str) -> None:
        self.warnings.append(f"{what} was put back: {why}")

    def _lose(self, path: str, value: Any, lost_by: str, **how: bool) -> None:
        number = len(self.lost) + 1
        name = f"{self.context.id[:8]}-{number}"
        self.lost.append(
            {
                "id": name,
                "path": path,
                "kept_by": self.context.by,
                "lost_by": lost_by,
                "file": f"conflicts/{name}.json",
                **({} if value is MISSING else {"lost": value}),
                **how,
            }
        )

    def _is_older_than(self, path: str) -> bool:
        """Say whether the value there came from an edit that was saved after this one."""
        return any(
            mtime_ns > self.file.mtime_ns
            for edited, mtime_ns in self.fold.edited_paths.items()
            if edited == path or edited.startswith(path + "/") or path.startswith(edited + "/")
        )

    def _yields(self, path: str, new: Any, before: Any, shown: Any) -> bool:
        """Give way to what was saved after this; keep what this takes back of an earlier save."""
        if self._is_older_than(path):
            self._lose(path, new, self.context.by)
            return True
        if strict_json.same(new, shown) and not strict_json.same(before, shown):
            self._lose(path, before, self.context.by, taken_back=True)
        return False

    # --- section by section -------------------------------------------------------------------

    def _texts(self) -> None:
        for name in ("goal", "next"):
            old: str = self.base[name]
            new: str = self.theirs.get(name, old)
            if strict_json.same(new, old):
                continue
            try:
                check_text(new, name, self.context)
            except HoldfastError as error:
                self._put_back(name, str(error))
                continue
            current, path = getattr(self.fold, name), f"/{name}"
            if current == new or self._yields(path, new, old, self.shown[name]):
                continue
            if current != old:
                self._lose(path, current, last_writers(self.fold, [path])[path])
            self.body[name] = new

    def _state(self) -> None:
        theirs = self.theirs.get("state", self.base["state"])
        if not is_object(theirs):
            return self._put_back("state", "it must be an object")
        # A graph's state has marked values in it, which a person may change like all else.
        reserved = ("$cut",) if _has_any(self.base["state"], ("$enc",)) else RESERVED
        if _has_any(theirs, reserved):
            return self._put_back("state", f"the keys {' and '.join(RESERVED)} are reserved")
        if not self._fits(theirs):
            return None
        current = self.fold.state
        merged = merge.three_way(self.base["state"], current, theirs, prefer="wanted")
        value = merged.value
        paths = ["/state" + pointer(clash.path) for clash in merged.clashes]
        writers = last_writers(self.fold, paths)
        for clash in merged.clashes:
            value = self._settle(clash, value, writers)
        changes = delta.diff(current, value)
        if merged.clashes:
            # Items added to the agent's list are not what the person added to the one they saw.
            added = {path: delta.at(value, delta.path_of(path)) for path in changes.pop("add", {})}
            changes = {**changes, "set": changes.get("set", {}) | added}
        if changes:
            self.body["changes"] = changes
            self._keep_taken_back(changes, value)
        return None

    def _keep_taken_back(self, changes: delta.Changes, value: JsonObject) -> None:
        """Two people had one view open: what the later save takes back of the earlier is kept."""
        for where in delta.paths(changes):
            path = delta.path_of(where)
            shown, before = delta.at(self.shown["state"], path), delta.at(self.base["state"], path)
            is_taken_back = strict_json.same(delta.at(value, path), shown)
            if is_taken_back and not strict_json.same(before, shown):
                self._lose("/state" + where, before, self.context.by, taken_back=True)

    def _fits(self, theirs: JsonObject) -> bool:
        limits = self.context.settings.limits
        try:
            strict_json.check(theirs, "state", max_bytes=limits.state_bytes, max_depth=limits.depth)
        except HoldfastError as error:
            self._put_back("state", str(error))
            return False
        return True

    def _settle(self, clash: Clash, value: JsonObject, writers: Mapping[str, str]) -> JsonObject:
        """The person's value stands, unless a person saved another one later."""
        path = "/state" + pointer(clash.path)
        if not self._is_older_than(path):
            self._lose(path, clash.current, writers[path])
            return value
        self._lose(path, clash.wanted, self.context.by)
        where = pointer(clash.path)
        if clash.current is MISSING:
            return delta.apply(value, {"drop": [where]})
        return delta.apply(value, {"set": {where: clash.current}})

    def _plan(self) -> None:
        theirs, base = self.theirs.get("plan", self.base["plan"]), self.base["plan"]
        if not is_object(theirs):
            return self._put_back("plan", "it must be an object of step names")
        steps: JsonObject = {}
        names: list[str] = []
        for name, word in theirs.items():
            if not self._is_step_name(name):
                continue
            names.append(name)
            if strict_json.same(word, base.get(name, "pending")):
                continue
            if word in _STEP_WORDS:
                steps[name] = word
            elif word not in ("running", "in_doubt"):
                self._put_back(f"plan: {name}", f"write one of {', '.join(_STEP_WORDS)}")
        self._add_steps(names, self._still_open(steps), base)
        return None

    def _add_steps(self, names: list[str], steps: JsonObject, base: JsonObject) -> None:
        old_order = [name for name in base if name in names]
        if [name for name in names if name in base] != old_order or set(names) - base.keys():
            wanted = [name for name in names if name in base or name not in self.fold.steps]
            if ordering.reorder(self.fold.order, wanted) != self.fold.order:
                self.body["plan"] = wanted
        if steps:
            self.body["steps"] = steps

    def _still_open(self, steps: JsonObject) -> JsonObject:
        """A step that was finished since the person looked stays finished: use reopen."""
        kept: JsonObject = {}
        for name, word in steps.items():
            status = self.fold.status_of(name, self.context.now, self.context.gone)
            if status == "running" and word == "pending":
                self._put_back(f"plan: {name}", "somebody is at work on it; release it first")
            elif status == "done" and word != "done":
                self._put_back(f"plan: {name}", "it was done meanwhile; write its name into reopen")
            elif status != word and not self._step_yields(name, word):
                kept[name] = word
        return kept

    def _step_yields(self, name: str, word: str) -> bool:
        before, shown = self.base["plan"].get(name), self.shown["plan"].get(name)
        return self._yields("/plan" + pointer([name]), word, before, shown)

    def _is_step_name(self, name: str) -> bool:
        try:
            ids.check_id("step", name)
        except InvalidName as error:
            self._put_back("plan", str(error))
            return False
        return True

    def _reopened(self) -> None:
        theirs = self.theirs.get("reopen", [])
        if not is_array(theirs):
            return self._put_back("reopen", "it must be a list of step names")
        names: list[str] = []
        for name in theirs:
            if name in self.base["reopen"]:
                continue
            known = self.fold.steps.get(name) if isinstance(name, str) else None
            if known is None:
                self.warnings.append(f"reopen: there is no step {str(name)[:80]!r}")
            elif known.status in FINISHED or known.status == "failed":
                names.append(name)
            elif known.status != "pending":
                self._put_back(f"reopen: {name}", "it is not finished; say in plan what happened")
        if names:
            self.body["reopen"] = list(dict.fromkeys(names))
        return None

    def _answers(self) -> None:
        theirs = self.theirs.get("questions", [])
        if not is_array(theirs):
            return self._put_back("questions", "it must be a list")
        before = {question["id"]: question["answer"] for question in self.base["questions"]}
        answers: JsonObject = {}
        for question in theirs:
            if not is_object(question) or question.get("answer") is None:
                continue
            name, answer = question.get("id"), question["answer"]
            if not isinstance(name, str) or name not in self.fold.questions:
                self.warnings.append("questions: an answer names no question that was asked")
            elif not strict_json.same(answer, before.get(name)):
                answers[name] = answer
        self._take_answers(answers)
        return None

    def _take_answers(self, answers: JsonObject) -> None:
        limits = self.context.settings.limits
        for name, answer in answers.items():
            try:
                strict_json.check(
                    answer, "answer", max_bytes=limits.text_bytes, max_depth=limits.depth
                )
            except HoldfastError as error:
                self._put_back(f"questions: {name}", str(error))
                continue
            if not self._yields(f"/questions/{name}/answer", answer, None, None):
                self.body.setdefault("answers", {})[name] = answer

    def _status(self) -> None:
        new, old = self.theirs.get("status", self.base["status"]), self.base["status"]
        is_held = self.fold.paused_by_person or new != "paused"
        if strict_json.same(new, old) or (new == self.fold.status and is_held):
            return None
        if new not in _STATUS_WORDS:
            return self._put_back("status", f"write one of {', '.join(_STATUS_WORDS)}")
        if new == "done" and not self._is_all_done():
            return None
        if not self._yields("/status", new, old, self.shown["status"]):
            self.body["status"] = new
        return None

    def _is_all_done(self) -> bool:
        left = Fold(self.fold.task, unfinished=self.fold.unfinished.copy())
        added = [name for name in self.body.get("plan", ()) if name not in self.fold.steps]
        left.unfinished.update(dict.fromkeys([*added, *self.body.get("reopen", ())]))
        for name, word in self.body.get("steps", {}).items():
            if word in FINISHED:
                left.unfinished.pop(name, None)
            else:
                left.unfinished[name] = None
        answered: Sequence[str] = list(self.body.get("answers", {}))
        left.questions = {
            name: question for name, question in self.fold.questions.items() if name not in answered
        }
        try:
            refuse_unfinished(left, self.context)
        except Unfinished as error:
            self._put_back("status", str(error))
            return False
        return True

    def _unknown_keys(self) -> None:
        theirs, current = _unknown(self.theirs), self.fold.extra
        merged = merge.three_way(_unknown(self.base), current, theirs, prefer="wanted")
        extra = merged.value
        if strict_json.same(extra, current) or not self._may_keep(extra):
            return
        for clash in merged.clashes:
            self._lose(pointer(clash.path), clash.current, self.context.by, taken_back=True)
        self.body["extra"] = extra
        if new := [key for key in extra if key not in current]:
            self.warnings.append(f"unknown keys are kept and mean nothing: {', '.join(new)[:200]}")

    def _may_keep(self, extra: JsonObject) -> bool:
        limits = self.context.settings.limits
        try:
            strict_json.check(
                extra, "unknown keys", max_bytes=limits.result_bytes, max_depth=limits.depth
            )
        except HoldfastError as error:
            self._put_back("unknown keys", str(error))
            return False
        return True


def _unknown(document: JsonObject) -> JsonObject:
    known = {*EDITABLE_KEYS, *OWN_KEYS}
    return {key: value for key, value in document.items() if key not in known}


def _has_any(value: Any, keys: tuple[str, ...]) -> bool:
    """Say whether one of these keys stands anywhere in it."""
    if is_object(value):
        return any(key in value for key in keys) or any(_has_any(it, keys) for it in value.values())
    return is_array(value) and any(_has_any(it, keys) for it in value)
