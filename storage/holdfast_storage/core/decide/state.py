"""What becomes of the state when a caller sends some: merged by path, nothing lost unnoticed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast_storage.core import delta, merge, strict_json
from holdfast_storage.core.cuts import uncut
from holdfast_storage.core.decide.context import Belief, Context
from holdfast_storage.core.delta import MISSING
from holdfast_storage.core.errors import InvalidValue, LoadFirst, TooLarge, WouldDrop
from holdfast_storage.core.fold import Changed, Fold
from holdfast_storage.core.merge import Clash, Merged
from holdfast_storage.core.strict_json import JsonObject, pointer


@dataclass(frozen=True, slots=True)
class StateRequest:
    """The part of a save or a step that touches the state."""

    state: JsonObject | None = None
    replace: bool = False
    append: Mapping[str, list[Any]] | None = None
    # The state at the revision the caller says it builds on, in place of what it believes.
    base: JsonObject | None = None
    # What `strict_json.check` made of the state when it was sent, if anybody has asked it to.
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class StateChange:
    """The state as it will be, what the caller now believes, and what stood in the way."""

    value: JsonObject
    believed: JsonObject | None
    clashes: tuple[Clash, ...] = ()
    repeats: tuple[Clash, ...] = ()
    raw: bytes = b""  # the value, encoded, where that is known
    # The only keys that can have another value than in the fold's state, which the caller knew, in the
    # order they were sent; None if it may be any.
    touched: tuple[str, ...] | None = None


def change_state(
    fold: Fold, request: StateRequest, belief: Belief, context: Context, *, opens: bool
) -> StateChange:
    """Merge what the caller sends into what is there."""
    current: JsonObject = {} if opens else fold.state
    base = current if opens else _base(fold, request, belief)
    wanted, added = base, 0
    repeats: tuple[Clash, ...] = ()
    raw = b""
    patch: JsonObject = {}
    if request.state is not None:
        raw = _encoded(request.state, "state", context, request.raw)
        added += len(raw)
        patch = request.state
        # The first is much the quicker to find out.
        if b"$" in raw and b'"$' in raw:
            patch = uncut(patch, base, "state")
        wanted = patch if request.replace else merge.merge_patch(base, patch)
        if base is not current:
            repeats = merge.repeats(base, current, patch, nulls_remove=not request.replace)
    if request.replace:
        _refuse_to_drop_unseen(fold.task, current, wanted, belief)
    if base is current:
        # Nobody else wrote: the usual case, and nothing to be compared.
        merged = Merged(wanted, ())
    else:
        merged = merge.three_way(base, current, wanted, prefer="current")
    value, believed = merged.value, wanted
    if request.append:
        added += len(_encoded(request.append, "append", context))
        value = merge.append(value, request.append)
        believed = merge.append(believed, _fitting(believed, request.append))
    _check_total(value, 2 if opens else fold.state_bytes, added, context)
    remembers = belief.state is not None and belief.run == fold.run
    knows = opens or request.state is not None or remembers
    is_as_sent = value is request.state
    is_patched = base is current is belief.state and not opens and not request.replace
    return StateChange(
        value,
        believed if knows else None,
        merged.clashes,
        repeats,
        raw=raw if is_as_sent else b"",
        touched=(*patch, *(request.append or ())) if is_patched else None,
    )


def _base(fold: Fold, request: StateRequest, belief: Belief) -> JsonObject:
    if request.base is not None:
        return request.base
    if belief.state is not None and belief.run == fold.run:
        return belief.state
    if request.state is not None and fold.checkpoints:
        raise LoadFirst(fold.task, fold.checkpoint)
    # Nobody saved yet, or only an append was sent, which fits whatever is there.
    return fold.state if request.state is None else {}


def _fitting(believed: JsonObject, additions: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Leave out what the caller's own memory has no list for: it is not sure of that key anyway."""
    return {
        key: items for key, items in additions.items() if isinstance(believed.get(key, []), list)
    }


def _refuse_to_drop_unseen(
    task: str, current: JsonObject, wanted: JsonObject, belief: Belief
) -> None:
    if current.keys() <= wanted.keys():
        return
    unseen = [key for key in current if key not in wanted and key not in belief.shown]
    if unseen:
        raise WouldDrop(task, unseen)


def _encoded(value: Any, where: str, context: Context, raw: bytes = b"") -> bytes:
    limits = context.settings.limits
    if type(value) is not dict:
        raise InvalidValue(where, "it must be a JSON object")
    return raw or strict_json.check(
        value, where, max_bytes=limits.state_bytes, max_depth=limits.depth
    )


def _check_total(value: JsonObject, before: int, added: int, context: Context) -> None:
    """Encode the whole state only if the sum of what was added could be over the limit."""
    limit = context.settings.limits.state_bytes
    if before + added <= limit:
        return
    size = len(strict_json.encode(value))
    if size > limit:
        raise TooLarge("state", size, limit)


def lost_values(clashes: tuple[Clash, ...], fold: Fold, context: Context) -> list[JsonObject]:
    """Describe the values that did not make it, as they stand in a record."""
    return [
        {
            "id": f"{context.id[:8]}-{number}",
            "path": "/state" + pointer(clash.path),
            "kept_by": last_writer(fold, "/state" + pointer(clash.path)),
            "lost_by": context.by,
            "file": f"conflicts/{context.id[:8]}-{number}.json",
            **({} if clash.wanted is MISSING else {"lost": clash.wanted}),
        }
        for number, clash in enumerate(clashes, 1)
    ]


def last_writer(fold: Fold, path: str) -> str:
    """Say who wrote the value that is there, as far as the fold remembers."""
    changed: Changed
    for changed in reversed(fold.changes):
        if changed.path == path or changed.path.startswith(path + "/"):
            return changed.by
        if path.startswith(changed.path + "/") and _has_changed(changed, path):
            return changed.by
    return fold.updated_by


def _has_changed(changed: Changed, path: str) -> bool:
    """Say whether a change that was noted as a whole is one of this value in it."""
    below = delta.path_of(path.removeprefix(changed.path))
    old, new = delta.at(changed.old, below), delta.at(changed.new, below)
    return old is not new and not strict_json.same(old, new)
