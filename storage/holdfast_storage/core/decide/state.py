"""What becomes of the state when a caller sends some: merged by path, nothing lost unnoticed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from holdfast_storage.core import delta, merge, strict_json
from holdfast_storage.core.cuts import RESERVED, uncut
from holdfast_storage.core.decide.context import Belief, Context
from holdfast_storage.core.delta import MISSING
from holdfast_storage.core.errors import (
    HoldfastError,
    InvalidValue,
    LoadFirst,
    TooLarge,
    WouldDrop,
)
from holdfast_storage.core.fold import Changed, Fold
from holdfast_storage.core.merge import Clash, Merged
from holdfast_storage.core.snapshot import Snapshot
from holdfast_storage.core.strict_json import JsonObject, pointer


@dataclass(frozen=True, slots=True)
class StateRequest:
    """The part of a save or a step that touches the state."""

    # As bytes, if `strict_json.check` has made some of it already.
    state: Snapshot | JsonObject | None = None
    replace: bool = False
    append: Mapping[str, list[Any]] | None = None
    # The state at the revision the caller says it builds on, in place of what it believes.
    base: Snapshot | JsonObject | None = None
    # Why nothing of it was kept, if something in it is no JSON or there is too much.
    refusal: HoldfastError | None = None

    @property
    def says_something(self) -> bool:
        """Say whether there is anything in it to be decided on."""
        return self.state is not None or bool(self.append) or self.refusal is not None


@dataclass(frozen=True, slots=True)
class StateChange:
    """The state as it will be, what the caller now believes, and what stood in the way."""

    state: Snapshot
    believed: Snapshot | None
    clashes: tuple[Clash, ...] = ()
    repeats: tuple[Clash, ...] = ()
    # The only keys that can have another value than in the fold's state, which the caller knew, in the
    # order they were sent; None if it may be any.
    touched: tuple[str, ...] | None = None
    # The keys that the caller sent where it did not send all there are: it need not have seen the others.
    said: tuple[str, ...] | None = None

    @property
    def value(self) -> JsonObject:
        """The state as it will be, as objects."""
        return self.state.value


def change_state(
    fold: Fold, request: StateRequest, belief: Belief, context: Context, *, opens: bool
) -> StateChange:
    """Merge what the caller sends into what is there."""
    if request.refusal is not None:
        raise request.refusal
    current = _EMPTY if opens else fold.snapshot
    base = current if opens else _base(fold, request, belief)
    sent = None if request.state is None else Snapshot.of(request.state)
    raw = b"" if sent is None else _encoded(sent, "state", context)
    added = len(raw)
    if sent is not None and _may_be_cut(raw):
        limit = context.settings.limits.state_bytes
        whole: JsonObject = uncut(sent.value, base.value, "state", limit)
        if whole is not sent.value:
            # It may name one large value many times over, and nest what it names deeper each time.
            sent = Snapshot(whole)
            added = len(_encoded(sent, "state", context))
    if request.replace:
        _refuse_to_drop_unseen(fold.task, current, sent or base, belief)
    before = 2 if opens else fold.state_bytes
    remembers = belief.state is not None and belief.run == fold.run
    knows = opens or sent is not None or remembers
    if sent is not None and request.replace and base is current and not request.append:
        # Nobody else wrote, so nothing is compared: not even the objects are needed.
        _check_total(sent, 0 if sent.raw else before, added, context)
        return StateChange(sent, sent)
    merged, wanted, repeats = _merged(request, sent, base.value, current.value)
    value, believed = merged.value, wanted
    if request.append:
        added += len(_encoded(Snapshot.of(cast("JsonObject", request.append)), "append", context))
        value = merge.append(value, request.append)
        believed = merge.append(believed, _fitting(believed, request.append))
    state = current if value is current.value else Snapshot(value)
    _check_total(state, before, added, context)
    is_patched = not opens and (sent is None or not request.replace)
    said = (*(sent.keys if sent else ()), *(request.append or ())) if is_patched else None
    return StateChange(
        state,
        (state if believed is value else Snapshot(believed)) if knows else None,
        merged.clashes,
        repeats,
        touched=said if base is current is belief.state and not request.replace else None,
        said=said,
    )


_EMPTY = Snapshot({})


def _may_be_cut(raw: bytes) -> bool:
    """Say whether there may be reserved keys in there; the first is much the quicker to find out."""
    return b"$" in raw and any(b'"%b"' % name.encode() in raw for name in RESERVED)


def _merged(
    request: StateRequest, sent: Snapshot | None, base: JsonObject, current: JsonObject
) -> tuple[Merged, JsonObject, tuple[Clash, ...]]:
    """Give the state with what was sent in it, what the caller wants, and what it sent as it was."""
    if sent is None:
        wanted = base
    else:
        wanted = sent.value if request.replace else merge.merge_patch(base, sent.value)
    if base is current:
        # Nobody else wrote: the usual case, and nothing to be compared.
        return Merged(wanted, ()), wanted, ()
    repeats: tuple[Clash, ...] = ()
    if sent is not None:
        repeats = merge.repeats(base, current, sent.value, nulls_remove=not request.replace)
    return merge.three_way(base, current, wanted, prefer="current"), wanted, repeats


def _base(fold: Fold, request: StateRequest, belief: Belief) -> Snapshot:
    if request.base is not None:
        return Snapshot.of(request.base)
    if belief.state is not None and belief.run == fold.run:
        return Snapshot.of(belief.state)
    if request.state is not None and fold.checkpoints:
        raise LoadFirst(fold.task, fold.checkpoint)
    # Nobody saved yet, or only an append was sent, which fits whatever is there.
    return fold.snapshot if request.state is None else _EMPTY


def _fitting(believed: JsonObject, additions: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Leave out what the caller's own memory has no list for: it is not sure of that key anyway."""
    return {
        key: items for key, items in additions.items() if isinstance(believed.get(key, []), list)
    }


