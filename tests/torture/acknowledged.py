"""What agents were told is kept, and what a person saved, held against what lies in the folder."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.torture.forking import Said, Say, done
from tests.torture.person import was_seen

from holdfast_storage.core import strict_json, view
from holdfast_storage.core.ids import folder_name
from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.workspace import Workspace

# What is said, and what must be there ever after:
#   done TASK REVISION STEP RESULT     that record, with that result
#   saved TASK REVISION CHECKPOINT     that record
#   appended TASK RUN ITEM             that item, as long as the run is the newest
#   edited TASK WORD                   an edit with that word, or a conflict
KINDS = frozenset({"done", "saved", "appended", "edited"})


def lost(root: Path, said: Iterable[Said]) -> list[str]:
    """Name what was acknowledged and is not there."""
    by_task: dict[str, list[Said]] = defaultdict(list)
    for words in said:
        by_task[words[1]].append(words)
    states = {task: (run, state) for task, run, state in done(_Reader(root, sorted(by_task)))}
    return [
        f"lost: {words}"
        for task, of_task in by_task.items()
        for words in _lost_of(root / "tasks" / folder_name(task), of_task, states[task])
    ]


def _lost_of(
    folder: Path, said: list[Said], newest: tuple[int, dict[str, Any] | None]
) -> Iterator[Said]:
    records = {record["seq"]: record for record in _records(folder)}
    run, state = newest
    items: list[Any] = state["log"] if state and "log" in state else []
    log = {json.dumps(item) for item in items}
    for words in said:
        kind, _, *about = words
        match kind:
            case "done":
                is_there = _is_done(records.get(about[0], {}), *about[1:])
            case "saved":
                record = records.get(about[0], {})
                is_there = record.get("op") == "save" and record["checkpoint"] == about[1]
            case "appended":
                is_there = about[0] != run or json.dumps(about[1]) in log
            case _:
                is_there = was_seen(folder, about[0])
        if not is_there:
            yield words


def _is_done(record: dict[str, Any], step: str, result: Any) -> bool:
    return (record.get("op"), record.get("step"), record.get("result")) == ("done", step, result)


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    """Read the journal as it lies there, with nothing of ours in between."""
    for segment in sorted(folder.glob("journal/*.jsonl")):
        for line in segment.read_bytes().split(b"\n"):
            try:
                yield json.loads(line)
            except ValueError:
                continue  # a torn tail; check has told of anything else


class _Reader:
    """Tells the newest run of each task, and its state, as any agent would be told."""

    def __init__(self, root: Path, tasks: list[str]) -> None:
        self._root, self._tasks = root, tasks

    async def __call__(self, say: Say) -> None:
        async with Workspace.open(self._root, by="reader") as workspace:
            for task in self._tasks:
                brief = await workspace.brief(task, max_tokens=10**8)
                say(task, brief.run, brief.state)


def unhealthy(root: Path, tasks: Iterable[str]) -> list[str]:
    """After everybody has ended, work on in every task; then nothing may be wrong or left over."""
    problems = [words[1] for words in done(_Successor(root, list(tasks)))]
    left = [path for path in root.rglob(".*") if path.name.startswith((".new.", ".hfview."))]
    left += (root / ".alive").glob("*")
    return problems + [f"left over: {path.relative_to(root)}" for path in left]


class _Successor:
    """The one who comes after: takes up every task, and looks at all of it."""

    def __init__(self, root: Path, tasks: list[str]) -> None:
        self._root, self._tasks = root, tasks

    async def __call__(self, say: Say) -> None:
        # Nobody else lives, so what is unfinished was left by the dead, however young it is.
        engine = FolderEngine.open(
            self._root, schema=strict_json.pretty(view.schema()), abandoned_seconds=0.0
        )
        async with Workspace(engine, by="successor") as workspace:
            caller = workspace.caller("successor")
            for task in self._tasks:
                brief = await caller.load(task)
                await caller.mark(task, "taken-up")
                for warning in brief.warnings:
                    # A file that could not be merged is announced as it should be.
                    if "could not be merged" not in warning:
                        say("problem", f"{task} warns: {warning}")
        async with Workspace.open(self._root, by="successor") as workspace:
            for problem in await workspace.check():
                say("problem", f"check: {problem.file}:{problem.line} {problem.problem}")
