"""The order of planned steps: names given together keep their order, nothing is ever taken out."""

from __future__ import annotations

from collections.abc import Sequence


def reorder(order: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Bring `wanted` into its order within `order`, adding what is new beside its neighbours.

    Names already there exchange places only among themselves, so that adding one step to a plan
    of two hundred neither moves the others nor jumps the queue.
    """
    wanted = list(dict.fromkeys(wanted))
    there = set(order)
    moving = [name for name in wanted if name in there]
    places, names = set(moving), iter(moving)
    arranged = [next(names) if name in places else name for name in order]
    return arranged if len(moving) == len(wanted) else _with_new(arranged, wanted, places)


def _with_new(order: Sequence[str], wanted: Sequence[str], there: set[str]) -> list[str]:
    """Put each new name after the one it follows; those that follow none, before the first."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    leading: list[str] = []
    neighbour = ""
    for name in wanted:
        if name in there:
            if not neighbour:
                before[name], leading = leading, []
            neighbour = name
        elif neighbour:
            after.setdefault(neighbour, []).append(name)
        else:
            leading.append(name)
    arranged: list[str] = []
    for name in order:
        arranged += [*before.get(name, ()), name, *after.get(name, ())]
    return arranged + leading