def _refuse_to_drop_unseen(task: str, current: Snapshot, wanted: Snapshot, belief: Belief) -> None:
    is_all_known = belief.is_all_shown and belief.state is current
    if is_all_known or wanted.is_known_to_have_the_keys_of(current) or current.keys <= wanted.keys:
        return
    unseen = [key for key in current.keys if key not in wanted.keys and key not in belief.shown]
    if unseen:
        raise WouldDrop(task, unseen)


def _encoded(sent: Snapshot, where: str, context: Context) -> bytes:
    limits = context.settings.limits
    if sent.raw:
        return sent.raw
    if type(sent.value) is not dict:
        raise InvalidValue(where, "it must be a JSON object")
    return strict_json.check(
        sent.value, where, max_bytes=limits.state_bytes, max_depth=limits.depth
    )


def _check_total(state: Snapshot, before: int, added: int, context: Context) -> None:
    """Encode the whole state only if the sum of what was added could be over the limit."""
    limit = context.settings.limits.state_bytes
    if before + added <= limit:
        return
    size = len(strict_json.encode(state.value))
    if size > limit:
        raise TooLarge("state", size, limit)


def lost_values(clashes: tuple[Clash, ...], fold: Fold, context: Context) -> list[JsonObject]:
    """Describe the values that did not make it, as they stand in a record."""
    writers = last_writers(fold, ["/state" + pointer(clash.path) for clash in clashes])
    return [
        {
            "id": f"{context.id[:8]}-{number}",
            "path": "/state" + pointer(clash.path),
            "kept_by": writers["/state" + pointer(clash.path)],
            "lost_by": context.by,
            "file": f"conflicts/{context.id[:8]}-{number}.json",
            **({} if clash.wanted is MISSING else {"lost": clash.wanted}),
        }
        for number, clash in enumerate(clashes, 1)
    ]


def last_writers(fold: Fold, paths: Iterable[str]) -> dict[str, str]:
    """Say for each path who wrote the value that is there, as far as the fold remembers.

    For all of them at once: whole states are noted as bytes, and objects are made of each for this.
    """
    found: dict[str, str] = {}
    wanted = dict.fromkeys(paths)
    for changed in reversed(fold.changes):
        if not wanted:
            break
        for path in _written_by(changed, list(wanted)):
            found[path] = changed.by
            del wanted[path]
    return found | dict.fromkeys(wanted, fold.updated_by)


def _written_by(changed: Changed, paths: Iterable[str]) -> Iterator[str]:
    """Give those of these paths whose values this change wrote."""
    whole: tuple[Any, Any] | None = None
    for path in paths:
        if changed.path == path or changed.path.startswith(path + "/"):
            yield path
        elif path.startswith(changed.path + "/"):
            # It was noted as a whole: is it one of this value in it?
            whole = whole or changed.values()
            below = delta.path_of(path.removeprefix(changed.path))
            old, new = (delta.at(value, below) for value in whole)
            if old is not new and not strict_json.same(old, new):
                yield path
