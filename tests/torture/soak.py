"""16 processes on one folder for hours, killed and edited under: nothing is lost, nothing grows.

python -m tests.torture.soak --hours 1 --json results.jsonl
"""

from __future__ import annotations

import random
import shutil
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture import acknowledged
from tests.torture.agent import Agent, edit
from tests.torture.forking import Forked, Said, wait_for
from tests.torture.harness import Row, main
from tests.torture.live_memory import LiveMemory

PROCESSES = 16
IMMORTALS = 4
SLOTS = 8
# Flat means flat: what is alive may not rise by more than this, nor may a single descriptor stay open.
MOST_MIB_PER_HOUR = 1.0
# RSS is also the holes between what is alive. Those may grow by two of Python's arenas, which is as
# little as can be told from none: an arena is mapped as a whole and touched little by little.
MOST_NEW_HOLES_MIB = 2.0
# Objects of Python's own allocator are a hundred bytes or so on average: this many are half a MiB.
MOST_BLOCKS_PER_HOUR = 5000.0
# A process remembers what it believes of the last 256 tasks, how to go on in them, and how far the
# journals of 1,024 before them were read; and each of its up to 16 threads has a heap of its own. It
# grows while it meets the first of them, and then a little until its heaps have the holes for whatever
# comes. So tasks come quickly, 80 a minute, several at once, and a line is fitted after 2,000.
WARM_UP_SECONDS = 1500
SHORTEST_FIT_SECONDS = 1200


@dataclass(frozen=True)
class Setting:
    """One soak: where, how long, how fast."""

    root: Path
    seed: int
    seconds: float
    think_seconds: float
    kill_seconds: float
    task_seconds: float
    began: float = field(default_factory=time.monotonic)

    def task(self, chance: random.Random) -> str:
        """Choose a task: mostly one of those in work now, at times an old one taken up again.

        A task is in work for a while and then replaced by another, so every process meets more and
        more of them, and none grows without end.
        """
        slot = chance.randrange(SLOTS)
        passed = time.monotonic() - self.began + slot * self.task_seconds / SLOTS
        generation = int(passed / self.task_seconds)
        if generation and chance.random() < 0.1:
            generation = chance.randrange(generation)
        return f"work-{slot}-{generation}"

    def is_over(self) -> bool:
        """Say whether the time has come to end."""
        return time.monotonic() - self.began > self.seconds


# --- the one who watches ----------------------------------------------------------------------


@dataclass
class Sample:
    """What one process held at one moment."""

    second: float
    rss_mib: float
    descriptors: int
    alive: LiveMemory

    @property
    def alive_mib(self) -> float:
        """What either allocator has given out and not got back."""
        return (self.alive.block_bytes + self.alive.malloc_bytes) / 2**20


