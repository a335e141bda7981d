"""Let random callers do random things one after the other, and compare each answer with the specification.

    python -m tests.torture.model --count 5000 --seed 4711

No concurrency, so nothing has to be searched for: every answer is due exactly as the specification gives it.
What differs comes as the shortest sequence that shows it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from tests.torture import harness
from tests.torture.asking import TASK, answered
from tests.torture.harness import Row
from tests.torture.specification import Answer, Call, TaskState, agree, apply

from holdfast_storage.engines.folder import FolderEngine
from holdfast_storage.engines.memory import MemoryEngine, MemoryStore
from holdfast_storage.workspace import Workspace

SHORT_COUNT = 40
PLAN = ["s1", "s2", "s3"]
# A process and the number of its caller.
CALLERS = (("p0", 0), ("p0", 1), ("p1", 0))
_CALLS = 30

# --- what may be asked for --------------------------------------------------------------------

_steps = st.sampled_from(PLAN)
_values = st.sampled_from([None, 1, 2, "x"])
_patches = st.dictionaries(st.sampled_from(["a", "b"]), _values, min_size=1)
_items = st.fixed_dictionaries({"log": st.lists(st.integers(0, 9), min_size=1, max_size=2)})
# Claims, revisions and checkpoints are named by how long ago the caller was told them.
_ago = st.integers(0, 3)

_ARGUMENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "save": st.one_of(
        st.fixed_dictionaries({"state": _patches}),
        st.fixed_dictionaries({"append": _items}),
        st.fixed_dictionaries({"state": _patches, "plan": st.just(PLAN)}),
        st.fixed_dictionaries({"state": _patches, "revision_ago": _ago}),
    ),
    "mark": st.fixed_dictionaries(
        {"step": _steps, "result": st.integers(0, 2)},
        optional={
            "outcome": st.sampled_from(["failed", "skipped"]),
            "claim_ago": _ago,
            "state": _patches,
        },
    ),
    "begin": st.fixed_dictionaries(
        {"step": st.sampled_from(["", *PLAN])},
        optional={"claim_ago": _ago, "retry": st.booleans()},
    ),
    "look_at": st.fixed_dictionaries({"checkpoint_ago": _ago}),
    "finish": st.fixed_dictionaries(
        {"outcome": st.sampled_from(["done", "abandoned", "paused", "failed"])}
    ),
    "ask": st.fixed_dictionaries({"question": st.sampled_from(["why?", "which?"])}),
    "answer": st.fixed_dictionaries(
        {"question": st.sampled_from(["q1", "q2"]), "answer": st.integers(1, 2)}
    ),
    "resolve": st.fixed_dictionaries({"step": _steps, "happened": st.booleans()}),
    "reopen": st.fixed_dictionaries({"step": _steps}),
    "release": st.fixed_dictionaries({"step": _steps}),
    **{
        name: st.just(dict[str, Any]())
        for name in ("nothing", "load", "list_steps", "list_tasks", "pause", "go_on", "die")
    },
}
_NAMES = [
    "nothing",  # first, so that a sequence that goes wrong is shown with as little else as possible
    *("save", "load", "mark", "begin") * 4,
    *_ARGUMENTS,
]

# Who, what, and with which arguments.
Asked = tuple[tuple[str, int], str, dict[str, Any]]
_asked: st.SearchStrategy[Asked] = st.sampled_from(_NAMES).flatmap(
    lambda name: st.tuples(st.sampled_from(CALLERS), st.just(name), _ARGUMENTS[name])
)
sequences: st.SearchStrategy[list[Asked]] = st.lists(_asked, min_size=_CALLS, max_size=_CALLS)


# --- doing it ---------------------------------------------------------------------------------


@dataclass
class _Told:
    """What one caller was told so far, the newest last."""

    claim: list[str] = field(default_factory=list[str])
    revision: list[int] = field(default_factory=list[int])
    checkpoint: list[int] = field(default_factory=list[int])

    def learn(self, answer: Answer) -> None:
        for name in ("claim", "revision", "checkpoint"):
            if answer.get(name):
                getattr(self, name).append(answer[name])

    def resolved(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Put what was told in the place of how long ago; None if there was nothing."""
        resolved: dict[str, Any] = {}
        for key, value in arguments.items():
            name = key.removesuffix("_ago")
            known = getattr(self, name) if key != name else [value]
            if not known:
                return None
            resolved[name] = known[-1 - value % len(known)] if key != name else value
        return resolved


