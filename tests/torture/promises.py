"""Start the machine again after a power cut, with the real code, and see whether every promise held.

Then work goes on as if nothing had been, the power is cut once more, and all of it is looked at again.
"""

from __future__ import annotations

from random import Random

from tests.torture import power_cut
from tests.torture.direct_engine import run
from tests.torture.ledger import Broken, Copied, Step, damaged, said
from tests.torture.memory_disk import File, FileSystem, Folder
from tests.torture.workloads import TASK, TASK_PATH, Agent, Person, World

from holdfast_storage import listing
from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import Unavailable, Unknown, Unreadable
from holdfast_storage.core.fold import Fold
from holdfast_storage.core.records import Entry, Place, Record, decode_line
from holdfast_storage.core.seal import is_sealed
from holdfast_storage.engines.folder.lines import BLANKS
from holdfast_storage.results import Brief


def hold(world: World, fs: FileSystem, seed: int) -> None:
    """Raise Broken if a promise made in this world does not hold on the machine started again."""
    again = world.after(fs, seed)
    _go_on(_inspected(again))
    random = Random(seed)
    cuts = [power_cut.harshest(again.fs)] * 4 + [*power_cut.cuts(again.fs, random, 4)]
    once_more, _ = power_cut.after(again.fs, random.choice(cuts))
    _inspected(again.after(once_more, seed + 1))


