from __future__ import annotations

import copy
import pickle

import pytest

from holdfast_storage.core import errors
from holdfast_storage.core.errors import HoldfastError

ALL = [
    errors.InvalidValue("state", "it is wrong"),
    errors.TooLarge("state", 2_000, 1_000),
    errors.InvalidName("step", "a\nb", "it is wrong"),
    errors.Unreadable("a comma is missing", 3, 7, "state.json"),
    errors.NotSaved("the disk is full"),
    errors.Busy("report", 5.0),
    errors.UnsafeFile("state.json", "it is a link"),
    errors.NewerFormat(2, 1),
    errors.Damaged("the journal", "it is broken"),
    errors.JournalReplaced("report"),
    errors.Unknown("step", "one", ["two"]),
    errors.AlreadyThere("report"),
    errors.PartlyImported(["report"], errors.AlreadyThere("letters")),
    errors.Unavailable(7, "it was pruned"),
    errors.LoadFirst("report", 7),
    errors.RevisionNeeded("report", 63),
    errors.WouldDrop("report", ["a", "b"]),
    errors.RunClosed("report", 1, "ann"),
    errors.StepDone("report", "one", "failed"),
    errors.ClaimReplaced("report", "one", "bob"),
    errors.Unfinished("report", ["one"], ["q1"], 3),
    errors.InDoubt("report", "one", "key"),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.code)
def test_every_refusal_says_what_happened_and_what_to_do_next(error: HoldfastError) -> None:
    assert str(error)
    assert error.hint


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.code)
def test_every_refusal_carries_fields_to_act_upon(error: HoldfastError) -> None:
    assert error.fields()
    assert not any(name.startswith("_") for name in error.fields())


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.code)
def test_every_refusal_can_be_copied_and_sent_to_another_process(error: HoldfastError) -> None:
    error.hint = "Something said for this one only."

    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (str(again), again.hint) == (str(error), error.hint)
        assert again.fields() == error.fields()


def test_no_two_kinds_of_refusal_share_a_code() -> None:
    # Those of the server, if a test has imported it, are its own.
    kinds = [
        kind
        for kind in HoldfastError.__subclasses__()
        if kind.__module__.startswith("holdfast_storage.")
    ]

    assert {type(error) for error in ALL} == set(kinds)
    assert len({kind.code for kind in kinds}) == len(kinds)


def test_the_corrected_call_is_in_the_refusal() -> None:
    assert "revision=63" in errors.RevisionNeeded("report", 63).hint
    assert "holdfast reopen report one" in errors.StepDone("report", "one", "failed").hint
    assert "holdfast resolve report one" in errors.InDoubt("report", "one", "key").hint


def test_only_what_may_succeed_by_itself_is_worth_a_retry() -> None:
    assert {error.code for error in ALL if error.retryable} == {
        *("not_saved", "busy", "journal_replaced")
    }
