"""The fold: what the records of a run come to, whoever reads them and from where."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.core.stories import Story, started

from holdfast_storage.core import delta, strict_json
from holdfast_storage.core.advance import advance
from holdfast_storage.core.decide.state import last_writers
from holdfast_storage.core.delta import MISSING
from holdfast_storage.core.errors import HoldfastError
from holdfast_storage.core.fold import CHANGES_BYTES_KEPT, Changed, Changes, Fold
from holdfast_storage.core.limits import Settings
from holdfast_storage.core.records import DamagedLine, Draft, Place, Record, encode_line
from holdfast_storage.core.times import stamp

# --- what is read ------------------------------------------------------------------------------


def test_a_new_task_is_active_and_empty() -> None:
    fold = Fold("report")

    assert (fold.run, fold.status, fold.state, fold.seq) == (0, "active", {}, 0)


def test_what_was_read_before_is_passed_over() -> None:
    story, agent = started({"a": 1})
    agent.mark("one")

    advance(story.fold, story.entries())

    assert story.fold.count("done") == 1
    assert story.fold.steps["one"].attempts == 1
    assert comparable(story.fold) == comparable(story.read_again())


def test_results_are_not_kept_only_where_they_lie() -> None:
    story, agent = started()

    outcome = agent.mark("one", {"pages": 12})

    assert outcome.record is not None
    assert story.fold.steps["one"].place == outcome.record.place
    assert "pages" not in repr(story.fold)


def test_upkeep_is_no_sign_of_life() -> None:
    story, _ = started({"a": 1})
    before = (story.fold.updated_at, story.fold.updated_by)
    story.later(hours=1)

    story.person().pin(1)
    story.record("prune", checkpoints=[], trash="")

    assert (story.fold.updated_at, story.fold.updated_by) == before


def test_the_boots_that_wrote_are_remembered() -> None:
    story, _ = started()
    written = Record(2, "x", story.at, "bob", "done", {"step": "a"}, boot="boot-2")

    advance(story.fold, [written])

    assert story.fold.boots == {"boot-2": story.at}


def test_a_record_of_a_later_version_makes_a_problem_and_no_crash() -> None:
    story, agent = started({"a": 1})

    story.record("teleport", by="ann", step="x")
    agent.mark("one")

    assert story.fold.is_damaged
    assert story.status_of("one") == "done"


@pytest.mark.parametrize(
    ("op", "body"),
    [
        ("done", {}),
        ("answer", {"question_id": "q9", "answer": 1}),
        ("edit", {"base": 1, "digest": "d", "mtime_ns": 1, "steps": ["a"]}),
        ("save", {"run": 1, "checkpoint": 2, "from": 1, "changes": {"drop": ["/not-there"]}}),
        ("begin", {"step": "a", "claim": "c", "process": "p", "until": "noon"}),
    ],
)
def test_a_record_that_does_not_fit_makes_a_problem_and_the_next_save_full(
    op: str, body: dict[str, Any]
) -> None:
    story, agent = started({"a": 1})

    story.record(op, by="ann", **body)

    assert story.fold.is_damaged
    assert "state" in agent.save({"b": 2}).body


def test_only_so_many_problems_are_listed() -> None:
    story, _ = started()

    for _ in range(30):
        story.record("teleport")

    assert len(story.fold.problems) == 20


# --- runs --------------------------------------------------------------------------------------


def test_the_next_run_starts_fresh_and_goes_on_counting_checkpoints() -> None:
    story, agent = started({"a": 1}, plan=["one"], goal="g", next="n")
    agent.mark("one")
    agent.finish()

    agent.load().save({"b": 2})

    fold = story.fold
    assert (fold.run, fold.checkpoint, fold.status) == (2, 2, "active")
    assert (fold.state, fold.goal, fold.next, fold.order) == ({"b": 2}, "", "", [])


def test_history_keeps_the_checkpoints_of_closed_runs() -> None:
    story, agent = started({"a": 1})
    agent.finish()
    agent.load().save({"b": 2})

    assert list(story.read_again().checkpoints) == [2]
    assert list(story.read_again(history=True).checkpoints) == [1, 2]


@pytest.mark.parametrize("first", ["mark", "begin", "ask"])
def test_any_write_can_open_a_run(first: str) -> None:
    story = Story()
    agent = story.agent()

    getattr(agent, first)("one")

    assert story.fold.run == 1
    assert story.fold.opened_seq == 1
    assert comparable(story.read_run()) == comparable(story.fold)


# --- warm and cold -----------------------------------------------------------------------------

STEPS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["", " ", "x", "y"])
VALUES = st.sampled_from([None, 1, 2, "x", [1], [1, 2], {"k": 1}, {"k": {"l": 2}}, "long" * 50])
STATES = st.dictionaries(st.sampled_from("pqr"), VALUES, max_size=2)
LISTS = st.none() | st.dictionaries(st.sampled_from("lm"), st.lists(st.integers(0, 9)), max_size=1)
WHO = st.sampled_from(["ann", "bob"])

ACTS = st.one_of(
    st.tuples(st.just("save"), WHO, STATES | st.none(), LISTS, TEXTS, st.lists(STEPS, max_size=3)),
    st.tuples(st.just("mark"), WHO, STEPS, st.sampled_from(["done", "failed", "skipped"]), STATES),
    st.tuples(st.just("begin"), WHO, STEPS, st.booleans()),
    st.tuples(st.just("load"), WHO),
    st.tuples(st.just("finish"), WHO, st.sampled_from(["done", "paused", "failed", "abandoned"])),
    st.tuples(st.just("ask"), WHO, st.sampled_from(["q?", "r?"])),
    st.tuples(st.just("answer")),
    st.tuples(st.just("resolve"), STEPS, st.booleans()),
    st.tuples(st.just("reopen"), STEPS),
    st.tuples(st.just("edit"), STATES, TEXTS, st.dictionaries(STEPS, st.just("done"), max_size=2)),
    st.tuples(st.just("pause")),
    st.tuples(st.just("later")),
)


class Theatre:
    """Plays acts that make sense and passes over those that are refused."""

    def __init__(self) -> None:
        self.story = Story(settings=Settings(lease_seconds=60))
        self.agents = {name: self.story.agent(name) for name in ("ann", "bob")}
        self.person = self.story.person()

    def play(self, act: tuple[Any, ...]) -> None:
        with suppress(HoldfastError):
            getattr(self, "_" + act[0])(*act[1:])

    def _save(self, who: str, state: Any, append: Any, next: str, plan: list[str]) -> None:
        self.agents[who].save(state, append=append, next=next, plan=plan)

    def _mark(self, who: str, step: str, outcome: str, state: Any) -> None:
        self.agents[who].mark(step, {"by": who}, outcome=outcome, state=state)

    def _begin(self, who: str, step: str, retry: bool) -> None:
        self.agents[who].begin(step, retry=retry)

    def _load(self, who: str) -> None:
        self.agents[who].load()

    def _finish(self, who: str, outcome: str) -> None:
        self.agents[who].finish(outcome)

    def _ask(self, who: str, question: str) -> None:
        self.agents[who].ask(question, expires_in_hours=1)

    def _answer(self) -> None:
        self.person.answer("q1", "yes")

    def _resolve(self, step: str, happened: bool) -> None:
        self.person.resolve(step, happened=happened)

    def _reopen(self, step: str) -> None:
        self.person.reopen(step)

    def _edit(self, state: Any, goal: str, plan: Any) -> None:
        if self.story.fold.run:
            self.person.edits(state=state, goal=goal, plan=plan)

    def _pause(self) -> None:
        self.person.finish("paused")

    def _later(self) -> None:
        self.story.later(minutes=2)


def played(acts: list[tuple[Any, ...]]) -> Story:
    theatre = Theatre()
    for act in acts:
        theatre.play(act)
    return theatre.story


def comparable(fold: Fold, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """Give everything a fold holds, as far as it can be compared."""
    ordered = {"unfinished", "recent_steps", "changes"}
    return {
        each.name: list(getattr(fold, each.name))
        if each.name in ordered
        else getattr(fold, each.name)
        for each in fields(Fold)
        if each.name not in but
    }


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTS, max_size=25))
def test_a_cold_reader_of_the_run_sees_what_the_warm_one_sees(acts: list[tuple[Any, ...]]) -> None:
    story = played(acts)

    if story.journal:
        assert comparable(story.read_run()) == comparable(story.fold)
        assert comparable(story.read_again()) == comparable(story.fold)


@settings(max_examples=100, deadline=None)
@given(st.lists(ACTS, max_size=25))
def test_a_journal_that_agents_and_people_wrote_is_never_damaged(
    acts: list[tuple[Any, ...]],
) -> None:
    story = played(acts)

    assert story.fold.problems == []
    assert not story.fold.is_damaged


@settings(max_examples=100, deadline=None)
@given(st.lists(ACTS, max_size=25))
def test_what_is_counted_and_listed_agrees_with_the_steps(acts: list[tuple[Any, ...]]) -> None:
    fold = played(acts).fold

    statuses = [step.status for step in fold.steps.values()]
    assert {key: n for key, n in fold.counts.items() if n} == {
        status: statuses.count(status) for status in statuses
    }
    assert sorted(fold.order) == sorted(fold.steps)
    assert list(fold.unfinished) == [
        name for name in fold.order if fold.steps[name].status not in ("done", "skipped")
    ]
    running = {name for name, step in fold.steps.items() if step.status == "running"}
    assert running <= set(fold.claims)


@settings(max_examples=100, deadline=None)
@given(st.lists(ACTS, max_size=25))
def test_every_checkpoint_is_rebuilt_as_it_was_saved(acts: list[tuple[Any, ...]]) -> None:
    theatre = Theatre()
    saved: dict[int, Any] = {}
    for act in acts:
        theatre.play(act)
        fold = theatre.story.fold
        newest = fold.checkpoints.get(fold.checkpoint)
        if newest and newest.seq == fold.seq:
            saved[fold.checkpoint] = fold.state

    history = theatre.story.read_again(history=True)

    for number, state in saved.items():
        assert rebuilt(theatre.story, history, number) == state


def rebuilt(story: Story, fold: Fold, number: int) -> Any:
    """Rebuild a checkpoint from the saves it leans on, as a reader does who fetches them."""
    kept = fold.checkpoints[number]
    [record] = [entry for entry in story.entries() if entry.place == kept.place]
    assert isinstance(record, Record)
    if not kept.leans_on:
        return record.body["state"]
    return delta.apply(rebuilt(story, fold, kept.leans_on), record.body["changes"])


# --- full saves and changes --------------------------------------------------------------------


def test_the_first_save_of_a_run_is_full_and_the_next_holds_what_changed() -> None:
    story, agent = started({"a": "x" * 100})

    second = agent.save({"b": 2})

    assert "state" in story.entries()[0].body  # type: ignore[union-attr]
    assert second.body["from"] == 1
    assert second.body["changes"] == {"set": {"/b": 2}}


def test_a_save_is_full_again_when_the_changes_exceed_four_times_the_last_full_one() -> None:
    story, agent = started({"a": "x" * 1000})
    full_bytes = len(story.journal[0])

    number = 0
    while True:
        number += 1
        assert number < 50
        body = agent.save({"b": f"{number:03}" * 100}).body
        if "state" in body:
            break

    changed = sum(map(len, story.journal[1:-1]))
    assert changed <= 4 * full_bytes < changed + len(story.journal[-2])
    assert story.fold.changes_bytes == 0


def test_changes_that_steps_make_count_as_well() -> None:
    story, agent = started({"a": "x" * 10})
    for number in range(20):
        agent.mark(f"step-{number}", append={"found": ["y" * 100]})

    assert "state" in agent.save({"b": 1}).body
    assert len(story.fold.state["found"]) == 20


def test_a_save_costs_what_changed_however_large_the_state_is() -> None:
    story, agent = started({"big": "x" * 100_000})

    agent.save({"small": 1})

    assert len(story.journal[-1]) < 300


def test_a_person_s_change_between_two_saves_is_part_of_the_next_one() -> None:
    story, agent = started({"ceo": "Ann", "pages": 1, "more": "x" * 200})
    story.person().edits(state={"ceo": "Bea"})

    outcome = agent.save({"pages": 2})

    assert outcome.body["changes"] == {"set": {"/ceo": "Bea", "/pages": 2}}
    assert rebuilt(story, story.fold, 2) == story.fold.state


# --- pruned saves ------------------------------------------------------------------------------


def pruned(record: Any, **more: Any) -> Draft:
    left = {
        key: value for key, value in record.body.items() if key not in ("state", "changes", "from")
    }
    return Draft(record.id, record.at, record.by, "save", left | more, record.opens)


def with_pruned(story: Story, seq: int, **more: Any) -> None:
    story.journal[seq - 1] = encode_line(seq, pruned(story.entries()[seq - 1], **more))
    story.fold = story.read_again()


def test_a_pruned_save_keeps_its_number_and_nothing_else_suffers() -> None:
    story, agent = started({"a": {"b": 1}}, plan=["one"], goal="g")
    agent.mark("one", state={"a": {"c": 2}})
    agent.save({"d": 3}, label="kept")
    story.journal[2] = full_again(story, 3)

    with_pruned(story, 1, pruned=True, digest="d")

    fold = story.fold
    assert not fold.is_damaged
    assert fold.checkpoints[1].pruned
    assert fold.checkpoints[1].digest == "d"
    assert not fold.checkpoints[2].pruned
    assert (fold.state, fold.goal, fold.order) == (
        {"a": {"b": 1, "c": 2}, "d": 3},
        "g",
        ["one"],
    )
    assert fold.steps["one"].status == "done"


def full_again(story: Story, seq: int) -> bytes:
    record = story.entries()[seq - 1]
    return encode_line(seq, pruned(record, state=story.folded_to(seq).state))


def test_after_a_pruned_newest_save_the_next_one_is_full() -> None:
    story, agent = started({"a": "x" * 100})
    agent.save({"b": 2})

    with_pruned(story, 2, pruned=True)

    assert "state" in agent.load().save({"c": 3}).body


@pytest.mark.parametrize("op", ["prune", "restore"])
def test_prune_and_restore_are_told_to_those_who_have_the_run_in_memory(op: str) -> None:
    story, agent = started({"a": 1})
    agent.save({"b": 2})

    story.record(op, checkpoints=[1, 99], trash="t")

    assert story.fold.rewritten


def test_whether_a_save_is_pruned_its_line_says_whatever_was_recorded_since() -> None:
    story, agent = started({"a": 1})
    agent.save({"b": 2})
    story.record("restore", checkpoints=[1], trash="t")

    with_pruned(story, 1, pruned=True)

    assert [kept.pruned for kept in story.fold.checkpoints.values()] == [True, False]


def test_nothing_leans_on_a_save_that_was_pruned_meanwhile() -> None:
    story, agent = started({"a": "x" * 100})

    story.record("prune", checkpoints=[1], trash="t")

    assert "state" in agent.save({"b": 2}).body


# --- damage ------------------------------------------------------------------------------------


def test_a_damaged_line_puts_its_step_in_doubt() -> None:
    story, agent = started(plan=["one", "two"])
    done = agent.mark("one", "sent").seq

    story.damage(done)

    assert story.fold.is_damaged
    assert (story.status_of("one"), story.status_of("two")) == ("in_doubt", "pending")


def test_a_damaged_line_does_not_make_those_after_it_disappear() -> None:
    story, agent = started(plan=["one", "two"])
    done = agent.mark("one").seq
    agent.mark("two")

    story.damage(done)

    assert story.fold.seq == 3
    assert story.status_of("two") == "done"


def test_a_damaged_line_that_cannot_be_read_at_all_puts_whatever_is_pending_in_doubt() -> None:
    story, agent = started(plan=["one", "two"])
    done = agent.mark("one").seq

    story.destroy(done)

    assert story.fold.is_damaged
    assert (story.status_of("one"), story.status_of("two")) == ("in_doubt", "in_doubt")
    assert story.status_of("never-planned") == "in_doubt"


@pytest.mark.parametrize("op", [b"edit", b"reopen"])
def test_a_damaged_line_that_may_speak_of_any_step_puts_whatever_is_pending_in_doubt(
    op: bytes,
) -> None:
    story, agent = started(plan=["one", "two"])
    agent.mark("two")
    person = story.person()
    record = person.edits(plan={"one": "done"}) if op == b"edit" else person.reopen("two")
    assert record is not None

    story.damage(record.seq)

    assert story.status_of("one") == "in_doubt"


def test_a_damaged_line_whose_step_was_garbled_puts_whatever_is_pending_in_doubt() -> None:
    story, agent = started(plan=["one"])
    done = agent.mark("one").seq

    story.damage(done, b'"step"', b'"stop"')

    assert story.status_of("one") == "in_doubt"


@pytest.mark.parametrize("seq", [b"902", b"999999999", b"1", b"0"])
def test_a_seq_that_a_damaged_line_shows_does_not_hide_the_records_after_it(seq: bytes) -> None:
    story, agent = started(plan=["one", "two"])
    agent.mark("one")
    agent.mark("two")
    agent.save(next="three")

    story.damage(2, b'"seq":2', b'"seq":' + seq)

    assert story.status_of("one") == "in_doubt"
    assert story.status_of("two") == "done"
    assert story.fold.next == "three"
    assert story.fold.seq == 4


@pytest.mark.parametrize("seq", [b"902", b"1"])
def test_the_step_of_a_damaged_last_line_is_in_doubt_whatever_its_seq_says(seq: bytes) -> None:
    story, agent = started(plan=["one"])
    agent.mark("one")

    story.damage(2, b'"seq":2', b'"seq":' + seq)

    assert story.status_of("one") == "in_doubt"


def test_a_damaged_line_seen_again_does_not_bring_back_a_settled_doubt() -> None:
    story, agent = started(plan=["one"])
    agent.mark("one")
    story.damage(2)
    story.person().resolve("one", happened=False)

    advance(story.fold, story.entries())

    assert story.status_of("one") == "pending"


def test_a_good_copy_of_a_damaged_line_counts() -> None:
    """A line whose flush failed is written again, with the same seq, into the next segment."""
    story, agent = started({"a": 1})
    agent.save({"a": 2})
    good = story.journal[1]
    story.damage(2)

    story.journal.append(good)
    story.fold = story.read_again()

    assert story.fold.state == {"a": 2}
    assert story.fold.checkpoints[2].readable


def test_a_record_written_twice_counts_once() -> None:
    story, agent = started()
    agent.mark("one")

    story.journal.append(story.journal[1])

    assert story.read_again().steps["one"].attempts == 1
    assert not story.read_again().is_damaged


def test_the_checkpoint_of_a_damaged_save_is_not_available_and_its_number_not_used_again() -> None:
    story, agent = started({"a": 1})
    agent.save({"b": 2})

    story.damage(2)

    assert not story.fold.checkpoints[2].readable
    assert agent.load().save({"c": 3}).found["checkpoint"] == 3


def test_the_number_in_a_damaged_save_is_not_believed_either() -> None:
    story, agent = started({"a": 1})
    agent.save({"b": 2})

    story.damage(2, b'"checkpoint":2', b'"checkpoint":77')

    assert agent.load().save({"c": 3}).found["checkpoint"] == 3


def test_a_damaged_pin_does_not_cost_the_checkpoint_it_names() -> None:
    story, agent = started({"a": 1})
    agent.save({"b": 2})
    pin = story.person().pin(1)
    assert pin is not None

    story.damage(pin.seq)

    assert story.fold.checkpoints[1].readable
    assert story.fold.checkpoint == 2


def test_the_save_after_damage_is_full_and_can_be_leaned_on() -> None:
    story, agent = started({"a": "x" * 100})
    agent.save({"b": 2})
    story.damage(2)

    third = agent.load().save({"c": 3})
    fourth = agent.save({"d": 4})

    assert third.body["state"] == {"a": "x" * 100, "c": 3}
    assert fourth.body["from"] == 3
    assert rebuilt(story, story.fold, 4) == {"a": "x" * 100, "c": 3, "d": 4}


def test_a_save_that_leans_on_a_damaged_one_is_lost_with_it_but_not_what_it_planned() -> None:
    story, agent = started({"a": "x" * 100})
    agent.save({"b": 2})
    agent.save({"c": 3}, plan=["one"], goal="the goal", total=9)

    story.damage(2)

    fold = story.fold
    assert not fold.checkpoints[3].readable
    assert fold.state == {"a": "x" * 100}
    assert (fold.order, fold.goal, fold.total) == (["one"], "the goal", 9)


def test_a_gap_makes_the_task_damaged_and_new_steps_doubtful_until_it_is_accepted() -> None:
    story, agent = started(plan=["one", "two"])
    agent.mark("one")
    agent.mark("two")

    story.lose(2)

    assert story.fold.is_damaged
    assert story.status_of("one") == "in_doubt"
    assert story.status_of("two") == "done"
    assert agent.begin("brand-new")["go"] is False

    story.person().acknowledge(damage=True)

    assert not story.fold.is_damaged
    assert story.fold.problems == []
    assert story.status_of("one") == "pending"
    assert story.status_of("brand-new") == "in_doubt"


def test_a_gap_before_a_damaged_line_is_a_gap_all_the_same() -> None:
    story, agent = started(plan=["one", "two", "three"])
    for step in ("one", "two", "three"):
        agent.mark(step)
    story.damage(3)

    story.lose(2)

    assert story.fold.is_damaged
    assert [story.status_of(step) for step in ("one", "two", "three")] == [
        "in_doubt",
        "in_doubt",
        "done",
    ]


def test_a_step_that_was_looked_at_after_a_gap_is_pending_and_not_in_doubt() -> None:
    story, agent = started(plan=["one", "two"])
    agent.save(next="x")
    agent.save(next="y")
    story.lose(2)
    assert story.status_of("one") == "in_doubt"

    story.person().resolve("one", happened=False)

    assert (story.status_of("one"), story.status_of("two")) == ("pending", "in_doubt")


def test_a_gap_too_wide_to_wait_for_is_noted_all_the_same() -> None:
    story, _ = started(plan=["one"])
    record = Record(50_000, "x", story.at, "ann", "done", {"step": "two"})

    advance(story.fold, [record])

    assert story.fold.doubts_all
    assert len(story.fold.missing) == 0


def test_two_lines_that_changed_places_are_both_taken_in() -> None:
    story, agent = started(plan=["one", "two"])
    agent.mark("one")
    agent.mark("two")

    story.swap(2, 3)

    assert story.fold.is_damaged
    assert (story.status_of("one"), story.status_of("two")) == ("done", "done")


def test_of_two_saves_that_changed_places_the_later_one_stands() -> None:
    story, agent = started({"a": 1})
    agent.save({"a": 2, "long": "x" * 900})
    agent.save({"a": 3, "long": None})
    assert "state" in story.entries()[1].body  # type: ignore[union-attr]
    story.journal[2] = full_again(story, 3)

    story.swap(2, 3)

    assert story.fold.state == {"a": 3}
    assert story.fold.checkpoints[2].readable
    agent.load().save({"b": 1})
    assert rebuilt(story, story.fold, 4) == {"a": 3, "b": 1}


def test_a_save_found_before_the_one_it_leans_on_leaves_the_state_of_that_one() -> None:
    story, agent = started({"a": "x" * 100})
    agent.save({"b": 2})
    agent.save({"c": 3})

    story.swap(2, 3)

    assert not story.fold.checkpoints[3].readable
    assert story.fold.state == {"a": "x" * 100, "b": 2}
    assert "state" in agent.load().save({"d": 4}).body


def test_an_opening_line_that_changed_places_costs_no_step() -> None:
    story, agent = started({"a": 1}, plan=["one"])
    agent.mark("one")
    agent.mark("two")

    story.swap(1, 2)

    assert story.fold.is_damaged
    assert story.fold.run == 1
    assert story.status_of("one") == "done"
    assert story.status_of("two") == "done"
    assert story.fold.state == {"a": 1}


def test_steps_of_a_run_whose_opening_was_lost_are_in_doubt_and_not_pending() -> None:
    story, agent = started({"a": 1})
    agent.finish()
    agent.load().save({"b": 1}, plan=["one"])
    agent.mark("one")
    agent.save({"b": 2}, plan=["two"])

    story.destroy(3)

    fold = story.fold
    assert fold.is_damaged
    assert fold.problems
    assert fold.run == 2
    assert story.status_of("one") == "in_doubt"
    assert "state" in agent.load().save({"c": 3}).body


def test_acknowledging_ends_the_waiting_for_what_is_missing() -> None:
    story, agent = started()
    agent.mark("one")
    agent.mark("two")
    late = story.journal[1]
    story.lose(2)
    story.person().acknowledge(damage=True)

    story.journal.append(late)

    assert "one" not in story.read_again().steps


def test_a_damaged_line_that_nobody_wrote_changes_no_number() -> None:
    """An engine gives a line that took no seq the seq before it."""
    story, _ = started(plan=["one"])

    advance(story.fold, [DamagedLine(Place(1, 0, 9), "it does not parse", seq=1)])

    assert story.fold.seq == 1
    assert story.fold.is_damaged


# --- what a fold answers -----------------------------------------------------------------------


def test_a_claim_that_nobody_keeps_leaves_a_doubt() -> None:
    story, agent = started(plan=["one"])
    agent.begin("one")
    fold = story.fold

    assert fold.status_of("one", story.now, set()) == "running"
    assert fold.status_of("one", story.now, {agent.process}) == "in_doubt"
    assert fold.status_of("one", story.now + timedelta(minutes=15), set()) == "in_doubt"
    assert fold.processes_at_work() == {agent.process}


def test_changes_after_a_record_are_found_though_another_was_taken_in_late() -> None:
    changes = Changes()
    for seq in (1, 2, 4, 5, 3):
        changes.add(Changed(seq, f"id-{seq}", "ann", "/next", "", f"n{seq}"))

    assert [changed.seq for changed in changes.after(4)] == [5]
    assert [changed.seq for changed in changes.after(2)] == [4, 5, 3]


def test_changes_are_remembered_up_to_a_bound() -> None:
    story, agent = started()

    for number in range(600):
        agent.save({"n": number})

    assert len(story.fold.changes) == 512
    assert list(story.fold.changes)[-1].new == 599


def many(number: int, keys: int = 600) -> dict[str, Any]:
    return {f"k{key}": [number, key] for key in range(keys)}


def test_a_save_that_changes_very_much_is_one_change_until_somebody_asks_for_each() -> None:
    story, agent = started(many(1))
    agent.save(many(2, 590) | {"new": 1}, replace=True)

    noted = list(story.fold.changes)[-1]
    found = {each.path: (each.old, each.new) for each in noted.each()}

    assert len(story.fold.changes) == 2
    # The last of them, as with small ones, and rather what is there than what was dropped.
    assert len(found) == 512
    assert "/state/k599" not in found
    assert found["/state/k589"] == ([1, 589], [2, 589])
    assert found["/state/new"] == (MISSING, 1)


def test_whoever_comes_next_is_told_which_keys_a_large_save_changed() -> None:
    story, agent = started(many(1, 40))
    other = story.agent("bob")
    other.load()
    agent.save(many(2, 40))

    told = other.mark("one").changes

    assert [(each["path"], each["from"], each["to"], each["by"]) for each in told] == [
        (f"/state/k{key}", [1, key], [2, key], agent.by) for key in range(20)
    ]


def test_what_is_there_is_told_rather_than_what_was_dropped() -> None:
    story, agent = started(many(1, 60))
    other = story.agent("bob")
    other.load()
    agent.save({"new": 1, "k59": "changed"}, replace=True)

    told = [each["path"] for each in other.mark("one").changes]

    assert set(told[:2]) == {"/state/new", "/state/k59"}
    assert len(told) == 20


def test_what_changed_very_much_leaves_room_for_as_many_changes_as_before() -> None:
    story, agent = started(many(1, 100))
    for number in range(2, 20):
        agent.save(many(number, 100))

    assert len(story.fold.changes) == 19


def test_what_was_dropped_is_told_as_missing() -> None:
    story, agent = started(many(1, 40))
    agent.save({"new": 1}, replace=True)

    [noted] = list(story.fold.changes)[-1:]

    found = noted.each()
    assert (len(found), found[0].old, found[-1].new) == (41, MISSING, MISSING)


def test_who_wrote_a_value_is_known_though_very_many_were_dropped_with_it() -> None:
    story, agent = started(many(1))
    agent.save({"new": 1}, replace=True)
    story.agent("bob").mark("one")

    assert last_writers(story.fold, ["/state/new"])["/state/new"] == agent.by


def test_who_wrote_a_value_is_known_though_very_many_were_written_with_it() -> None:
    story, agent = started(many(1, 100))
    other = story.agent("bob")
    other.load()
    other.save({"k3": "his"})
    agent.load()
    agent.save(many(2, 100) | {"k3": "his"}, replace=True)

    found = last_writers(story.fold, ["/state/k3", "/state/k99"])
    assert found == {"/state/k3": "bob", "/state/k99": agent.by}


def test_of_states_noted_as_bytes_objects_are_made_once_for_all_values_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It happens under the lock: a merge may have to ask for hundreds."""
    fold = Fold("report")
    states = [strict_json.encode(many(n, 100) | {"mine": 1}) for n in range(4)]
    for seq, (old, new) in enumerate(pairwise(states), 1):
        fold.changes.add(Changed(seq, "id", f"agent{seq}", "/state", old, new, len(new)))
    decoded: list[bytes] = []
    decode = strict_json.decode

    def noted(raw: bytes) -> object:
        decoded.append(raw)
        return decode(raw)

    monkeypatch.setattr(strict_json, "decode", noted)
    found = last_writers(fold, ["/state/mine", *(f"/state/k{n}" for n in range(100))])

    assert {found[f"/state/k{n}"] for n in range(100)} == {"agent3"}
    assert found["/state/mine"] == fold.updated_by
    assert len(decoded) == 2 * len(fold.changes)


