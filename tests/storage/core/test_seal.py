from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast_storage.core.seal import embedded_revision, is_sealed, seal
from holdfast_storage.core.strict_json import parse_object, pretty

VIEW: dict[str, Any] = {
    "task": "report",
    "state": {"ceo": "Ann"},
    "read_only": {"revision": 63, "format": 1},
}


def test_a_view_certifies_itself() -> None:
    raw = seal(VIEW)

    assert is_sealed(raw)
    assert list(parse_object(raw)["read_only"]) == ["revision", "format", "digest"]


@settings(max_examples=100)
@given(st.data())
def test_one_changed_byte_breaks_the_seal(data: st.DataObject) -> None:
    raw = bytearray(seal(VIEW))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))

    assert not is_sealed(bytes(raw))


@pytest.mark.parametrize(
    "saved",
    [
        b"",
        b"{}",
        seal(VIEW) + b"\n",
        b"\xef\xbb\xbf" + seal(VIEW),
        seal(VIEW).replace(b"\n", b"\r\n"),
        seal(VIEW)[:100],
        pretty(parse_object(seal(VIEW)) | {"goal": "x"}),
    ],
)
def test_what_an_editor_makes_of_a_view_is_not_sealed(saved: bytes) -> None:
    assert not is_sealed(saved)


def test_a_digest_inside_the_state_is_not_the_seal() -> None:
    inner = {"digest": "0" * 64, "nested": {"digest": "0" * 64}}

    raw = seal(VIEW | {"state": inner})

    assert is_sealed(raw)
    assert parse_object(raw)["state"] == inner


def test_a_seal_copied_into_another_view_does_not_fit_it() -> None:
    digest = parse_object(seal(VIEW))["read_only"]["digest"]
    forged: dict[str, Any] = VIEW | {
        "state": {},
        "read_only": VIEW["read_only"] | {"digest": digest},
    }

    assert not is_sealed(pretty(forged))


@pytest.mark.parametrize(
    ("document", "revision"),
    [
        (VIEW, 63),
        ({"read_only": {"revision": 0}}, 0),
        ({"read_only": {"revision": -1}}, None),
        ({"read_only": {"revision": True}}, None),
        ({"read_only": {"revision": "63"}}, None),
        ({"read_only": {}}, None),
        ({"read_only": [63]}, None),
        ({}, None),
    ],
)
def test_the_embedded_revision_is_found_if_it_is_one(document: Any, revision: int | None) -> None:
    assert embedded_revision(document) == revision
