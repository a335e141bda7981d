"""Every planted bug is caught, and by the harness that is said to catch it."""

from __future__ import annotations

import pytest
from tests.torture.crash_points import Cutter
from tests.torture.direct_engine import no_event_loop
from tests.torture.failing_disk import FAULTS
from tests.torture.io_errors import until_none_fires
from tests.torture.memory_disk import MemoryDisk
from tests.torture.mutants import CRASH_MUTANTS, DISK_MUTANTS, DiskMutant, Mutant
from tests.torture.workloads import Story

from holdfast_storage.engines.folder.disk import Disk

_STATES = 400
_MISFITS = ("TypeError:", "AttributeError:", "NameError:")


def _cutter(mutant: Mutant, story: Story, seed: int) -> Cutter:
    return Cutter(story, seed, at_most=_STATES, at_a_call=mutant.at_a_call)


def _first_violation(mutant: Mutant) -> str:
    with no_event_loop():
        for seed, story in enumerate(mutant.stories, start=1):
            if violation := _cutter(mutant, story, seed).run():
                return violation
    return ""


@pytest.mark.parametrize("mutant", CRASH_MUTANTS, ids=lambda mutant: mutant.name)
def test_cutting_the_power_catches(mutant: Mutant) -> None:
    with mutant.planted():
        violation = _first_violation(mutant)

    assert violation
    # One that does not fit the code any more is caught by itself, and plants nothing.
    assert not any(error in violation for error in _MISFITS)


@pytest.mark.parametrize("mutant", DISK_MUTANTS, ids=lambda mutant: mutant.name)
def test_failing_calls_catches(mutant: DiskMutant) -> None:
    [fault] = [fault for fault in FAULTS if fault.name == mutant.fault]
    with mutant.planted(), no_event_loop():
        _, violations = until_none_fires(mutant.operation, fault, 2, is_cold=False)

    assert violations


def test_there_are_at_least_twenty_of_them() -> None:
    assert len({mutant.name for mutant in (*CRASH_MUTANTS, *DISK_MUTANTS)}) >= 20


def test_the_file_system_in_memory_has_everything_the_real_one_has() -> None:
    # One that is missing would go to the real disk, and show nothing.
    offered = {name for name in vars(Disk) if not name.startswith("_")}

    assert offered - vars(MemoryDisk).keys() <= {"wait"}
