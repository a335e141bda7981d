"""Every state that a power cut may leave of a file system in memory.

Of data that was not flushed nothing may be there, or half, or its length with zeros, or all; of what was
written over bytes that were there, any part of the sectors. Of names
that were not flushed any part may be there: up to eight pending moves every subset, beyond that subsets
chosen by seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from random import Random

from tests.torture.memory_disk import SECOND, File, FileSystem, Folder, Node, apply_move, written

_PAGE = 4096
_SECTOR = 512
_SCATTERED = 3
_ALL_SUBSETS = 8
_SAMPLED_SUBSETS = 256

# For each folder which of its pending moves happened, for each file the bytes that are left.
Cut = tuple[dict[int, int], dict[int, bytes]]


def cuts(fs: FileSystem, random: Random, at_most: int) -> Iterator[Cut]:
    """Give the cuts possible now: all of them if they are few, else extremes and a sample."""
    folders, files = _unflushed(fs)
    masks = [_masks(len(folder.moves), random) for folder in folders]
    kinds = [_left(file, random) for file in files]
    numbers = [node.number for node in (*folders, *files)]

    def as_cut(chosen: tuple[int | bytes, ...]) -> Cut:
        named = dict(zip(numbers, chosen, strict=True))
        return (
            {number: one for number, one in named.items() if isinstance(one, int)},
            {number: one for number, one in named.items() if isinstance(one, bytes)},
        )

    choices: list[Sequence[int | bytes]] = [*masks, *kinds]
    if prod(map(len, choices)) <= at_most:
        yield from map(as_cut, product(*choices))
        return
    # None or all of the names, with none or all of the data: the classic mistakes show here.
    for name, datum in product((0, -1), (0, -1)):
        yield as_cut((*(mask[name] for mask in masks), *(kind[datum] for kind in kinds)))
    for _ in range(at_most - 4):
        yield as_cut(tuple(random.choice(choice) for choice in choices))


def harshest(fs: FileSystem) -> Cut:
    """Give the cut that spares nothing but what was flushed."""
    folders, files = _unflushed(fs)
    return {folder.number: 0 for folder in folders}, {file.number: file.saved for file in files}


def _unflushed(fs: FileSystem) -> tuple[list[Folder], list[File]]:
    """Find what could be told apart: everything reachable before or after that is not flushed."""
    folders: list[Folder] = []
    files: list[File] = []
    seen: set[int] = set()
    ahead: list[Node] = [fs.root]
    while ahead:
        node = ahead.pop()
        if node.number in seen:
            continue
        seen.add(node.number)
        if isinstance(node, Folder):
            if node.moves:
                folders.append(node)
            ahead += node.entries.values()
            ahead += node.saved.values()
        elif isinstance(node, File) and node.writes:
            files.append(node)
    return folders, files


def _masks(count: int, random: Random) -> list[int]:
    """Give subsets of so many moves as bits, the empty one first and the full one last."""
    if count <= _ALL_SUBSETS:
        return list(range(1 << count))
    full = (1 << count) - 1
    return [0, *(random.randrange(full) for _ in range(_SAMPLED_SUBSETS - 2)), full]


def _left(file: File, random: Random) -> list[bytes]:
    """Give what may be left of a file, nothing of the new first and all of it last."""
    zeros = file.saved + bytes(max(0, len(file.data) - len(file.saved)))
    scattered = [_scattered(file, random) for _ in range(_SCATTERED)]
    found = [file.saved, _half(file), zeros, *scattered, file.data]
    return list(dict.fromkeys(found)) if len(set(found)) > 1 else [file.saved]


def _scattered(file: File, random: Random) -> bytes:
    """Let some of the sectors happen that were written over; behind them nothing, zeros or all."""
    old, new = file.saved, file.data
    if len(new) < len(old):
        return new
    sectors = range(0, len(old), _SECTOR)
    mixed = b"".join(random.choice((old, new))[at : at + _SECTOR] for at in sectors)[: len(old)]
    behind = new[len(old) :]
    return mixed + random.choice((b"", bytes(len(behind)), behind))


def _half(file: File) -> bytes:
    """Let the first half of the writes happen; of a single one half its bytes, pages being whole."""
    done = len(file.writes) // 2
    data = file.saved
    for offset, raw in file.writes[:done]:
        data = written(data, offset, raw)
    offset, raw = file.writes[done]
    if raw:
        size = len(raw) // 2
        data = written(data, offset, raw[: size - size % _PAGE if size > _PAGE else size])
    return data


def after(fs: FileSystem, cut: Cut, seconds: float = 5.0) -> tuple[FileSystem, int]:
    """Start the machine again after a cut; also gives a number that is the same for the same files."""
    masks, data = cut
    found = FileSystem(boot=fs.boot + 1, now_ns=fs.now_ns + int(seconds * SECOND))
    found.last_number = fs.last_number
    copies: dict[int, Node] = {}
    marks: list[tuple[str, bytes | int]] = []

    def copy(node: Node, path: str) -> Node:
        known = copies.get(node.number)
        if known is None:
            known = copies[node.number] = _copied(node, data)
            known.links = 0
            if isinstance(node, Folder):
                fill(known, node, path)
        known.links += 1
        marks.append((path, known.data if isinstance(known, File) else 0))
        return known

    def fill(made: Node, node: Folder, path: str) -> None:
        assert isinstance(made, Folder)
        entries = dict(node.saved)
        mask = masks.get(node.number, 0)
        for place, changes in enumerate(node.moves):
            if mask >> place & 1:
                apply_move(entries, changes)
        for name, child in entries.items():
            made.entries[name] = copy(child, f"{path}/{name}")
        made.saved = dict(made.entries)

    root = copy(fs.root, "")
    assert isinstance(root, Folder)
    found.root = root
    return found, hash(tuple(marks))


def _copied(node: Node, data: dict[int, bytes]) -> Node:
    if isinstance(node, File):
        file = File(node.number, node.mode, node.mtime_ns, data.get(node.number, node.saved))
        file.ctime_ns = node.ctime_ns
        return file
    return Folder(node.number, node.mode, node.mtime_ns)