class Soak:
    """Starts, kills, replaces and watches the others."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._chance = random.Random(setting.seed)
        self._agents: list[Forked] = []
        self._started = 0
        self._acknowledged: list[Said] = []
        self.did: Counter[str] = Counter()
        self.kills = 0
        self.violations: list[str] = []
        self.samples: dict[int, list[Sample]] = {}

    def run(self) -> None:
        """Let everybody work until the time is over, then look at what is there."""
        setting = self._setting
        person = Forked(
            lambda say: edit(
                setting.root,
                setting.seed,
                setting.task,
                setting.think_seconds,
                setting.is_over,
                say,
            )
        )
        self._agents = [self._started_agent(place) for place in range(PROCESSES)]
        self.samples = {agent.pid: [] for agent in self._agents[:IMMORTALS]}
        kill_at = time.monotonic()
        while not setting.is_over():
            self._listen([person, *self._agents], kill_at - time.monotonic())
            if time.monotonic() >= kill_at:
                self._kill_one()
                kill_at = time.monotonic() + self._chance.expovariate(1 / setting.kill_seconds)
        self._let_end([person, *self._agents])
        self._judge()

    def _started_agent(self, place: int) -> Forked:
        name = f"agent{place:02}.{self._started}"
        self._started += 1
        setting = self._setting
        return Forked(
            lambda say: Agent(
                setting.root, name, setting.seed, setting.task, setting.think_seconds, say
            ).work(setting.is_over)
        )

    def _listen(self, children: list[Forked], seconds: float) -> None:
        for child in wait_for(children, max(0.0, seconds)):
            self._take(child.heard(), child.pid)
            if child.is_over and not self._setting.is_over():
                raise RuntimeError(f"a process ended by itself: {self.violations}")

    def _take(self, said: list[Said], pid: int = 0) -> None:
        for words in said:
            if words[0] in acknowledged.KINDS:
                self._acknowledged.append(words)
            elif words[0] == "alive":
                self._sample(pid, LiveMemory(*words[1:]))
            elif words[0] == "failed":
                self.violations.append(words[1])
            else:
                self.did[f"{words[0]} {words[1]}"] += 1

    def _kill_one(self) -> None:
        place = self._chance.randrange(IMMORTALS, PROCESSES)
        self._take(self._agents[place].end())
        self._agents[place] = self._started_agent(place)
        self.kills += 1

    def _sample(self, pid: int, alive: LiveMemory) -> None:
        """Look at a process that is never killed, at the moment it tells what it keeps."""
        if pid in self.samples:
            second = time.monotonic() - self._setting.began
            descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            self.samples[pid].append(Sample(second, _rss_mib(pid), descriptors, alive))

    def _let_end(self, children: list[Forked]) -> None:
        until = time.monotonic() + 120
        while children:
            for child in wait_for(children, max(0.0, until - time.monotonic())):
                self._take(child.heard())
            for child in [each for each in children if each.is_over]:
                self._take(child.joined())
                children.remove(child)
            if children and time.monotonic() > until:
                self.violations.append(f"{len(children)} processes did not end")
                for child in children:
                    child.signal(signal.SIGKILL)

    def _judge(self) -> None:
        root = self._setting.root
        tasks = sorted({words[1] for words in self._acknowledged})
        self.violations += acknowledged.lost(root, self._acknowledged)
        self.violations += acknowledged.unhealthy(root, tasks)
        self.violations += grown(self.samples)

    @property
    def count(self) -> int:
        """How much was acknowledged."""
        return len(self._acknowledged)


def _rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


# --- flat or not ------------------------------------------------------------------------------


def settled(samples: list[Sample]) -> list[Sample]:
    """Give the samples from when the caches were full; none if that is too short to fit a line to."""
    warm = [sample for sample in samples if sample.second >= WARM_UP_SECONDS]
    is_enough = warm and warm[-1].second - warm[0].second >= SHORTEST_FIT_SECONDS * 0.99
    return warm if is_enough else []


def kept_open(samples: list[Sample]) -> tuple[float, float]:
    """Give how many descriptors were open most of the time, in the first third of it and in the last.

    What is open only while a file is read is no leak, nor what is closed while a task is made room for.
    """
    third = len(samples) // 3
    first, last = (
        statistics.median(sample.descriptors for sample in part)
        for part in (samples[:third], samples[-third:])
    )
    return first, last


def rss_risen(samples: list[Sample]) -> float:
    """Give by how many MiB RSS was higher in the last tenth of the time than in the first."""
    tenth = max(1, len(samples) // 10)
    first, last = (
        statistics.median(sample.rss_mib for sample in part)
        for part in (samples[:tenth], samples[-tenth:])
    )
    return last - first


def _hours(samples: list[Sample]) -> float:
    return (samples[-1].second - samples[0].second) / 3600


def slope_per_hour(samples: list[Sample], what: Callable[[Sample], float]) -> float:
    """Fit a line."""
    line = statistics.linear_regression([s.second for s in samples], [what(s) for s in samples])
    return line.slope * 3600


@dataclass(frozen=True)
class Rises:
    """By how much what one process held rose in an hour, as fitted lines tell."""

    alive_mib: float
    malloc_mib: float
    blocks: float
    rss_mib: float

    @classmethod
    def of(cls, samples: list[Sample]) -> Rises:
        return cls(
            slope_per_hour(samples, lambda sample: sample.alive_mib),
            slope_per_hour(samples, lambda sample: sample.alive.malloc_bytes / 2**20),
            slope_per_hour(samples, lambda sample: sample.alive.blocks),
            slope_per_hour(samples, lambda sample: sample.rss_mib),
        )


def grown(samples: dict[int, list[Sample]]) -> Iterator[str]:
    """Name the processes that hold more and more; in less than 45 minutes that cannot be told."""
    for pid, of_one in samples.items():
        if not (warm := settled(of_one)):
            if any(map(settled, samples.values())):
                yield f"process {pid} has not told what it keeps as long as others have"
            continue
        rises = Rises.of(warm)
        if (more := rss_risen(warm)) > MOST_NEW_HOLES_MIB + MOST_MIB_PER_HOUR * _hours(warm):
            yield f"process {pid} has {more:.1f} MiB more of the machine's memory"
        if rises.alive_mib > MOST_MIB_PER_HOUR:
            yield f"process {pid} keeps {rises.alive_mib:.1f} MiB more alive an hour"
        elif rises.malloc_mib > MOST_MIB_PER_HOUR:
            # What is let go of in one allocator is no excuse for the other.
            yield f"process {pid} keeps {rises.malloc_mib:.1f} MiB more in malloc an hour"
        if rises.blocks > MOST_BLOCKS_PER_HOUR:
            yield f"process {pid} keeps {rises.blocks:,.0f} objects more alive an hour"
        before, after = kept_open(warm)
        if after > before:
            yield f"process {pid} kept {before:g} descriptors open, and in the end {after:g}"


def _held(samples: dict[int, list[Sample]]) -> str:
    """Say what the processes that were never killed held, from when their caches were full."""
    told: list[str] = []
    for of_one in samples.values():
        if not (warm := settled(of_one)):
            held = f"{of_one[-1].rss_mib:.0f} MiB, " if of_one else ""
            return f"{held}too short to see whether that grows"
        rises = Rises.of(warm)
        before, after = kept_open(warm)
        told.append(
            f"{warm[0].rss_mib:.1f} to {warm[-1].rss_mib:.1f} MiB ({rises.rss_mib:+.2f}/h), alive "
            f"{warm[-1].alive_mib:.1f} MiB ({rises.alive_mib:+.2f}/h, {rises.malloc_mib:+.2f} of it in "
            f"malloc), {warm[-1].alive.blocks:,} "
            f"objects ({rises.blocks:+,.0f}/h), {before:g} to {after:g} fds"
        )
    return "; ".join(told)


def soaked(seed: int, seconds: float, **pace: float) -> Row:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-soak-"))
    soak = Soak(Setting(folder / ".holdfast", seed, seconds, **pace))
    soak.run()
    if not soak.violations:
        shutil.rmtree(folder)
    busy = soak.did["refused busy"]
    remark = f"{soak.kills} kills, {busy} busy; {_held(soak.samples)}"
    if soak.violations:
        remark += f"; kept {folder}"
    return Row("soak", soak.count, "acknowledged", seed, tuple(soak.violations[:50]), remark)


def short(seed: int) -> Row:
    """Half a minute: nothing lost, nothing left over, check clean."""
    return soaked(seed, 20, think_seconds=0.2, kill_seconds=0.3, task_seconds=5)


def long(seed: int, hours: float) -> Row:
    """As long as you like, at a pace that leaves others room to work."""
    return soaked(seed, hours * 3600, think_seconds=0.4, kill_seconds=2, task_seconds=6)


if __name__ == "__main__":
    main(short, by_hours=long)
