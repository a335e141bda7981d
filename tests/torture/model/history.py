"""One history: processes and people on one machine, and a power cut at each of its moments."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.torture.model.actors import Agent, Person
from tests.torture.model.disk import World
from tests.torture.model.images import Image, images
from tests.torture.model.ledger import Broken, Ledger
from tests.torture.model.nodes import Folder
from tests.torture.model.recovery import Recovery


class Enough(BaseException):
    """So many broken promises were found that the rest need not be looked for."""


@dataclass(slots=True)
class Found:
    """What came out of histories."""

    states: int = 0
    moments: int = 0
    histories: int = 0
    broken: list[tuple[str, Broken]] = field(default_factory=list[tuple[str, Broken]])

    def add(self, other: Found) -> None:
        """Count another's with these."""
        self.states += other.states
        self.moments += other.moments
        self.histories += other.histories
        self.broken += other.broken


Script = Callable[["History"], None]


class History:
    """A machine on which a script runs; the power is cut before every call that changes something."""

    def __init__(
        self,
        seed: int | str,
        *,
        most: int = 1 << 30,
        stop_after: int = 1 << 30,
        cuts: float = 1.0,
        again: float = 0.0,
    ) -> None:
        self.seed = seed
        self.random = Random(f"{seed}")
        self._cutting = Random(f"{seed}:cuts")
        self.world = World(self.random)
        self.ledger = Ledger()
        self.times: dict[str, object] = {}
        self._most, self._stop_after, self._cuts, self._again = most, stop_after, cuts, again
        self._recovery: Recovery | None = None
        self._seen: set[tuple[int, int, bool]] = set()
        self.found = Found()
        self.label = ""
        self._make_project()
        self.world.before_change = self.cut

    def _make_project(self) -> None:
        project = Folder(self.world.number(), self.world.now_ns)
        self.world.root.happen({"project": project}, self.world.now_ns)
        self.world.root.flush()

    def play(self, label: str, script: Script) -> Found:
        """Run a script to its end."""
        self.label = label
        self.found.histories = 1
        try:
            script(self)
            self.cut(is_last=True)
        except Enough:
            pass
        except Broken as broken:
            self._note(broken)
        return self.found

    # --- who takes part -----------------------------------------------------------------------

    def agent(self, name: str, **times: object) -> Agent:
        """Give one more process."""
        return Agent(self.world, self.ledger, name, **{**self.times, **times})

    def person(self, name: str = "person") -> Person:
        """Give one more person."""
        return Person(self.world, self.ledger, name)

    def together(self, *works: Callable[[], None]) -> None:
        """Let several go on, one at a time, in an order drawn by the seed."""
        self.world.schedule.run(*works)

    # --- cutting the power --------------------------------------------------------------------

    @contextmanager
    def quietly(self) -> Generator[None, None, None]:
        """Let something happen that other scripts are about: the power stays on meanwhile."""
        self.world.before_change, before = _nothing, self.world.before_change
        try:
            yield
        finally:
            self.world.before_change = before

    def cut(self, *, is_last: bool = False) -> None:
        """Look at every state that a power cut right now may leave."""
        if not is_last and self._cutting.random() >= self._cuts:
            return
        recovery = self._recovery = self._recovery or Recovery(
            self._cutting, again=self._again, **self.times
        )
        self.found.moments += 1
        for image in images(self.world.root, self._cutting, self._most):
            key = image.key, self.ledger.version, image.is_whole
            if key in self._seen:
                continue
            self._seen.add(key)
            self._check(recovery, image)

    def _check(self, recovery: Recovery, image: Image) -> None:
        before = recovery.states
        try:
            recovery.check(image, self.ledger, self.world.now_ns)
        except Broken as broken:
            self._note(broken)
        finally:
            self.found.states += recovery.states - before

    def _note(self, broken: Broken) -> None:
        self.found.broken.append((f"{self.label}, seed {self.seed}", broken))
        if len(self.found.broken) >= self._stop_after:
            raise Enough


def _nothing() -> None:
    pass
