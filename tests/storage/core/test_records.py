from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast_storage.core.records import (
    OPS,
    DamagedLine,
    Draft,
    Place,
    Record,
    decode_line,
    encode_line,
)
from holdfast_storage.core.strict_json import decode, encode

HERE = Place(1, 40, 90)
DONE = Draft(
    "8f3a",
    "2026-03-01T12:00:00.000Z",
    "ann@laptop",
    "done",
    {"step": "doc-047", "result": {"n": 1}},
)

BODIES = st.dictionaries(
    st.text(max_size=5).map(lambda key: "x" + key),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def read(line: bytes) -> Record | DamagedLine:
    return decode_line(line.removesuffix(b"\n"), HERE)


def damaged(line: bytes) -> DamagedLine:
    entry = read(line)
    assert isinstance(entry, DamagedLine)
    return entry


@settings(max_examples=50)
@given(st.integers(1, 10**12), st.booleans(), st.text(max_size=5), BODIES)
def test_what_was_written_is_read_back(seq: int, opens: bool, boot: str, body: Any) -> None:
    line = encode_line(seq, Draft("8f3a", "at", "ann", "save", body, opens), boot)

    expected = Record(seq, "8f3a", "at", "ann", "save", body, opens, boot)
    assert read(line) == expected


@settings(max_examples=50)
@given(BODIES)
def test_what_was_encoded_before_is_read_back_the_same(body: Any) -> None:
    draft = Draft("8f3a", "at", "ann", "save", {"checkpoint": 1, "state": body})

    line = encode_line(7, replace(draft, encoded={"state": encode(body)}))

    assert line == encode_line(7, draft)


def test_a_record_is_one_line_of_json_that_people_can_read() -> None:
    line = encode_line(63, DONE)

    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert list(decode(line)) == ["seq", "id", "at", "by", "op", "step", "result", "crc"]


def test_a_record_knows_where_it_lies() -> None:
    entry = read(encode_line(63, DONE))

    assert entry.place == HERE


@settings(max_examples=100)
@given(st.data())
def test_no_changed_byte_is_believed(data: st.DataObject) -> None:
    line = bytearray(encode_line(63, DONE))
    at = data.draw(st.integers(0, len(line) - 2))
    line[at] ^= data.draw(st.integers(1, 255))

    entry = decode_line(bytes(line[:-1]), HERE)

    assert isinstance(entry, DamagedLine)


@settings(max_examples=50)
@given(st.integers(0, len(encode_line(63, DONE)) - 2))
def test_half_a_line_is_not_believed(length: int) -> None:
    damage = damaged(encode_line(63, DONE)[:length])

    assert damage.place == HERE


def test_of_a_damaged_line_what_can_be_made_out_is_told() -> None:
    line = encode_line(63, DONE).replace(b'"n":1', b'"n":2')

    damage = damaged(line)

    assert (damage.seq, damage.op, damage.step) == (63, "done", "doc-047")


def test_a_damaged_save_tells_its_checkpoint() -> None:
    save = Draft("8f3a", "at", "ann", "save", {"checkpoint": 7, "state": {"a": 1}})

    damage = damaged(encode_line(63, save).replace(b'"a":1', b'"a":2'))

    assert (damage.op, damage.checkpoint) == ("save", 7)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\x00" * 40,
        b"[1, 2]",
        b'{"seq": "63", "step": 7, "checkpoint": true}',
        b'{"seq": true, "step": null, "checkpoint": "7"}',
    ],
)
def test_nothing_of_the_wrong_kind_is_made_out(line: bytes) -> None:
    damage = damaged(line)

    assert (damage.seq, damage.step, damage.checkpoint) == (None, "", None)


@pytest.mark.parametrize("missing", ["seq", "id", "at", "by", "op"])
def test_a_line_without_what_every_record_has_is_not_one_even_if_its_crc_fits(missing: str) -> None:
    whole = decode(encode_line(63, DONE))
    del whole["crc"], whole[missing]

    assert damaged(with_crc(whole)).problem == "it is not a record"


@pytest.mark.parametrize("wrong", [{"seq": "63"}, {"seq": True}, {"at": 5}, {"by": None}])
def test_a_line_whose_envelope_has_other_kinds_of_values_is_not_a_record(wrong: Any) -> None:
    whole = decode(encode_line(63, DONE))
    del whole["crc"]

    assert damaged(with_crc(whole | wrong)).problem == "it is not a record"


def with_crc(whole: dict[str, Any]) -> bytes:
    open_ended = encode(whole)[:-1]
    return b'%b,"crc":"%08x"}' % (open_ended, crc32(open_ended))


def test_all_operations_of_the_design_are_known() -> None:
    said = (
        "save done begin release resolve reopen edit ask answer finish pin prune restore fork "
        "acknowledge write"
    )

    assert set(said.split()) == OPS
