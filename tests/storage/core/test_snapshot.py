from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from holdfast_storage.core.records import Draft, Place, Record, decode_line, encode_line
from holdfast_storage.core.snapshot import Snapshot, have_nothing_in_common
from holdfast_storage.core.strict_json import encode
from holdfast_storage.engines.folder.lines import as_draft


def notes(seed: int, count: int = 200) -> dict[str, Any]:
    chance = random.Random(seed)
    return {
        f"k{n}": {"note": chance.randbytes(60).hex(), "n": chance.random()} for n in range(count)
    }


def test_what_is_kept_is_the_state_as_it_was() -> None:
    state: dict[str, Any] = {"list": [1], "text": "a"}
    kept = Snapshot.encoded(state, encode(state))

    state["list"].append(2)
    state["more"] = True

    assert kept.value == {"list": [1], "text": "a"}
    assert list(kept.keys) == ["list", "text"]


def test_what_is_given_apart_can_be_changed() -> None:
    for kept in (Snapshot({"list": [1]}), Snapshot.encoded({"list": [1]}, b'{"list":[1]}')):
        given = kept.apart()

        given["list"].append(2)

        assert kept.value == {"list": [1]}


def test_the_objects_are_made_once() -> None:
    kept = Snapshot.encoded({"a": []}, b'{"a":[]}')

    assert kept.value is kept.value


def test_a_record_that_was_never_read_from_the_disk_can_be_written_again() -> None:
    state = notes(1, 3)
    body = {"checkpoint": 1, "state": Snapshot.encoded(state, encode(state))}
    record = Record(7, "id", "2026-01-02T03:04:05Z", "me", "save", body)

    again = decode_line(encode_line(7, as_draft(record))[:-1], Place(0, 0, 0))

    assert isinstance(again, Record)
    assert replace(again, body={}) == replace(record, body={})
    assert again.body == {"checkpoint": 1, "state": state}


def test_a_draft_that_was_read_is_written_as_it_was() -> None:
    draft = Draft("id", "2026-01-02T03:04:05Z", "me", "save", {"state": {"a": [1, 2.5, None]}})
    read = decode_line(encode_line(1, draft)[:-1], Place(0, 0, 0))

    assert isinstance(read, Record)
    assert encode_line(1, as_draft(read)) == encode_line(1, draft)


def test_states_with_other_values_have_nothing_in_common() -> None:
    assert have_nothing_in_common(encode(notes(1)), encode(notes(2)))


def test_states_that_share_a_half_have_something_in_common() -> None:
    old, new = notes(1), notes(2)
    halves = {**new, **{key: old[key] for key in list(old)[::2]}}

    assert not have_nothing_in_common(encode(old), encode(halves))


def test_what_changed_its_place_altogether_is_found() -> None:
    old = notes(1)
    turned = dict(reversed(old.items()))

    assert not have_nothing_in_common(encode(old), encode(turned))


def test_what_moved_a_little_is_found() -> None:
    old = notes(1)
    moved = {"first": "x" * 500, **old}

    assert not have_nothing_in_common(encode(old), encode(moved))


def test_states_that_are_kept_as_bytes_know_the_same_keys_by_their_names() -> None:
    one, same, turned, other = (
        Snapshot.encoded(state, encode(state))
        for state in ({"a": 1, "b": 2}, {"a": 3, "b": 4}, {"b": 1, "a": 2}, {"a": 1})
    )

    assert same.is_known_to_have_the_keys_of(one)
    assert not turned.is_known_to_have_the_keys_of(one)
    assert not other.is_known_to_have_the_keys_of(one)
    assert not Snapshot({"a": 1, "b": 2}).is_known_to_have_the_keys_of(one)
    assert (same.value, list(same.keys)) == ({"a": 3, "b": 4}, ["a", "b"])
    assert same.is_known_to_have_the_keys_of(one)


@pytest.mark.parametrize("state", [{}, {"a": 1}])
def test_a_state_without_keys_is_empty_however_it_is_kept(state: dict[str, Any]) -> None:
    for kept in (Snapshot(state), Snapshot.encoded(state, encode(state))):
        assert kept.is_empty == (not state)


@pytest.mark.parametrize("parts", range(2, 41))
def test_what_changed_at_the_beginning_of_each_part_does_not_hide_the_rest(parts: int) -> None:
    def state(at: int) -> dict[str, Any]:
        chance = random.Random(1)
        size = 90_000 // parts
        return {
            f"part{n:02d}": {"checked_at": f"2026-01-02T03:04:{at:05d}", "text": text[:size]}
            for n in range(parts)
            if (text := chance.randbytes(size).hex())
        }

    assert not have_nothing_in_common(encode(state(1)), encode(state(2)))
