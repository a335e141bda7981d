"""What every harness answers, and the command line that all of them have."""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ShortForm = Callable[[int], "Row"]
ByCount = Callable[[int, int], "Row"]
ByHours = Callable[[int, float], "Row"]


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. A zero says little without the count beside it."""

    harness: str
    count: int
    of: str
    seed: int
    violations: tuple[str, ...] = ()
    remark: str = ""

    @classmethod
    def from_json(cls, line: str) -> Row:
        """Read a row that another process wrote down."""
        told: dict[str, Any] = json.loads(line)
        fields: dict[str, Any] = {each.name: told[each.name] for each in dataclasses.fields(cls)}
        fields["violations"] = tuple(told["violations"])
        return cls(**fields)


def main(
    short: ShortForm,
    *,
    by_count: ByCount | None = None,
    by_hours: ByHours | None = None,
    arguments: Sequence[str] | None = None,
) -> None:
    """Run one harness from the command line: the short form, or so many, or for so long.

    `python -m tests.torture.kills --count 20000 --json results.jsonl` appends its row to the file.
    Ends with 1 if a promise was broken.
    """
    said = _parser(short, by_count, by_hours).parse_args(arguments)
    began = time.monotonic()
    if by_count and said.count is not None:
        row = by_count(said.seed, said.count)
    elif by_hours and said.hours is not None:
        row = by_hours(said.seed, said.hours)
    else:
        row = short(said.seed)
    seconds = round(time.monotonic() - began, 1)
    if said.json:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with said.json.open("a") as results:
            results.write(
                json.dumps({**dataclasses.asdict(row), "seconds": seconds, "at": at}) + "\n"
            )
    print(
        f"{row.harness}: {row.count} {row.of}, seed {row.seed}, {seconds} s. {row.remark}".strip()
    )
    for violation in row.violations:
        print(f"  BROKEN: {violation}")
    sys.exit(1 if row.violations else 0)


def _parser(
    short: ShortForm, by_count: ByCount | None, by_hours: ByHours | None
) -> argparse.ArgumentParser:
    # The module that is run is called __main__; its docstring says what it is for.
    parser = argparse.ArgumentParser(description=sys.modules[short.__module__].__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--short", action="store_true", help="the short form (the default)")
    if by_count:
        length.add_argument("--count", type=int, help="the long form, so many of them")
    if by_hours:
        length.add_argument("--hours", type=float, help="the long form, for so long")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(2**32), help="replays a run that printed it"
    )
    parser.add_argument("--json", type=Path, help="append the row to this file")
    return parser