class _Started(Agent):
    """The first process after the power came back."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "z")
        self.brief = self.start()
        self.desk = self.workspace._desk  # pyright: ignore[reportPrivateUsage]


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


def _inspected(world: World) -> _Started:
    world.ledger.quarantined |= _torn_tails(world)
    is_broken = _is_view_broken(world)
    ledger = world.ledger
    _require(not is_broken or ledger.is_half_saved, "the view is broken and no person broke it")
    agent = _Started(world)
    brief = agent.brief
    entries = [entry for part in agent.engine.folder(TASK).read(0) for entry in part]
    _check_journal(world, entries)
    _check_listed(agent, brief)
    if ledger.records:
        _check_state(agent, brief)
        _check_steps(agent)
        _check_checkpoints(agent)
        _check_edit(agent, brief)
    _check_copies(agent)
    kept = run(agent.engine.kept(TASK, "quarantine")).values()
    _require(
        all(any(tail in raw for raw in kept) for tail in ledger.quarantined),
        "a torn line was taken away and not kept in quarantine",
    )
    return agent


# --- the journal ------------------------------------------------------------------------------


def _check_journal(world: World, entries: list[Entry]) -> None:
    ledger = world.ledger
    bad = damaged(entries, lambda seq: seq in ledger.spoiled)
    _require(not bad, f"atomic: a damaged line, {bad}")
    records = [entry for entry in entries if isinstance(entry, Record)]
    seqs = sorted([*(record.seq for record in records), *ledger.spoiled])
    _require(seqs == list(range(1, len(seqs) + 1)), f"atomic: the records are {seqs}")
    for record in records:
        drafted = ledger.drafted.get(record.id)
        _require(drafted is not None, f"atomic: nobody wrote {record}")
        is_rewritten = record.op == "save" and ledger.may_rewrite
        _require(is_rewritten or said(record) == drafted, f"atomic: {record} was {drafted}")
    there = {record.seq: record.id for record in records}
    for seq, promised in ledger.records.items():
        if seq not in ledger.spoiled:
            _require(there.get(seq) == promised[0], f"durable: record {seq} is lost: {promised}")


def _torn_tails(world: World) -> set[bytes]:
    """Find the ends of segments that no whole record is in."""
    journal = world.node(f"{TASK_PATH}/journal")
    if not isinstance(journal, Folder):
        return set()
    found: set[bytes] = set()
    for name, file in journal.entries.items():
        if isinstance(file, File) and name.endswith(".jsonl"):
            tail = file.data.rpartition(b"\n")[2].rstrip(BLANKS)
            if tail and not isinstance(decode_line(tail, Place(1, 1, len(tail))), Record):
                found.add(tail)
    return found


# --- what agents are told ---------------------------------------------------------------------


def _check_listed(agent: _Started, brief: Brief) -> None:
    if not agent.ledger.records:
        return
    _require(brief.found, "broken is never empty: the task is not found")
    lines = run(agent.workspace.tasks())
    is_there = any(line.task == TASK and not line.problem for line in lines)
    _require(is_there, f"broken is never empty: the listing says {lines}")


def _check_state(agent: _Started, brief: Brief) -> None:
    ledger = agent.ledger
    seq, state = ledger.state
    if ledger.spoiled or not seq:
        return
    if not ledger.may_rewrite:
        fold = run(agent.desk.fold_to(TASK, seq, history=True))
        _require(fold.state == state, f"durable: the state was {state} and is {fold.state}")
    missing = ledger.appended - set(brief.state.get("list", ()))
    _require(not missing, f"never lost between agents: {missing} was appended and is gone")


def _check_steps(agent: _Started) -> None:
    ledger = agent.ledger

    def of(fold: Fold) -> tuple[int, bool, dict[str, str]]:
        now, gone = agent.desk.clock(), agent.desk.gone(fold)
        wanted = [step for _, step in {*ledger.results, *ledger.sent}] + [*ledger.spoiled.values()]
        return fold.run, fold.is_closed, {one: fold.status_of(one, now, gone) for one in wanted}

    number, is_closed, statuses = run(agent.desk.ask(TASK, of))
    if is_closed:
        return
    for step in _of_run(ledger.results, number):
        _require(statuses[step] == "done", f"durable: {step} was done and is {statuses[step]}")
    for step in _of_run(ledger.sent, number):
        fits = statuses[step] in ("in_doubt", "done")
        _require(fits, f"in doubt, never pending: {step} is {statuses[step]}")
    for step in ledger.spoiled.values():
        fits = statuses[step] == "in_doubt" or (number, step) in ledger.results
        _require(fits, f"in doubt, never pending: {step} with its line damaged is {statuses[step]}")


def _of_run(steps: set[Step] | dict[Step, object], number: int) -> list[str]:
    return [step for run_number, step in steps if run_number == number]


def _check_checkpoints(agent: _Started) -> None:
    ledger = agent.ledger
    trashed = {number for each in run(agent.workspace.trash()) for number in each.checkpoints}
    history = run(agent.desk.fold_to(TASK, history=True))
    for number, state in ledger.checkpoints.items():
        try:
            kept = listing.find_checkpoint(history, number)
            found = run(agent.desk.state_of(TASK, kept, history))
        except (Unavailable, Unknown) as error:
            is_in_trash = number in ledger.going and number in trashed
            excused = is_in_trash or bool(ledger.spoiled)
            _require(excused, f"durable: checkpoint {number} is gone ({error})")
        else:
            _require(found == state, f"durable: checkpoint {number} was {state} and is {found}")


def _check_copies(agent: _Started) -> None:
    """See that each copy is there as it was answered for; one on its way may be missing, never half."""
    if not agent.ledger.copies:
        return
    listed = {line.task: line.problem for line in run(agent.workspace.tasks())}
    for name, (copied, is_promised) in agent.ledger.copies.items():
        if name not in listed:
            _require(not is_promised, f"durable: the copy {name} is gone")
            continue
        _require(not listed[name], f"atomic: the copy {name} is broken: {listed[name]}")
        found = run(agent.desk.ask(name, lambda fold: (fold.state, fold.count("done"))))
        is_whole = _but_for_people(found) == _but_for_people(copied)
        _require(is_whole, f"atomic: the copy {name} was {copied} and is {found}")


def _but_for_people(copied: Copied) -> Copied:
    """Leave out the value that only people write: one may save it just before the copy is made."""
    state, done = copied
    return {key: value for key, value in state.items() if key != "human"}, done


# --- people -----------------------------------------------------------------------------------


def _is_view_broken(world: World) -> bool:
    view = world.node(f"{TASK_PATH}/state.json")
    if not isinstance(view, File):
        return False
    try:
        strict_json.parse_object(view.data)
    except Unreadable:
        return True
    return False


def _check_edit(agent: _Started, brief: Brief) -> None:
    wanted = agent.ledger.human
    value = brief.state.get("human", 0)
    if value in wanted or agent.ledger.spoiled:
        return
    aside = run(agent.engine.kept(TASK, "conflicts")).values()
    is_kept = any(f'"human": {each}'.encode() in raw for each in wanted for raw in aside)
    is_told = is_kept and bool(brief.conflicts)
    _require(is_told, f"people's edits survive: {wanted} was saved and the state says {value}")


# --- going on ---------------------------------------------------------------------------------


def _go_on(agent: _Started) -> None:
    """Work as if nothing had been, keeping the same promises."""
    world, ledger = agent.world, agent.ledger
    _bring_back(agent)
    number = run(agent.desk.ask(TASK, lambda fold: 0 if fold.is_closed else fold.run))
    if not ledger.spoiled:
        _do_again(agent, number)
        agent.begin()
    agent.save()
    agent.mark()
    agent.render()
    person = Person(world)
    if world.random.random() < 0.5:
        person.perform(["edit"])
        agent.load()
        agent.render()
    if not ledger.spoiled and not _is_view_broken(world):
        view = world.node(f"{TASK_PATH}/state.json")
        is_ours = isinstance(view, File) and is_sealed(view.data)
        _require(is_ours, "explains itself: there is no view after rendering")
        problems = run(agent.workspace.check())
        _require(not problems, f"explains itself: check is not clean: {problems}")
    agent.leave()


def _do_again(agent: _Started, number: int) -> None:
    """Ask again for what was answered: there must be one effect and the same answer."""
    ledger = agent.ledger
    for step in _of_run(ledger.results, number)[:3]:
        marked = run(agent.caller.mark(TASK, step, "another result"))
        _require(marked.already_done, f"idempotent: {step} was done a second time")
        ledger.result((number, step), marked.result)
    for step in _of_run(ledger.sent, number)[:3]:
        begun = run(agent.caller.begin(TASK, step))
        ledger.key((number, step), begun.idempotency_key, go=begun.go)


def _bring_back(agent: _Started) -> None:
    """Restore what an interrupted prune took."""
    ledger = agent.ledger
    for trashed in run(agent.workspace.trash()):
        if trashed.task == TASK and agent.world.random.random() < 0.3:
            brought_back = run(agent.workspace.restore(trashed.name))
            for number in brought_back.checkpoints:
                found = run(agent.workspace.state_at(TASK, number))
                was = ledger.checkpoints.get(number, found)
                _require(found == was, f"restorable: checkpoint {number} was {was} and is {found}")
            ledger.going -= set(brought_back.checkpoints)