def test_the_newest_steps_are_remembered() -> None:
    story, agent = started()

    for number in range(30):
        agent.mark(f"step-{number}")

    assert len(story.fold.recent_steps) == 20
    assert story.fold.recent_steps[-1][0] == story.fold.last_done == "step-29"


def test_a_failed_step_is_not_the_last_done() -> None:
    story, agent = started()
    agent.mark("one")

    agent.mark("two", outcome="failed")

    assert story.fold.last_done == "one"


# --- a state that cannot be read ---------------------------------------------------------------


@pytest.mark.parametrize("how", ["damage", "destroy"])
def test_a_run_whose_only_save_is_damaged_has_an_unknown_state_and_not_an_empty_one(
    how: str,
) -> None:
    story, agent = started({"a": 1}, plan=["one", "two"])
    agent.mark("one")

    getattr(story, how)(1)

    fold = story.fold
    assert (fold.run, fold.state_lost, fold.is_damaged) == (1, True, True)
    assert story.status_of("one") == "done"
    assert fold.run == 1


def test_the_next_full_save_makes_the_state_known_again() -> None:
    story, agent = started({"a": 1})
    agent.mark("one")
    story.damage(1)

    agent.load().save({"b": 2})

    assert not story.fold.state_lost
    assert story.fold.state == {"b": 2}


