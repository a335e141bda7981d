"""Keep names readable for people, safe as file names, and hard to mistake for one another."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import sha256
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, cast

from holdfast_storage.core.errors import InvalidName

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES = 512

_FORBIDDEN = (
    (
        re.compile("[\ud800-\udfff]"),
        "half a surrogate pair is not text; write the whole character or remove it",
    ),
    (
        re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]"),
        "a name is one line without control characters; remove {}",
    ),
    (
        re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"),
        "{} changes the direction of writing, so the name reads differently than it is; remove it",
    ),
    (
        re.compile(
            "[\u00ad\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\ufeff\U000e0001-\U000e007f]"
        ),
        "{} cannot be seen, so two names would look the same; remove it",
    ),
)

# What most names are made of, none of it forbidden.
_PLAIN_NAME = re.compile(r"[\w.:/@#+~-]{1,200}", re.ASCII)
_FOLDER_NAME = re.compile("[a-z0-9][a-z0-9_-]{0,63}")
# Windows opens a device instead of a file of this name, in any folder.
_DEVICES = frozenset({"con", "prn", "aux", "nul"}) | {
    device + digit for device in ("com", "lpt") for digit in "0123456789"
}
_SLUG_LENGTH = 40

_SEPARATOR = re.compile(r"[ \-_./:]+")
# Separators with anything but a digit before or after them, and leading zeros.
_INSIGNIFICANT = re.compile(
    r"(?<![0-9])[ \-_./:]+ | [ \-_./:]+(?![0-9 \-_./:]) | (?<![0-9])0+(?=[0-9])", re.VERBOSE
)

# Comparing costs length times length for each name: enough for every real case, not for a hostile one.
_MOST_COMPARED = 2000
_LENGTH_COMPARED = 64
_ALIKE_ENOUGH = 0.6


def check_id(kind: str, name: str) -> str:
    """Give the name back unchanged, or raise InvalidName; `kind` is what it names, as "step"."""
    # Programs without types can give anything.
    if type(name) is not str and not isinstance(cast("object", name), str):
        raise InvalidName(kind, repr(name), "it must be a text")
    if _PLAIN_NAME.fullmatch(name):
        return name
    if not name:
        raise InvalidName(kind, name, "it is empty; give it a name")
    for pattern, problem in _FORBIDDEN:
        if found := pattern.search(name):
            raise InvalidName(kind, name, problem.format(f"U+{ord(found[0]):04X}"))
    if name != name.strip():
        raise InvalidName(kind, name, "remove the white space at its beginning or end")
    size = len(name.encode())
    if size > MAX_BYTES:
        raise InvalidName(kind, name, f"it has {size:,} bytes; shorten it to {MAX_BYTES} or fewer")
    return name


def folder_name(task_id: str) -> str:
    """Give the name of a task's folder: the id itself if it can be one anywhere, else slug and hash."""
    if _FOLDER_NAME.fullmatch(task_id) and task_id not in _DEVICES:
        return task_id
    return f"{_slug(task_id) or 'task'}~{sha256(task_id.encode()).hexdigest()[:16]}"


def checkpoint_file_name(number: int, label: str) -> str:
    """Give the name of a checkpoint's file, which sorts by number and tells the label."""
    slug = _slug(label)
    return f"{number:04d}-{slug}.json" if slug else f"{number:04d}.json"


def _slug(name: str) -> str:
    # Bytes, because lower-casing text follows Unicode tables, which differ between Python versions,
    # and a folder must be found again by all of them.
    words = re.sub(rb"[^a-z0-9]+", b"-", name.encode().lower()).decode()
    return words.strip("-")[:_SLUG_LENGTH].rstrip("-")


@lru_cache(maxsize=256)  # each name is asked for when it is marked, and again to warn of others
def resembles(name: str) -> str:
    """Give what is left of a name without case, separators and leading zeros.

    Two names that share it are probably meant to be one: "Doc-7" and "doc_007". Between two numbers
    one separator stays, because "part-1-12" and "part-11-2" are not alike.
    """
    plain = _INSIGNIFICANT.sub("", name.lower())
    return plain if plain.isalnum() else _SEPARATOR.sub("-", plain)


def similar(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Give the known names that may have been meant, the most similar first."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(_comparable(name))
    scored = ((_likeness(matcher, other), other) for other in islice(known, _MOST_COMPARED))
    best = nlargest(limit, scored, key=lambda pair: pair[0])
    return [other for likeness, other in best if likeness >= _ALIKE_ENOUGH]


def _comparable(name: str) -> str:
    return resembles(name)[:_LENGTH_COMPARED]


def _likeness(matcher: SequenceMatcher[str], other: str) -> float:
    matcher.set_seq1(_comparable(other))
    # The first two are cheap upper bounds of the third.
    if matcher.real_quick_ratio() < _ALIKE_ENOUGH or matcher.quick_ratio() < _ALIKE_ENOUGH:
        return 0.0
    return matcher.ratio()
