"""Let go of old checkpoints without cutting what is still needed, and bring them back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any

from holdfast_storage import listing
from holdfast_storage.core import ids
from holdfast_storage.core.decide.context import Context, Decision, draft
from holdfast_storage.core.errors import Busy, HoldfastError, InvalidValue, Unknown
from holdfast_storage.core.fold import Checkpoint, Fold
from holdfast_storage.core.records import Draft, Record, encode_line
from holdfast_storage.core.retention import Kept, Retention, Verdict, plan_retention
from holdfast_storage.core.strict_json import JsonObject
from holdfast_storage.core.times import moment, stamp
from holdfast_storage.desk import Author, Desk
from holdfast_storage.engines.base import Trashed
from holdfast_storage.people import People
from holdfast_storage.results import Pruned, PruneLine

RESTORABLE = timedelta(hours=24)
RETENTION = Author("retention")
_LOG = logging.getLogger("holdfast")
_TRIES = 5
_STATE_FIELDS = ("state", "changes", "from")


async def prune(
    desk: Desk,
    people: People,
    author: Author,
    task: str,
    *,
    keep_last: int,
    older_than_hours: float,
    dry_run: bool,
) -> Pruned:
    """Say of each checkpoint whether it stays and why; unless `dry_run`, let the others go."""
    if type(keep_last) is not int or keep_last < 0:
        raise InvalidValue("keep_last", "it must be a whole number of at least 0")
    if type(older_than_hours) not in (int, float) or older_than_hours < 0:
        raise InvalidValue("older_than_hours", "it must be a number of at least 0")
    policy = Retention(keep_last, older_than_hours)
    if task == "*":
        tasks = [line.task for line in await listing.all_tasks(desk) if not line.problem]
    else:
        tasks = [ids.check_id("task", task)]
    answers = [await _prune_one(desk, people, author, each, policy, dry_run) for each in tasks]
    return _together(answers, dry_run)


async def retain(desk: Desk, people: People, task: str) -> None:
    """Apply the workspace's own retention, and empty the trash of what is past restoring.

    It follows something that was answered already, so its own failure is only noted.
    """
    try:
        await _prune_one(desk, people, RETENTION, task, desk.settings.retention, False)
        await desk.engine.empty_trash(RESTORABLE.total_seconds())
    except HoldfastError as error:
        _LOG.warning("retention of %s failed: %s", task, error)


async def _prune_one(
    desk: Desk, people: People, author: Author, task: str, policy: Retention, dry_run: bool
) -> Pruned:
    for _ in range(_TRIES):
        with suppress(_Overtaken):
            return await _try_to_prune(desk, people, author, task, policy, dry_run)
    raise Busy(task, 0)


class _Overtaken(Exception):
    """Somebody pruned or pinned between the plan and the deed."""


async def _try_to_prune(
    desk: Desk, people: People, author: Author, task: str, policy: Retention, dry_run: bool
) -> Pruned:
    history = await desk.fold_to(task, history=True)
    if history.run == 0:
        raise Unknown("task", task)
    verdicts = plan_retention(
        [_kept(each) for each in history.checkpoints.values() if each.readable and not each.pruned],
        policy,
        desk.clock(),
    )
    going = {verdict.checkpoint for verdict in verdicts if not verdict.stays}
    answer = Pruned(
        removed=[_line(task, verdict) for verdict in verdicts if not verdict.stays],
        kept=[_line(task, verdict) for verdict in verdicts if verdict.stays],
        dry_run=dry_run,
    )
    if not going:
        return answer
    lines, freed = await _rewritten(desk, task, history, going)
    if dry_run:
        return answer.model_copy(update={"freed_bytes": freed})
    now = await desk.fold_to(task, history=True)
    if any(now.checkpoints[number].pinned or now.checkpoints[number].pruned for number in going):
        raise _Overtaken
    name = await _carry_out(desk, people, author, history, going, lines)
    until = stamp(desk.clock() + RESTORABLE)
    return answer.model_copy(
        update={"freed_bytes": freed, "restorable_until": until, "trash": [name]}
    )


async def remove(
    desk: Desk,
    people: People,
    author: Author,
    task: str,
    going: set[int],
    emptied: Mapping[int, Draft],
) -> None:
    """Let certain checkpoints go, and put `emptied` records in the place of others.

    The newest save may be among them only if nothing can come to lean on it meanwhile.
    """
    history = await desk.fold_to(task, history=True)
    lines, _ = await _rewritten(desk, task, history, going)
    await _carry_out(desk, people, author, history, going, {**lines, **emptied})


async def _carry_out(
    desk: Desk,
    people: People,
    author: Author,
    history: Fold,
    going: set[int],
    lines: Mapping[int, Draft],
) -> str:
    task = history.task
    name = await desk.engine.rewrite(task, lines, ",".join(map(str, sorted(going))))
    desk.folds.drop(task)
    await record_upkeep(desk, author, task, "prune", sorted(going), name)
    gone = [history.checkpoints[number] for number in going]
    await people.drop_checkpoint_files(
        task, [ids.checkpoint_file_name(each.number, each.label) for each in gone]
    )
    people.touch(task)
    return name


async def record_upkeep(
    desk: Desk, author: Author, task: str, op: str, checkpoints: list[int], name: str
) -> None:
    """Note that checkpoints went, or came back."""

    def decide(fold: Fold, context: Context) -> Decision:
        return Decision(draft(context, op, {"checkpoints": checkpoints, "trash": name}))

    await desk.commit(task, author, decide, lambda fold, decision, record: None)


async def _rewritten(
    desk: Desk, task: str, history: Fold, going: set[int]
) -> tuple[dict[int, Draft], int]:
    """Write the pruned saves without their state, and in full those that leaned on them."""
    lines: dict[int, Draft] = {}
    freed = 0
    for number, kept in sorted(history.checkpoints.items()):
        leans_on_gone = kept.leans_on in going and number not in going and not kept.pruned
        if number not in going and not leans_on_gone:
            continue
        record = await _save_record(desk, task, kept)
        body: JsonObject = {
            key: value for key, value in record.body.items() if key not in _STATE_FIELDS
        }
        body["digest"] = await digest_of(desk, task, kept, history)
        if number in going:
            body["pruned"] = True
        else:
            body["state"] = await desk.state_of(task, kept, history)
        new = Draft(record.id, record.at, record.by, "save", body, record.opens)
        lines[record.seq] = new
        freed += kept.place.length - len(encode_line(record.seq, new))
    return lines, max(0, freed)


async def _save_record(desk: Desk, task: str, kept: Checkpoint) -> Record:
    [entry] = await desk.engine.fetch(task, [kept.place])
    if not isinstance(entry, Record) or entry.seq != kept.seq:
        raise _Overtaken
    return entry


async def digest_of(desk: Desk, task: str, kept: Checkpoint, history: Fold) -> str:
    """Give a checkpoint's digest: of the digest it leans on and its own record."""
    chain = [kept]
    while not chain[-1].digest and chain[-1].leans_on:
        chain.append(history.checkpoints[chain[-1].leans_on])
    digest = chain[-1].digest
    for each in reversed(chain if not digest else chain[:-1]):
        record = await _save_record(desk, task, each)
        said = Draft(record.id, record.at, record.by, record.op, record.body, record.opens)
        digest = sha256(digest.encode() + encode_line(record.seq, said)).hexdigest()
    return digest


