"""The states that a power cut may leave: every effect since its last flush is there, or half, or not."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random

from tests.torture.model.nodes import PAGE, Effect, File, FileImage, Folder, Node, Tree

# Up to so many changes of names, every subset is tried; beyond, as many are drawn by the seed.
ALL_SUBSETS = 8
_MANY = 1 << 30


@dataclass(slots=True)
class Image:
    """One state, and how it came about."""

    tree: Tree
    key: int
    # Lines may stand in the journal that nobody wrote: a page of zeros where a line should be.
    is_garbled: bool = False
    # Nothing is missing: as after a kill, when the system went on.
    is_whole: bool = False


@dataclass(slots=True)
class _Version:
    data: bytes
    is_garbled: bool = False


@dataclass(slots=True)
class _Choice:
    """Which changes of names happened, and which version each file has."""

    changes: set[int] = field(default_factory=set[int])
    versions: dict[int, _Version] = field(default_factory=dict[int, "_Version"])
    is_garbled: bool = False


def images(root: Folder, random: Random, most: int = _MANY) -> Iterator[Image]:
    """Give the states, each once: the extremes first, then the others in an order drawn by the seed."""
    seen: set[int] = set()
    for image in _images(root, random):
        if image.key not in seen:
            seen.add(image.key)
            yield image
            if len(seen) >= most:
                return


def _images(root: Folder, random: Random) -> Iterator[Image]:
    changes = _pending_changes(root)
    for subset in _subsets(changes, random):
        choice = _Choice(changes=subset)
        is_all = len(subset) == len(changes)
        moving = [file for file in _files(root, choice) if file.pending]
        for versions in _combined([_versions(file, random) for file in moving], random):
            choice.versions = {
                id(file): version for file, version in zip(moving, versions, strict=True)
            }
            choice.is_garbled = False
            tree = _tree(root, choice)
            whole = is_all and all(
                version.data == file.data for file, version in zip(moving, versions, strict=True)
            )
            yield Image(tree, key_of(tree), is_garbled=choice.is_garbled, is_whole=whole)


# --- names ------------------------------------------------------------------------------------


def _pending_changes(root: Folder) -> list[list[int]]:
    """Give the changes that are not durable; those of a folder nobody relies on as one."""
    found: list[list[int]] = []
    for name, folder in _folders(root):
        one_by_one = [[id(change)] for change in folder.pending]
        found += [sum(one_by_one, [])] if name == ".alive" and one_by_one else one_by_one
    return found


def _folders(root: Folder) -> list[tuple[str, Folder]]:
    """Give every folder that there may be after a power cut."""
    found: list[tuple[str, Folder]] = []
    waiting, known = [("", root)], {id(root)}
    while waiting:
        name, folder = waiting.pop()
        found.append((name, folder))
        sources = [folder.durable, folder.entries, *folder.pending]
        for below, node in (one for source in sources for one in source.items()):
            if isinstance(node, Folder) and id(node) not in known:
                known.add(id(node))
                waiting.append((below, node))
    return found


def _subsets(changes: Sequence[list[int]], random: Random) -> Iterator[set[int]]:
    every = sum(changes, [])
    yield set(every)
    if not changes:
        return
    yield set()
    count = 1 << len(changes)
    if len(changes) <= ALL_SUBSETS:
        masks = list(range(1, count - 1))
        random.shuffle(masks)
    else:
        # Prefixes first: most disks keep the order.
        masks = [(1 << length) - 1 for length in range(1, len(changes))]
        masks += [random.randrange(1, count - 1) for _ in range(1 << ALL_SUBSETS)]
    for mask in masks:
        yield {one for n, change in enumerate(changes) if mask >> n & 1 for one in change}


def _entries(folder: Folder, choice: _Choice) -> dict[str, Node]:
    entries = dict(folder.durable)
    for change in folder.pending:
        if id(change) in choice.changes:
            for name, node in change.items():
                entries.pop(name, None)
                if node is not None:
                    entries[name] = node
    return entries


def _files(root: Folder, choice: _Choice) -> list[File]:
    found: dict[int, File] = {}
    waiting = [root]
    while waiting:
        for node in _entries(waiting.pop(), choice).values():
            if isinstance(node, Folder):
                waiting.append(node)
            elif isinstance(node, File):
                found[id(node)] = node
    return list(found.values())


# --- bytes ------------------------------------------------------------------------------------


def _versions(file: File, random: Random) -> list[_Version]:
    """Give a file as its writes left it, in order, the last of them absent, in part or whole."""
    whole = [file.durable]
    parts: list[_Version] = []
    for effect in file.pending:
        parts += _parts(effect, whole[-1], random)
        whole.append(effect.on(whole[-1]))
    versions = [_Version(file.data), _Version(file.durable)]
    versions += [_Version(data) for data in whole[1:]]
    between = [*versions[2:], *parts]
    random.shuffle(between)
    # What came before a flush that failed may be missing while what came after it is there.
    return versions[:2] + between[:12]


def _parts(effect: Effect, before: bytes, random: Random) -> list[_Version]:
    raw = effect.raw
    if raw is None or len(raw) < 2:
        return []
    half = len(raw) // 2
    cuts = {half, random.randrange(1, len(raw)), len(raw) - 1}
    if len(raw) > PAGE:
        cuts.add(PAGE)
    parts = [_Version(Effect(effect.offset, raw[:cut]).on(before)) for cut in sorted(cuts)]
    # The length reached the disk before the bytes did; of two pages either may be first.
    zeros = (bytes(len(raw)), bytes(half) + raw[half:], raw[:half] + bytes(len(raw) - half))
    return parts + [_Version(Effect(effect.offset, part).on(before), True) for part in zeros]


def _combined(
    versions: Sequence[Sequence[_Version]], random: Random
) -> Iterator[tuple[_Version, ...]]:
    yield tuple(each[0] for each in versions)
    if not versions:
        return
    yield tuple(each[1] for each in versions)
    count = 1
    for each in versions:
        count *= len(each)
    if count <= 64:
        every = list(product(*versions))
        random.shuffle(every)
        yield from every
        return
    for _ in range(64):
        yield tuple(random.choice(each) for each in versions)


# --- the whole --------------------------------------------------------------------------------


def _tree(folder: Folder, choice: _Choice) -> Tree:
    tree = Tree()
    for name, node in _entries(folder, choice).items():
        if isinstance(node, Folder):
            tree.folders[name] = _tree(node, choice)
        elif isinstance(node, File):
            version = choice.versions.get(id(node))
            data = version.data if version else node.durable
            if version and version.is_garbled and name.endswith(".jsonl"):
                choice.is_garbled = True
            permissions = stat.S_IMODE(node.mode)
            tree.files[name] = FileImage(node.number, data, permissions, node.mtime_ns)
    return tree


def key_of(tree: Tree) -> int:
    """Give a number by which the same state is known again."""
    files = frozenset((name, file.data) for name, file in tree.files.items())
    folders = frozenset((name, key_of(below)) for name, below in tree.folders.items())
    return hash((files, folders))
