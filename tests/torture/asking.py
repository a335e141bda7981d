"""Ask for something through the public door, and pick out of the answer what can be compared."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from tests.torture.specification import Answer

from holdfast_storage.caller import Caller
from holdfast_storage.core.errors import HoldfastError, Unavailable
from holdfast_storage.workspace import Workspace

TASK = "shared"


async def answered(
    caller: Caller, workspace: Workspace, name: str, arguments: dict[str, Any]
) -> Answer:
    """Ask for it; a refusal is an answer too, and what is none is a finding."""
    try:
        answer: Answer = await _CALLS[name](caller, workspace, **arguments)
        return answer
    except Unavailable as error:
        return {"error": "pruned" if "pruned" in error.why else str(error)}
    except HoldfastError as error:
        return {"error": error.code, "said": str(error)}
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        return {"error": "crash", "said": traceback.format_exc()}


def _progress(progress: Any) -> Answer:
    names = ("done", "failed", "total", "last_done")
    return {name: getattr(progress, name) for name in names}


def _picked(answer: Any, *names: str) -> Answer:
    return {name: getattr(answer, name) for name in names}


def _paths(conflicts: Sequence[Any]) -> list[str]:
    return sorted(each.path for each in conflicts)


async def _save(caller: Caller, workspace: Workspace, **arguments: Any) -> Answer:
    saved = await caller.save(TASK, **arguments)
    told = _picked(saved, "run", "checkpoint", "revision")
    return told | {"conflicts": _paths(saved.conflicts)}


async def _mark(caller: Caller, workspace: Workspace, **arguments: Any) -> Answer:
    marked = await caller.mark(TASK, **arguments)
    names = ("outcome", "already_done", "differs", "result", "next_step", "revision")
    more = {"progress": _progress(marked.progress), "conflicts": _paths(marked.conflicts)}
    return _picked(marked, *names) | more


async def _begin(caller: Caller, workspace: Workspace, **arguments: Any) -> Answer:
    begun = await caller.begin(TASK, **arguments)
    names = ("step", "go", "status", "attempts", "claim", "result", "revision")
    return _picked(begun, *names) | {"key": begun.idempotency_key}


async def _load(caller: Caller, workspace: Workspace) -> Answer:
    brief = await caller.load(TASK)
    names = ("found", "run", "revision", "checkpoint", "status", "state")
    if brief.warnings:
        return {"error": "warned", "said": brief.warnings}
    return _picked(brief, *names) | {
        "progress": _progress(brief.progress),
        "in_doubt": sorted(brief.in_doubt),
        "running": sorted(each.step for each in brief.running),
        "questions": sorted([each.id, each.answer] for each in brief.questions),
    }


async def _look_at(caller: Caller, workspace: Workspace, checkpoint: int) -> Answer:
    return {"state": (await caller.load(TASK, checkpoint=checkpoint)).state}


async def _list_steps(caller: Caller, workspace: Workspace) -> Answer:
    steps = (await caller.list_checkpoints(TASK, show="steps")).steps
    return {"steps": [[each.step, each.status, each.attempts, each.result] for each in steps]}


async def _list_tasks(caller: Caller, workspace: Workspace) -> Answer:
    tasks = (await caller.list_checkpoints()).tasks
    return {"tasks": [[each.status, _progress(each.progress)] for each in tasks]}


async def _finish(caller: Caller, workspace: Workspace, outcome: str) -> Answer:
    finished = await caller.finish(TASK, outcome)
    told = _picked(finished, "run", "status", "revision")
    return told | {"unfinished": sorted(finished.unfinished)}


async def _ask(caller: Caller, workspace: Workspace, question: str) -> Answer:
    return _picked(await caller.ask(TASK, question), "question_id", "answer", "revision")


async def _answer(caller: Caller, workspace: Workspace, question: str, answer: Any) -> Answer:
    asked = await workspace.answer(TASK, answer, question)
    return _picked(asked, "question_id", "answer", "revision")


async def _resolve(caller: Caller, workspace: Workspace, step: str, **arguments: Any) -> Answer:
    return {"revision": await workspace.resolve(TASK, step, **arguments)}


async def _reopen(caller: Caller, workspace: Workspace, step: str) -> Answer:
    return {"revision": await workspace.reopen(TASK, step)}


async def _release(caller: Caller, workspace: Workspace, step: str) -> Answer:
    return {"revision": await workspace.release(TASK, step)}


async def _pause(caller: Caller, workspace: Workspace) -> Answer:
    return {"revision": await workspace.pause(TASK)}


async def _go_on(caller: Caller, workspace: Workspace) -> Answer:
    return {"revision": await workspace.go_on(TASK)}


async def _prune(caller: Caller, workspace: Workspace) -> Answer:
    pruned = await caller.prune(TASK, keep_last=1, older_than_hours=0)
    return {"removed": [each.checkpoint for each in pruned.removed]}


_CALLS: dict[str, Any] = {
    "save": _save,
    "mark": _mark,
    "begin": _begin,
    "load": _load,
    "look_at": _look_at,
    "list_steps": _list_steps,
    "list_tasks": _list_tasks,
    "finish": _finish,
    "ask": _ask,
    "answer": _answer,
    "resolve": _resolve,
    "reopen": _reopen,
    "release": _release,
    "pause": _pause,
    "go_on": _go_on,
    "prune": _prune,
}