async def restore(desk: Desk, people: People, author: Author, name: str) -> Trashed:
    """Bring back what prune took."""
    brought_back = await desk.engine.restore(name)
    desk.folds.drop(brought_back.task)
    checkpoints = list(brought_back.checkpoints)
    await record_upkeep(desk, author, brought_back.task, "restore", checkpoints, name)
    people.forget_checkpoint_files(brought_back.task)
    people.touch(brought_back.task)
    return brought_back


def _kept(each: Checkpoint) -> Kept:
    return Kept(
        checkpoint=each.number,
        at=moment(each.at),
        milestone=each.milestone,
        pinned=each.pinned,
        bytes=each.place.length,
    )


def _line(task: str, verdict: Verdict) -> PruneLine:
    return PruneLine(task=task, checkpoint=verdict.checkpoint, why=verdict.why, bytes=verdict.bytes)


def _together(answers: list[Pruned], dry_run: bool) -> Pruned:
    together: dict[str, Any] = {
        "removed": [line for answer in answers for line in answer.removed],
        "kept": [line for answer in answers for line in answer.kept],
        "freed_bytes": sum(answer.freed_bytes for answer in answers),
        "restorable_until": max((answer.restorable_until for answer in answers), default=""),
        "trash": [name for answer in answers for name in answer.trash],
    }
    return Pruned(**together, dry_run=dry_run)