class _Processes:
    """Two processes with two callers each; one that died is started again when it is needed."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._store = folder, MemoryStore()
        self._open: dict[str, tuple[str, Workspace]] = {}
        self._callers: dict[tuple[str, int], Any] = {}
        self._born = 0

    async def workspace(self, process: str) -> tuple[str, Workspace]:
        if process not in self._open:
            self._born += 1
            workspace = await Workspace(self._engine(), by="agent").__aenter__()
            self._open[process] = f"{process}.{self._born}", workspace
        return self._open[process]

    def _engine(self) -> Any:
        if self._folder is None:
            return MemoryEngine(self._store)
        return FolderEngine.open(self._folder, young_view_seconds=3600.0)

    def caller(self, name: str, number: int, workspace: Workspace) -> Any:
        if (name, number) not in self._callers:
            self._callers[name, number] = workspace.caller(f"{name}c{number}")
        return self._callers[name, number]

    async def end(self, process: str) -> str:
        name, workspace = self._open.pop(process)
        await workspace.close()
        return name

    async def end_all(self) -> None:
        for process in list(self._open):
            await self.end(process)


async def compare(sequence: Sequence[Asked], folder: Path | None) -> None:
    """Do it, and fail at the first answer that is not the one that is due."""
    processes = _Processes(folder)
    try:
        await _compare(sequence, processes)
    finally:
        await processes.end_all()


async def _compare(sequence: Sequence[Asked], processes: _Processes) -> None:
    told: dict[str, _Told] = {}
    state = TaskState(task=TASK)
    for moment, ((process, number), name, said) in enumerate(sequence):
        if name == "nothing":
            continue
        life, workspace = await processes.workspace(process)
        caller = f"{life}c{number}"
        arguments = told.setdefault(caller, _Told()).resolved(said)
        if arguments is None:
            continue
        if name == "die":
            arguments = {"process": await processes.end(process)}
            answer: Answer = {}
        else:
            door = processes.caller(life, number, workspace)
            answer = await answered(door, workspace, name, arguments)
        answer.pop("key", None)  # it tells of the workspace, too
        said_why = answer.pop("said", "")
        due, state = apply(state, Call(caller, life, name, arguments, moment, moment, answer))
        due.pop("key", None)
        assert agree(due, answer), f"{name}({arguments}) of {caller}\n{answer} {said_why}\n{due}"
        told[caller].learn(answer)


# --- many of them -----------------------------------------------------------------------------


def _tried(sequence: Sequence[Asked], in_folder: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-model-")) if in_folder else None
    try:
        asyncio.run(compare(sequence, folder and folder / ".holdfast"))
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _violation(seed: int, count: int, in_folder: bool, phases: Sequence[Phase]) -> list[str]:
    """Give the shortest sequence that goes wrong, if any of so many does."""
    chosen = settings(
        max_examples=count,
        deadline=None,
        database=None,
        print_blob=False,
        phases=phases,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
    )

    @hypothesis.seed(seed)
    @chosen
    @hypothesis.given(sequences)
    def all_of_them(sequence: list[Asked]) -> None:
        _tried(sequence, in_folder)

    try:
        all_of_them()
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        where = "in a folder" if in_folder else "in memory"
        return [f"seed {seed}, {where}: {traceback.format_exc()}"]
    return []


def many(seed: int, count: int, phases: Sequence[Phase] = (Phase.generate, Phase.shrink)) -> Row:
    """Try so many sequences, three of four in memory."""
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    in_folder = max(1, count // 4)
    found = _violation(seed, count - in_folder, False, phases)
    found += _violation(seed, in_folder, True, phases)
    return Row("model", count, "sequences of calls", seed, tuple(found))


def short(seed: int) -> Row:
    """A few seconds of it."""
    return many(seed, SHORT_COUNT)


if __name__ == "__main__":
    harness.main(short, by_count=many)
