"""The log only grows: what was accepted is there, whole, in order, and nothing else is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from holdfast_storage.conformance.harness import (
    Conformance,
    OpenEngine,
    Recording,
    drafted,
    ids_of,
    log_of,
    needs,
    recorded,
    records_of,
)
from holdfast_storage.core import strict_json
from holdfast_storage.core.errors import NotSaved, RunClosed
from holdfast_storage.core.records import DamagedLine, Entry, Place, Record
from holdfast_storage.core.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast_storage.engines.base import Engine, Head

_EVERYTHING_JSON_HAS: dict[str, Any] = {
    "zeroth key in order": None,
    "a later key": [True, False, [], {}, ""],
    "numbers": [0, -1, 2**63, 2**70, 0.1, -0.0, 1e300, 5e-324],
    "text": 'quotes " \\ \n \r \t \x00 \x7f \u2028 \ufeff é 漢 \U0001f600',
    "result": {"deep": {"deeper": [{"deepest": {"": "an empty key"}}]}},
}


_REFUSAL = RunClosed("t", 1, "somebody")


def _refuse(entries: Sequence[Entry]) -> NoReturn:
    raise _REFUSAL


class LogConformance(Conformance):
    """What `commit`, `read`, `opening`, `fetch` and `heads` promise."""

    # --- commit -------------------------------------------------------------------------------

    async def test_a_record_goes_to_the_end_of_the_log(self, engine: Engine) -> None:
        first, second = await recorded(engine, "t", drafted("a"), drafted("b"))

        assert [first.seq, second.seq] == [1, 2]
        assert await records_of(engine, "t") == [first, second]

    async def test_what_goes_in_is_exactly_what_comes_out(self, open_engine: OpenEngine) -> None:
        writer, reader = await open_engine(), await open_engine()
        draft = drafted("a", "save", opens=True, **_EVERYTHING_JSON_HAS)

        await recorded(writer, "t", draft)

        [record] = await records_of(reader, "t")
        assert (record.id, record.at, record.by) == (draft.id, draft.at, draft.by)
        assert (record.op, record.opens) == (draft.op, draft.opens)
        # By text: to Python 1, 1.0 and True are equal, and so are -0.0 and 0.0.
        assert repr(record.body) == repr(_EVERYTHING_JSON_HAS)

    async def test_what_is_at_hand_only_as_bytes_is_kept_like_anything_else(
        self, open_engine: OpenEngine
    ) -> None:
        writer, reader = await open_engine(), await open_engine()
        state = {"result": _EVERYTHING_JSON_HAS["result"], "long": 2**70}
        raw = strict_json.encode(state)
        plain = drafted("a", "save", opens=True, checkpoint=1)
        body = {**plain.body, "state": Snapshot.encoded(state, raw)}

        await recorded(writer, "t", replace(plain, body=body, encoded={"state": raw}))

        [record] = await records_of(reader, "t")
        assert record.body == {"checkpoint": 1, "state": state}

    async def test_nobody_can_change_a_record_afterwards(self, engine: Engine) -> None:
        state = {"pages": [1]}
        [accepted] = await recorded(engine, "t", drafted("a", "save", state=state))

        state["pages"].append(2)
        accepted.body["state"]["pages"].append(3)
        [read] = await records_of(engine, "t")
        read.body["state"]["pages"].append(4)

        [record] = await records_of(engine, "t")
        assert record.body == {"state": {"pages": [1]}}

    async def test_a_decision_is_shown_everything_before_it(self, engine: Engine) -> None:
        before = await recorded(engine, "t", drafted("a"), drafted("b"), drafted("c"))
        operation = Recording(drafted("d"))

        await engine.commit("t", operation)

        assert operation.shown[-1] == before

    async def test_a_decision_is_shown_nothing_it_knew(self, engine: Engine) -> None:
        before = await recorded(engine, "t", drafted("a"), drafted("b"), drafted("c"))
        knows_some, knows_all = Recording(drafted("d"), known=2), Recording(drafted("e"), known=4)

        await engine.commit("t", knows_some)
        await engine.commit("t", knows_all)

        assert knows_some.shown[-1] == before[2:]
        assert knows_all.shown[-1] == []

    async def test_a_decision_is_shown_what_other_processes_recorded(
        self, open_engine: OpenEngine
    ) -> None:
        here, there = await open_engine(), await open_engine()
        needs(here, "shared")
        await recorded(here, "t", drafted("a"))
        await recorded(there, "t", drafted("b"))
        operation = Recording(drafted("c"), known=1)

        await here.commit("t", operation)

        assert operation.shown[-1] == (await records_of(there, "t"))[1:2]

    async def test_an_operation_is_accepted_once_with_the_record_that_is_in_the_log(
        self, engine: Engine
    ) -> None:
        operation = Recording(drafted("a", result=[1]))

        await engine.commit("t", operation)

        assert operation.accepted == await records_of(engine, "t")

    async def test_deciding_on_nothing_is_accepted_and_records_nothing(
        self, engine: Engine
    ) -> None:
        await recorded(engine, "t", drafted("a"))
        operation = Recording(None)

        await engine.commit("t", operation)

        assert operation.accepted == [None]
        assert await ids_of(engine, "t") == ["a"]

    async def test_a_refusal_comes_out_as_it_was_raised(self, engine: Engine) -> None:
        with pytest.raises(RunClosed) as caught:
            await engine.commit("t", Recording(_refuse))

        assert caught.value is _REFUSAL

    async def test_what_is_answered_at_once_was_shown_everything_and_accepted(
        self, open_engine: OpenEngine
    ) -> None:
        engine, other = await open_engine(), await open_engine()
        await recorded(engine, "t", drafted("a"))
        await recorded(other, "t", drafted("b"))
        await ids_of(engine, "t")
        question = Recording(None)

        is_answered = engine.answers_at_once("t", question)

        assert question.accepted == ([None] if is_answered else [])
        if is_answered:
            assert [entry.seq for entry in question.shown[-1]] == [1, 2]
        await engine.commit("t", question)
        assert [entry.seq for entry in question.shown[-1]] == [1, 2]
        assert await ids_of(other, "t") == ["a", "b"]

    async def test_a_question_is_refused_at_once_or_not_answered_at_once(
        self, engine: Engine
    ) -> None:
        await recorded(engine, "t", drafted("a"))
        question = Recording(_refuse)

        try:
            is_answered = engine.answers_at_once("t", question)
        except RunClosed as caught:
            assert caught is _REFUSAL
        else:
            assert not is_answered

        assert question.accepted == []
        [after] = await recorded(engine, "t", drafted("b"))
        assert after.seq == 2

    async def test_a_refusal_leaves_nothing_behind(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        await recorded(engine, "t", drafted("a"))
        operation = Recording(_refuse)

        with pytest.raises(RunClosed):
            await engine.commit("t", operation)

        assert operation.accepted == []
        assert await ids_of(other, "t") == ["a"]
        [next_one] = await recorded(engine, "t", drafted("b"))
        assert next_one.seq == 2

    async def test_a_refusal_does_not_touch_its_neighbours(self, engine: Engine) -> None:
        operations = [Recording(drafted(f"{n}") if n % 3 else _refuse) for n in range(30)]

        results = await asyncio.gather(
            *(engine.commit("t", operation) for operation in operations), return_exceptions=True
        )

        assert [n for n, result in enumerate(results) if result] == list(range(0, 30, 3))
        assert sorted(await ids_of(engine, "t")) == sorted(f"{n}" for n in range(30) if n % 3)

    async def test_what_was_committed_survives_the_process(self, open_engine: OpenEngine) -> None:
        engine = await open_engine()
        needs(engine, "durable")
        accepted = await recorded(engine, "t", drafted("a"), drafted("b", result={"pages": 3}))

        await engine.close()

        assert await records_of(await open_engine(), "t") == accepted

    async def test_what_cannot_be_made_durable_is_not_saved(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        await recorded(engine, "t", drafted("a"))
        operation = Recording(drafted("b"))

        with self.failing(engine), pytest.raises(NotSaved):
            await engine.commit("t", operation)

        assert operation.accepted == []
        assert await ids_of(other, "t") == ["a"]

    async def test_recording_goes_on_once_writing_works_again(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))
        with self.failing(engine), pytest.raises(NotSaved):
            await engine.commit("t", Recording(drafted("b")))

        await recorded(engine, "t", drafted("b"), drafted("c"))

        records = await records_of(engine, "t")
        assert [(record.seq, record.id) for record in records] == [(1, "a"), (2, "b"), (3, "c")]

    async def test_a_task_exists_from_its_first_record_on(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        with pytest.raises(RunClosed):
            await engine.commit("t", Recording(_refuse))
        await engine.commit("t", Recording(None))
        before, _ = await other.heads("", 10)

        await recorded(engine, "t", drafted("a"))

        assert before == []
        assert [head.task for head in (await other.heads("", 10))[0]] == ["t"]

    async def test_tasks_are_kept_apart_and_keep_their_names(self, engine: Engine) -> None:
        names = ["report", "Report", "report ", "re/port", "../report", "con", "résumé", "漢" * 60]

        for name in names:
            await recorded(engine, name, drafted(f"of {name}"))

        assert sorted(await _all_tasks(engine, limit=3)) == sorted(names)
        for name in names:
            assert await ids_of(engine, name) == [f"of {name}"]

    # --- read ---------------------------------------------------------------------------------

    async def test_an_unknown_task_has_no_entries(self, engine: Engine) -> None:
        assert await log_of(engine, "unheard of") == []
        assert await engine.opening("unheard of") == 0
        assert (await engine.heads("", 10))[0] == []

    async def test_reading_gives_the_entries_after_a_seq_in_order(self, engine: Engine) -> None:
        operations = [Recording(drafted(f"{n}")) for n in range(300)]
        await asyncio.gather(*(engine.commit("t", operation) for operation in operations))

        everything = await records_of(engine, "t")

        assert [record.seq for record in everything] == list(range(1, 301))
        for after in (1, 255, 256, 299):
            assert await log_of(engine, "t", after) == everything[after:]
        assert await log_of(engine, "t", 300) == []

    async def test_long_records_read_back_whole(self, open_engine: OpenEngine) -> None:
        writer, reader = await open_engine(), await open_engine()
        drafts = [drafted(f"{n}", "save", text=f"{n}" * 1_000_000) for n in range(6)]

        await recorded(writer, "t", *drafts)

        records = await records_of(reader, "t")
        assert [(record.seq, record.id) for record in records] == [
            (n + 1, f"{n}") for n in range(6)
        ]
        # Not in one assert with the rest: nobody wants to see six megabytes compared.
        assert all(record.body == draft.body for record, draft in zip(records, drafts, strict=True))

    async def test_a_line_that_cannot_be_believed_comes_as_damaged_in_its_place(
        self, open_engine: OpenEngine
    ) -> None:
        engine = await open_engine()
        await recorded(engine, "t", *(drafted(f"{n}", step=f"step {n}") for n in range(3)))

        self.spoil_line(engine, "t", 2)

        for reader in (engine, await open_engine()):
            first, second, third = await log_of(reader, "t")
            assert (first.seq, third.seq) == (1, 3)
            assert isinstance(second, DamagedLine)

    async def test_a_decision_is_shown_a_damaged_line_and_goes_on_after_it(
        self, open_engine: OpenEngine
    ) -> None:
        await recorded(await open_engine(), "t", *(drafted(f"{n}") for n in range(3)))
        engine = await open_engine()
        self.spoil_line(engine, "t", 2)
        operation = Recording(drafted("later"))

        await engine.commit("t", operation)

        assert [type(entry) for entry in operation.shown[-1]] == [Record, DamagedLine, Record]
        assert [record.seq for record in operation.accepted if record] == [4]

    # --- opening and fetch --------------------------------------------------------------------

    async def test_opening_skips_closed_runs(self, open_engine: OpenEngine) -> None:
        engine = await open_engine()
        await recorded(engine, "t", drafted("a", opens=True), drafted("b"), drafted("c", "finish"))
        in_the_first_run = await engine.opening("t")
        await recorded(engine, "t", drafted("d", opens=True), drafted("e"))

        opening = await engine.opening("t")

        assert (in_the_first_run, opening) == (0, 3)
        assert await (await open_engine()).opening("t") == opening
        assert await log_of(engine, "t", opening) == (await records_of(engine, "t"))[3:]

    async def test_entries_are_found_again_at_their_places(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        drafts = [drafted(f"{n}", opens=n == 3, text="x" * n) for n in range(6)]
        accepted = await recorded(engine, "t", *drafts)
        read = await records_of(other, "t")

        assert [record.place for record in accepted] == [record.place for record in read]
        wanted = [read[4], read[0], read[3], read[4]]
        assert await engine.fetch("t", [record.place for record in wanted]) == wanted
        assert await engine.fetch("t", []) == []

    async def test_a_place_where_nothing_lies_is_a_damaged_line(self, engine: Engine) -> None:
        [record] = await recorded(engine, "t", drafted("a"))
        beyond = Place(record.place.segment, 10**9, record.place.length)

        [found] = await engine.fetch("t", [beyond])

        assert isinstance(found, DamagedLine)

    # --- heads --------------------------------------------------------------------------------

    async def test_heads_come_in_a_fixed_order_from_the_cursor_on(
        self, open_engine: OpenEngine
    ) -> None:
        engine, other = await open_engine(), await open_engine()
        for name in ("d", "a", "E", "c", "b"):
            await recorded(engine, name, drafted("1"))

        at_once = await _all_tasks(engine, limit=100)

        assert sorted(at_once) == ["E", "a", "b", "c", "d"]
        assert [await _all_tasks(other, limit) for limit in (1, 2, 5)] == [at_once] * 3

    async def test_a_task_that_appears_while_listing_hides_no_other(self, engine: Engine) -> None:
        for name in ("b", "d", "f"):
            await recorded(engine, name, drafted("1"))
        first_page, cursor = await engine.heads("", 2)

        for name in ("a", "c", "e", "g"):
            await recorded(engine, name, drafted("1"))

        listed = [head.task for head in first_page] + await _all_tasks(engine, 2, cursor)
        assert sorted({"b", "d", "f"} & set(listed)) == ["b", "d", "f"]
        assert len(listed) == len(set(listed))

    async def test_a_head_has_the_summary_noted_for_the_end_of_its_log(
        self, open_engine: OpenEngine
    ) -> None:
        engine, other = await open_engine(), await open_engine()
        needs(engine, "shared")
        await recorded(engine, "t", drafted("a"))
        unnoted = await _head(other, "t")

        await engine.note_head("t", 1, {"status": "active", "progress": {"done": 1}})

        assert unnoted.summary is None
        assert (await _head(other, "t")).summary == {"status": "active", "progress": {"done": 1}}

    async def test_a_summary_counts_only_while_the_log_ends_at_its_revision(
        self, engine: Engine
    ) -> None:
        await recorded(engine, "t", drafted("a"))
        await engine.note_head("t", 1, {"done": 1})
        await recorded(engine, "t", drafted("b"))
        outdated = await _head(engine, "t")

        # A slower process may still note what it saw.
        await engine.note_head("t", 1, {"done": 1})

        assert outdated.summary is None
        assert (await _head(engine, "t")).summary is None


async def _all_tasks(engine: Engine, limit: int, cursor: str = "") -> list[str]:
    names: list[str] = []
    while True:
        heads, cursor = await engine.heads(cursor, limit)
        assert len(heads) <= limit
        names += [head.task for head in heads]
        if not cursor:
            return names


async def _head(engine: Engine, task: str) -> Head:
    heads, _ = await engine.heads("", 1000)
    [found] = [head for head in heads if head.task == task]
    return found
