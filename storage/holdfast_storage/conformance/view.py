"""People may change the view behind our back, and nothing they saved is ever lost."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from holdfast_storage.conformance.harness import (
    Conformance,
    OpenEngine,
    drafted,
    needs,
    recorded,
    records_of,
    rendered,
    see_through,
    view_itself,
)

if TYPE_CHECKING:
    from holdfast_storage.engines.base import Engine

_BY_HAND = b'{"task": "t", "state": {"by": "hand"}}\n'
_BY_HAND_LATER = b'{"task": "t", "state": {"by": "hand, a moment later"}}\n'
_HALF_SAVED = b'{"task": "t", "state": {"by": "ha'
_ONCE_NS = 1_000_000_000_000_000_000


class ViewConformance(Conformance):
    """What `view`, `seen`, `swap_view`, `keep` and their kin promise."""

    # --- looking ------------------------------------------------------------------------------

    async def test_a_missing_view_gives_no_sighting(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))

        assert await engine.view("t") == []
        assert await engine.view("unheard of") == []

    async def test_an_empty_view_gives_an_empty_sighting(self, engine: Engine) -> None:
        await self._edited(engine, b"")

        assert [sighting.raw for sighting in await engine.view("t")] == [b""]

    async def test_what_a_person_saved_is_sighted_byte_for_byte(
        self, open_engine: OpenEngine
    ) -> None:
        engine, other = await open_engine(), await open_engine()
        saved = b'\xef\xbb\xbf{"task":"t",\r\n"state":{"\xc3\xa9":1}}'
        await self._edited(engine, saved)

        for looker in (engine, other):
            [sighting] = await looker.view("t")
            assert sighting.raw == saved
            assert sighting.name == "state.json"
            assert sighting.mtime_ns > 0

    async def test_a_half_saved_view_is_sighted_as_it_is(self, engine: Engine) -> None:
        await self._edited(engine, _HALF_SAVED)

        assert await view_itself(engine, "t") == _HALF_SAVED

    async def test_leftovers_come_oldest_first_and_the_view_last(self, engine: Engine) -> None:
        await self._edited(engine, _BY_HAND)
        self.leave_over(engine, "t", 1, b'{"second": 2}', _ONCE_NS + 2)
        self.leave_over(engine, "t", 2, b'{"first": 1}', _ONCE_NS + 1)
        self.leave_over(engine, "t", 3, b'{"third": 3}', _ONCE_NS + 3)

        found = [sighting.raw for sighting in await engine.view("t")]

        assert found == [b'{"first": 1}', b'{"second": 2}', b'{"third": 3}', _BY_HAND]

    # --- having seen --------------------------------------------------------------------------

    async def test_a_view_that_was_seen_through_has_not_changed(self, engine: Engine) -> None:
        await self._edited(engine, _BY_HAND)

        await see_through(engine, "t")

        assert not engine.may_have_changed("t")

    async def test_a_view_that_was_only_looked_at_may_have_changed(self, engine: Engine) -> None:
        await self._edited(engine, _BY_HAND)

        await engine.view("t")

        assert engine.may_have_changed("t")

    async def test_a_persons_save_may_be_a_change(self, engine: Engine) -> None:
        await self._edited(engine, _BY_HAND)
        await see_through(engine, "t")

        self.save_as_person(engine, "t", _BY_HAND_LATER)

        assert engine.may_have_changed("t")

    async def test_a_save_between_looking_and_having_seen_may_be_a_change(
        self, engine: Engine
    ) -> None:
        await self._edited(engine, _BY_HAND)
        [sighting] = await engine.view("t")

        self.save_as_person(engine, "t", _BY_HAND_LATER)
        await engine.seen("t", sighting)

        assert engine.may_have_changed("t")

    async def test_a_leftover_that_was_seen_through_does_not_come_again(
        self, engine: Engine
    ) -> None:
        await self._edited(engine, _BY_HAND)
        self.leave_over(engine, "t", 1, b'{"displaced": 1}', _ONCE_NS)

        await see_through(engine, "t")

        assert [sighting.raw for sighting in await engine.view("t")] == [_BY_HAND]

    async def test_a_leftover_that_changed_since_comes_again(self, engine: Engine) -> None:
        await self._edited(engine, _BY_HAND)
        self.leave_over(engine, "t", 1, b'{"displaced": 1}', _ONCE_NS)
        leftover, _ = await engine.view("t")

        self.leave_over(engine, "t", 1, b'{"displaced": 1, "and more": 2}', _ONCE_NS + 1)
        await engine.seen("t", leftover)

        found = [sighting.raw for sighting in await engine.view("t")]
        assert found == [b'{"displaced": 1, "and more": 2}', _BY_HAND]

    # --- publishing ---------------------------------------------------------------------------

    async def test_a_published_view_is_in_place(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        await recorded(engine, "t", drafted("a"))

        published = await engine.swap_view("t", rendered("t", 1), 1)

        assert published
        for looker in (engine, other):
            assert await view_itself(looker, "t") == rendered("t", 1)

    async def test_a_newer_rendering_replaces_an_older_one(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        await recorded(engine, "t", drafted("a"), drafted("b"))
        await engine.swap_view("t", rendered("t", 1), 1)

        published = await other.swap_view("t", rendered("t", 2), 2)

        assert published
        assert await view_itself(engine, "t") == rendered("t", 2)

    async def test_a_rendering_as_new_stays(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        await recorded(engine, "t", drafted("a"), drafted("b"))
        await engine.swap_view("t", rendered("t", 2, by="one"), 2)

        answers = [
            await other.swap_view("t", rendered("t", 1), 1),
            await other.swap_view("t", rendered("t", 2, by="another"), 2),
        ]

        assert answers == [True, True]
        assert await view_itself(engine, "t") == rendered("t", 2, by="one")

    async def test_an_unseen_foreign_view_is_never_replaced(self, engine: Engine) -> None:
        await self._edited(engine, _BY_HAND)

        published = await engine.swap_view("t", rendered("t", 2), 2)

        assert not published
        # In place, or displaced in that very moment: in either case there to be taken care of.
        assert _BY_HAND in [sighting.raw for sighting in await engine.view("t")]

    async def test_a_foreign_view_that_was_only_looked_at_is_not_replaced(
        self, engine: Engine
    ) -> None:
        await self._edited(engine, _BY_HAND)
        await engine.view("t")

        published = await engine.swap_view("t", rendered("t", 2), 2)

        assert not published
        assert _BY_HAND in [sighting.raw for sighting in await engine.view("t")]

    async def test_a_save_after_looking_is_not_replaced(self, engine: Engine) -> None:
        await self._edited(engine, _BY_HAND)
        [sighting] = await engine.view("t")
        self.save_as_person(engine, "t", _BY_HAND_LATER)
        await engine.seen("t", sighting)

        published = await engine.swap_view("t", rendered("t", 2), 2)

        assert not published
        assert _BY_HAND_LATER in [sighting.raw for sighting in await engine.view("t")]

    async def test_a_foreign_view_that_was_seen_through_is_replaced(self, engine: Engine) -> None:
        await self._edited(engine, _BY_HAND)
        await see_through(engine, "t")

        published = await engine.swap_view("t", rendered("t", 2), 2)

        assert published
        assert await view_itself(engine, "t") == rendered("t", 2)

    async def test_a_refused_rendering_succeeds_once_everything_was_seen_through(
        self, engine: Engine
    ) -> None:
        await self._edited(engine, _BY_HAND)
        await engine.swap_view("t", rendered("t", 2), 2)

        await see_through(engine, "t")
        published = await engine.swap_view("t", rendered("t", 3), 3)

        assert published
        assert [sighting.raw for sighting in await engine.view("t")] == [rendered("t", 3)]

    async def test_an_edited_rendering_is_a_foreign_view(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))
        needs(engine, "editable")
        await engine.swap_view("t", rendered("t", 9, ceo="Ann"), 9)
        edited = rendered("t", 9, ceo="Ann").replace(b"Ann", b"Bea")
        self.save_as_person(engine, "t", edited)

        published = await engine.swap_view("t", rendered("t", 10), 10)

        assert not published
        assert edited in [sighting.raw for sighting in await engine.view("t")]

    async def test_an_empty_file_stays(self, engine: Engine) -> None:
        await self._stays(engine, b"")

    async def test_an_unparseable_file_stays(self, engine: Engine) -> None:
        await self._stays(engine, _HALF_SAVED)

    async def test_view_rest_is_a_number_of_seconds(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))
        await engine.swap_view("t", rendered("t", 1), 1)

        assert 0.0 <= engine.view_rest("t") < 3600

    # --- keeping ------------------------------------------------------------------------------

    async def test_what_was_kept_is_there_under_its_name(self, open_engine: OpenEngine) -> None:
        engine, other = await open_engine(), await open_engine()
        await recorded(engine, "t", drafted("a"))

        path = await engine.keep("t", "conflicts", "theirs.json", b"theirs")

        assert PurePosixPath(path).name == "theirs.json"
        assert not PurePosixPath(path).is_absolute()
        for looker in (engine, other):
            assert await looker.kept("t", "conflicts") == {"theirs.json": b"theirs"}
            assert await looker.kept("t", "quarantine") == {}

    async def test_what_was_kept_survives_the_process(self, open_engine: OpenEngine) -> None:
        engine = await open_engine()
        needs(engine, "durable")
        await recorded(engine, "t", drafted("a"))
        await engine.keep("t", "quarantine", "tail", b"\x00\xff{")

        await engine.close()

        assert await (await open_engine()).kept("t", "quarantine") == {"tail": b"\x00\xff{"}

    async def test_another_content_gets_a_name_of_its_own(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))
        contents = [b"one", b"two", b"three"]

        paths = [await engine.keep("t", "conflicts", "theirs.json", raw) for raw in contents]

        kept = await engine.kept("t", "conflicts")
        assert [kept[PurePosixPath(path).name] for path in paths] == contents
        assert len(kept) == 3

    async def test_the_same_content_is_kept_once(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))

        paths = [await engine.keep("t", "conflicts", "theirs.json", b"same") for _ in range(2)]

        assert paths[0] == paths[1]
        assert await engine.kept("t", "conflicts") == {"theirs.json": b"same"}

    async def test_a_checkpoints_rendering_is_replaced(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))
        first = await engine.keep("t", "checkpoints", "0007-done.json", b"one")

        second = await engine.keep("t", "checkpoints", "0007-done.json", b"two")

        assert second == first
        assert await engine.kept("t", "checkpoints") == {"0007-done.json": b"two"}

    async def test_a_dropped_checkpoint_view_is_gone_and_nothing_else_is(
        self, engine: Engine
    ) -> None:
        await recorded(engine, "t", drafted("a"))
        await engine.keep("t", "checkpoints", "0001.json", b"one")
        await engine.keep("t", "checkpoints", "0002.json", b"two")
        await engine.keep("t", "conflicts", "0001.json", b"conflict")

        await engine.drop_checkpoint_view("t", "0001.json")
        await engine.drop_checkpoint_view("t", "0001.json")

        assert await engine.kept("t", "checkpoints") == {"0002.json": b"two"}
        assert await engine.kept("t", "conflicts") == {"0001.json": b"conflict"}
        assert len(await records_of(engine, "t")) == 1

    async def test_a_checkpoints_rendering_does_not_bring_a_task_back(self, engine: Engine) -> None:
        path = await engine.keep("t", "checkpoints", "0001.json", b"{}")

        assert path == ""
        assert await engine.kept("t", "checkpoints") == {}
        assert (await engine.heads("", 10))[0] == []

    async def test_names_that_are_known_are_not_read_again(self, engine: Engine) -> None:
        await recorded(engine, "t", drafted("a"))
        await engine.keep("t", "checkpoints", "0001.json", b"one")
        await engine.keep("t", "checkpoints", "0002.json", b"two")

        fresh = await engine.kept("t", "checkpoints", but={"0001.json"})

        assert fresh == {"0002.json": b"two"}

    async def test_keeping_files_does_not_make_a_task(self, engine: Engine) -> None:
        await engine.keep("t", "conflicts", "early.json", b"{}")

        assert (await engine.heads("", 10))[0] == []
        assert await engine.kept("t", "conflicts") == {"early.json": b"{}"}

    # --- arranging ----------------------------------------------------------------------------

    async def _edited(self, engine: Engine, raw: bytes) -> None:
        """Have a task whose view a person has saved."""
        needs(engine, "editable")
        await recorded(engine, "t", drafted("a"))
        await engine.swap_view("t", rendered("t", 1), 1)
        await see_through(engine, "t")
        self.save_as_person(engine, "t", raw)

    async def _stays(self, engine: Engine, raw: bytes) -> None:
        await self._edited(engine, raw)
        at_first = await engine.swap_view("t", rendered("t", 2), 2)
        in_place_at_first = await view_itself(engine, "t")

        await see_through(engine, "t")
        once_seen = await engine.swap_view("t", rendered("t", 3), 3)

        assert (at_first, once_seen) == (False, False)
        assert (in_place_at_first, await view_itself(engine, "t")) == (raw, raw)
