"""The comparison with the specification finds bugs that were planted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase
from tests.torture import model

from holdfast_storage.core import advance, merge
from holdfast_storage.core.decide import save, steps
from holdfast_storage.core.decide.context import Decision


def found() -> tuple[str, ...]:
    return model.many(seed=1, count=120, phases=[Phase.generate]).violations


@pytest.mark.timeout(120)
def test_without_a_planted_bug_nothing_is_found() -> None:
    assert model.many(seed=1, count=20).violations == ()


def _never_already(*arguments: Any) -> Decision | None:
    return None


def _all_of_it(base: Any, current: Any, wanted: Any, *, prefer: str) -> Any:
    return merge.Merged(wanted, ())


def _never_newest(*arguments: Any) -> bool:
    return False


def _keep_claims(fold: Any, name: str, record: Any) -> None:
    return None


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("place", "name", "bug"),
    [
        (steps, "_already", _never_already),
        (merge, "three_way", _all_of_it),
        (save, "_is_the_newest", _never_newest),
        (advance, "_reopen_step", _keep_claims),
        (steps, "_refuse_foreign_claim", _never_already),
    ],
    ids=[
        "a step done twice",
        "the last save wins",
        "a save for nothing",
        "reopening does nothing",
        "any claim confirms",
    ],
)
def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, bug: Any
) -> None:
    monkeypatch.setattr(place, name, bug)

    assert found()
