"""What goes on while the power is cut: named scripts, and others drawn by a seed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress

from tests.torture.model.actors import LARGE, MAY_FAIL, Agent, Person
from tests.torture.model.disk import ModelDisk
from tests.torture.model.history import History, Script
from tests.torture.model.schedule import Killed

# A few lines fill a segment.
SHORT_SEGMENT = 400

SCRIPTS: dict[str, Script] = {}
# These end at another call with each seed, so one seed says little about them.
MANY_SEEDS: set[str] = set()


def script(made: Script) -> Script:
    SCRIPTS[made.__name__.replace("_", " ")] = made
    return made


def many_seeds(made: Script) -> Script:
    MANY_SEEDS.add(made.__name__.replace("_", " "))
    return script(made)


# --- one process ------------------------------------------------------------------------------


@script
def a_first_write(history: History) -> None:
    agent = history.agent("a")
    agent.commit()
    agent.commit()
    agent.close()


@script
def steps_a_batch_and_a_large_save(history: History) -> None:
    agent = history.agent("a")
    agent.commit()
    agent.commit(count=5)
    agent.commit(op="save", size=LARGE)
    agent.commit(count=3, size=LARGE // 4)
    agent.commit()


@script
def segments_roll(history: History) -> None:
    history.times["segment_bytes"] = SHORT_SEGMENT
    agent = history.agent("a")
    for _ in range(3):
        agent.commit(size=150)
        agent.commit(count=4, size=150)


@script
def a_second_run_opens(history: History) -> None:
    agent = history.agent("a")
    agent.commit()
    agent.commit(opens=True)
    agent.commit_drafts([agent.draft(), agent.draft(opens=True), agent.draft()])
    agent.commit()


@script
def prune_and_restore(history: History) -> None:
    history.times["segment_bytes"] = SHORT_SEGMENT
    agent = history.agent("a")
    agent.commit()
    for _ in range(3):
        agent.commit(op="save", size=300)
    name = agent.rewrite(3)
    agent.commit()
    agent.restore(name)
    agent.commit()


@script
def files_are_kept(history: History) -> None:
    agent = history.agent("a")
    agent.commit()
    agent.keep("conflicts", "one.json", b'{"lost": 1}')
    agent.keep("conflicts", "one.json", b'{"lost": 2}')
    agent.keep("quarantine", "two.txt", b"half a li" * 600)
    agent.keep("checkpoints", "0001.json", b'{"checkpoint": 1}')
    agent.keep("checkpoints", "0001.json", b'{"checkpoint": 1, "again": true}')
    agent.note_head()
    agent.folder.log_load({"run": 1})


# --- the view ---------------------------------------------------------------------------------


@script
def views_are_published(history: History) -> None:
    agent = history.agent("a")
    agent.commit()
    for _ in range(3):
        agent.render()
        agent.note_head()
        agent.commit()


@script
def an_edit_by_rename(history: History) -> None:
    agent, person = history.agent("a"), history.person()
    agent.commit()
    agent.render()
    person.save_by_rename()
    agent.commit()
    agent.render()
    agent.commit()


@script
def an_edit_in_place(history: History) -> None:
    agent, person = history.agent("a"), history.person()
    agent.commit()
    agent.render()
    person.save_in_place(has_name=True)
    agent.commit()
    agent.render()
    person.save_in_place(has_name=True)


@many_seeds
def a_person_saves_while_a_view_is_published(history: History) -> None:
    _person_and_agents(history, agents=1)


@many_seeds
def a_person_saves_while_two_agents_publish(history: History) -> None:
    _person_and_agents(history, agents=2)


@many_seeds
def where_names_cannot_be_exchanged(history: History) -> None:
    history.world.can_exchange = False
    _person_and_agents(history, agents=1)


@many_seeds
def where_nobody_can_tell_what_is_open(history: History) -> None:
    history.world.can_lease = False
    _person_and_agents(history, agents=1)


def _person_and_agents(history: History, agents: int) -> None:
    first = history.agent("a")
    with history.quietly():
        first.commit()
        first.render()
    others = [first, *(history.agent(name) for name in "bc"[: agents - 1])]
    person = history.person()

    def edit() -> None:
        for _ in range(2):
            _draw_save(history, person)

    def publish(agent: Agent) -> Callable[[], None]:
        def work() -> None:
            for _ in range(2):
                agent.commit()
                agent.render()

        return work

    history.together(edit, *(publish(agent) for agent in others))
    first.commit()
    first.render()


def _draw_save(history: History, person: Person) -> None:
    save = history.random.choice([person.save_by_rename, person.save_in_place])
    save(is_flushed=history.random.random() < 0.8, size=history.random.choice([20, 5000]))


@many_seeds
def an_editor_dies_in_the_middle_of_a_save(history: History) -> None:
    agent, person = history.agent("a"), history.person()
    with history.quietly():
        agent.commit()
        agent.render()
    person.disk.kill_at = history.random.randint(1, 4)
    with suppress(Killed):
        person.save_in_place(size=5000)
    agent.commit()
    agent.render()
    agent.commit()


# --- several processes ------------------------------------------------------------------------


@many_seeds
def three_write_first(history: History) -> None:
    agents = [history.agent(name) for name in "abc"]
    history.together(*(agent.commit for agent in agents))  # type: ignore[misc]


@many_seeds
def three_write_and_read(history: History) -> None:
    history.times["segment_bytes"] = history.random.choice([SHORT_SEGMENT, 1 << 20])
    agents = [history.agent(name) for name in "abc"]
    with history.quietly():
        agents[0].commit()

    def work(agent: Agent) -> Callable[[], None]:
        def run() -> None:
            agent.commit()
            agent.read()
            agent.commit(count=2)

        return run

    history.together(*map(work, agents))


@many_seeds
def one_prunes_while_another_writes(history: History) -> None:
    history.times["segment_bytes"] = SHORT_SEGMENT
    one, other = history.agent("a"), history.agent("b")
    with history.quietly():
        one.commit()
        for _ in range(3):
            one.commit(op="save", size=300)

    def prune() -> None:
        name = one.rewrite(2)
        one.commit()
        one.restore(name)

    def write() -> None:
        for _ in range(3):
            other.commit()
            other.read(0)

    history.together(prune, write)


# --- killed, and the others go on -------------------------------------------------------------


@many_seeds
def a_writer_is_killed_and_another_reads(history: History) -> None:
    one, other = history.agent("a"), history.agent("b")
    with history.quietly():
        one.commit()
        other.read()
    _kill(history, one.disk, lambda: one.commit(count=2, size=3000), within=4)
    other.read()
    history.cut(is_last=True)
    other.commit()
    other.read()


@many_seeds
def a_first_writer_is_killed(history: History) -> None:
    one, other = history.agent("a"), history.agent("b")
    _kill(history, one.disk, lambda: one.commit(), within=50)
    other.read()
    history.cut(is_last=True)
    other.commit()


@many_seeds
def a_writer_is_killed_while_a_segment_rolls(history: History) -> None:
    history.times["segment_bytes"] = SHORT_SEGMENT
    one, other = history.agent("a"), history.agent("b")
    with history.quietly():
        one.commit(count=4, size=150)
        other.read()
    _kill(history, one.disk, lambda: one.commit(count=3, size=200), within=12)
    other.read()
    history.cut(is_last=True)
    other.commit()


@many_seeds
def a_pruner_is_killed(history: History) -> None:
    history.times["segment_bytes"] = SHORT_SEGMENT
    one, other = history.agent("a"), history.agent("b")
    with history.quietly():
        one.commit()
        for _ in range(3):
            one.commit(op="save", size=300)
        other.read()
    _kill(history, one.disk, lambda: one.rewrite(2), within=50)
    other.read(0)
    other.commit()


@many_seeds
def a_tail_is_torn(history: History) -> None:
    """A kill in the middle of a write leaves part of it, which others find."""
    one, other = history.agent("a"), history.agent("b")
    with history.quietly():
        one.commit()
        other.read()
    one.disk.shortening = lambda length: history.random.randrange(length)
    _kill(history, one.disk, lambda: one.commit(count=2, size=6000), within=2, at=2)
    other.read()
    history.cut(is_last=True)
    other.commit()
    other.read()


def _kill(
    history: History, disk: ModelDisk, work: Callable[[], object], *, within: int, at: int = 0
) -> None:
    disk.kill_at = disk.changes + (at or history.random.randint(1, within))
    with suppress(Killed):
        work()
        disk.kill()


# --- a disk that fails ------------------------------------------------------------------------


@many_seeds
def a_flush_fails(history: History) -> None:
    history.times["segment_bytes"] = history.random.choice([SHORT_SEGMENT, 1 << 20])
    one, other = history.agent("a"), history.agent("b")
    with history.quietly():
        one.commit()
        other.read()
    fail_flushes(history, one, most=2)
    for _ in range(3):
        one.commit(count=history.random.randint(1, 2))
    other.read()
    other.commit()
    one.disk.trouble = None
    one.commit()


@many_seeds
def a_writer_is_killed_and_its_flush_fails(history: History) -> None:
    one, other = history.agent("a"), history.agent("b")
    with history.quietly():
        one.commit()
        other.read()
    _kill(history, one.disk, lambda: one.commit(count=2), within=3)
    fail_flushes(history, other, most=1)
    other.may_fail = MAY_FAIL
    other.attempt(other.read)
    other.commit()
    other.disk.trouble = None
    other.read()
    other.commit()


@many_seeds
def writes_fall_short(history: History) -> None:
    one, other = history.agent("a"), history.agent("b")
    with history.quietly():
        one.commit()
    one.may_fail = MAY_FAIL
    one.disk.shortening = lambda length: history.random.randrange(length)
    one.commit(count=2, size=200)
    other.read()
    other.commit()
    one.disk.shortening = None
    one.commit()


def fail_flushes(history: History, agent: Agent, most: int) -> None:
    """Let some of the next flushes fail."""
    agent.may_fail = MAY_FAIL
    wanted = {history.random.randint(1, 8) for _ in range(most)}
    count = 0

    def trouble(name: str, _: int) -> None:
        nonlocal count
        if name in ("flush", "flush_data"):
            count += 1
            if count in wanted:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    agent.disk.trouble = trouble


# --- drawn by a seed --------------------------------------------------------------------------


def drawn(history: History) -> None:
    """Anything, by anybody, in any order."""
    random = history.random
    history.times["segment_bytes"] = random.choice([SHORT_SEGMENT, 1500, 1 << 20])
    history.world.can_exchange = random.random() < 0.85
    history.world.can_lease = random.random() < 0.85
    agents = [history.agent(name) for name in "abc"[: random.randint(1, 3)]]
    works = [_drawn_work(history, agent, is_pruner=agent is agents[0]) for agent in agents]
    if random.random() < 0.7:
        agents[0].commit()
        if random.random() < 0.8:
            agents[0].render()
    if random.random() < 0.35:
        victim = random.choice(agents)
        victim.disk.kill_at = victim.disk.changes + random.randint(1, 60)
    if random.random() < 0.25:
        fail_flushes(history, random.choice(agents), most=2)
    if random.random() < 0.6:
        person = history.person()
        works.append(lambda: [_draw_save(history, person) for _ in range(2)] and None)
    history.together(*works)
    last = history.agent("z")
    last.read()
    last.commit()
    last.render()


def _drawn_work(history: History, agent: Agent, *, is_pruner: bool) -> Callable[[], None]:
    random = history.random
    pruned: list[str] = []

    def prune() -> None:
        if pruned:
            agent.restore(pruned.pop())
        elif name := agent.rewrite(random.randint(1, 3)):
            pruned.append(name)

    def keep() -> None:
        kind = random.choice(["conflicts", "quarantine"])
        agent.keep(kind, random.choice(["1", "2"]), random.randbytes(random.randint(0, 5000)))  # type: ignore[arg-type]

    choices: list[Callable[[], object]] = [
        agent.commit,
        lambda: agent.commit(count=random.randint(1, 5), size=random.choice([10, 300, LARGE // 2])),
        lambda: agent.commit(op="save", size=random.choice([10, 300, LARGE])),
        lambda: agent.commit(opens=True),
        agent.read,
        lambda: agent.read(0),
        agent.render,
        agent.render,
        agent.note_head,
        keep,
    ]
    if is_pruner:
        choices += [prune, prune]

    def work() -> None:
        for _ in range(random.randint(2, 5)):
            agent.attempt(random.choice(choices))
            agent.check_released()

    return work
