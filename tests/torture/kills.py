"""8 writers and one editing person, killed at random: what anybody was told is kept is there.

python -m tests.torture.kills --count 20000 --json results.jsonl
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture import acknowledged
from tests.torture.agent import Agent, edit
from tests.torture.forking import Forked, Said, wait_for
from tests.torture.harness import Row, main

WRITERS = 8
TASKS = 3
# So many to a workspace; then it is looked through and the next one begins, so that all stay small.
KILLS_IN_A_ROUND = 100
LONGEST_LIFE_SECONDS = 0.05
THINK_SECONDS = 0.004


@dataclass
class Round:
    """One workspace and what happened in it."""

    root: Path
    seed: int
    kills: int
    started: int = 0
    said: Counter[str] = field(default_factory=Counter[str])
    acknowledged: list[Said] = field(default_factory=list[Said])
    violations: list[str] = field(default_factory=list[str])

    def run(self) -> None:
        """Kill and replace so often, then kill everybody at once and look at what is there."""
        chance = random.Random(self.seed)
        evening = self.root.with_name("evening")
        person = Forked(lambda say: edit(self.root, self.seed, _task, 0.02, evening.exists, say))
        writers = [self._started() for _ in range(WRITERS)]
        for _ in range(self.kills):
            self._listen([person, *writers], chance.uniform(0, LONGEST_LIFE_SECONDS))
            victim = chance.randrange(WRITERS)
            self._take(writers[victim].end())
            writers[victim] = self._started()
        for each in writers:
            self._take(each.end())
        # An editor that dies while it saves may leave half a file, and is not ours to answer for.
        evening.touch()
        self._take(person.joined())
        self._judge()

    def _started(self) -> Forked:
        name, self.started = f"writer-{self.started}", self.started + 1
        agent = Agent
        return Forked(
            lambda say: agent(self.root, name, self.seed, _task, THINK_SECONDS, say).work(
                lambda: False
            )
        )

    def _listen(self, children: list[Forked], seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for child in wait_for(children, left):
                self._take(child.heard())
                if child.is_over:
                    raise RuntimeError(f"a process ended by itself: {self.violations}")

    def _take(self, said: list[Said]) -> None:
        for words in said:
            self.said[words[0]] += 1
            if words[0] in acknowledged.KINDS:
                self.acknowledged.append(words)
            elif words[0] == "failed":
                self.violations.append(words[1])

    def _judge(self) -> None:
        tasks = sorted({words[1] for words in self.acknowledged})
        self.violations += acknowledged.lost(self.root, self.acknowledged)
        self.violations += acknowledged.unhealthy(self.root, tasks)


def _task(chance: random.Random) -> str:
    return f"task-{chance.randrange(TASKS)}"


def long(seed: int, count: int) -> Row:
    """Kill so many."""
    chance = random.Random(seed)
    violations: list[str] = []
    said: Counter[str] = Counter()
    killed = 0
    while killed < count and not violations:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-kills-"))
        kills = min(KILLS_IN_A_ROUND, count - killed)
        one = Round(folder / ".holdfast", chance.randrange(2**32), kills)
        one.run()
        killed += kills
        said += one.said
        if one.violations:
            violations += [f"round of seed {one.seed}, kept in {folder}:", *one.violations[:20]]
        else:
            shutil.rmtree(folder)
    kept = sum(said[kind] for kind in acknowledged.KINDS)
    remark = f"{kept} acknowledged, {said['edited']} of them edits"
    return Row("kills", killed, "SIGKILLs", seed, tuple(violations), remark)


def short(seed: int) -> Row:
    """Kill a few hundred."""
    return long(seed, 300)


if __name__ == "__main__":
    main(short, by_count=long)