def test_a_damaged_save_beside_a_good_one_loses_no_state() -> None:
    story, agent = started({"a": 1})
    agent.save({"b": 2})

    story.damage(2)

    assert not story.fold.state_lost
    assert story.fold.state == {"a": 1}


def test_a_text_that_is_what_it_was_before_a_lost_record_is_no_change() -> None:
    story, agent = started(goal="g")
    agent.save(goal="h")
    agent.save(goal="g")

    story.lose(2)

    assert story.fold.goal == "g"
    assert [changed.path for changed in story.fold.changes] == ["/goal"]


def test_large_states_are_not_kept_for_those_who_may_ask_without_end() -> None:
    changes = Changes()

    for seq in range(1, 101):
        whole = {"found": [seq]}
        changes.add(Changed(seq, "id", "ann", "/state", whole, whole, size=2**20))

    assert sum(changed.size for changed in changes) <= CHANGES_BYTES_KEPT
    assert [changed.seq for changed in changes][-1] == 100


def test_a_persons_change_is_not_forgotten_for_the_sake_of_large_states() -> None:
    changes = Changes()
    changes.add(Changed(1, "id", "human", "/state/ceo", "Ann", "Bea"))

    for seq in range(2, 100):
        whole = {"found": [seq]}
        changes.add(Changed(seq, "id", "ann", "/state", whole, whole, size=CHANGES_BYTES_KEPT // 4))

    assert [changed.seq for changed in changes] == [1, 96, 97, 98, 99]


def test_saves_of_many_keys_do_not_push_out_what_a_person_changed() -> None:
    story, agent = started(many(1, 300) | {"ceo": "Ann"})
    other = story.agent("bob")
    other.load()
    story.person().edits(state={**story.fold.state, "ceo": "Bea"})
    for number in range(3):
        agent.load().save(many(2, 300) | {"ceo": "Bea", "n": number}, replace=True)

    told = other.mark("one").changes

    assert ("/state/ceo", "human") in [(each["path"], each["by"]) for each in told]


@pytest.mark.parametrize("state", [[1, 2], "text", 7, None])
def test_a_save_whose_state_is_no_object_is_damage_and_not_the_state(state: object) -> None:
    """The crc is right: a program wrote it, or somebody who can count one."""
    story, _ = started({"a": 1})
    body = {"run": 1, "checkpoint": story.fold.checkpoint + 1, "state": state}
    place = Place(1, 10_000, 50)
    seq = story.fold.seq + 1

    advance(story.fold, [Record(seq, "id", stamp(story.now), "ann", "save", body, place=place)])

    assert story.fold.state == {"a": 1}
    assert story.fold.is_damaged
    assert story.fold.needs_full
    assert not story.fold.checkpoints[story.fold.checkpoint].readable


def test_the_last_change_is_kept_however_large_it_is() -> None:
    changes = Changes()

    for seq in (1, 2):
        whole = {"found": [seq]}
        changes.add(Changed(seq, "id", "ann", "/state", whole, whole, size=2 * CHANGES_BYTES_KEPT))

    assert [changed.seq for changed in changes] == [2]
