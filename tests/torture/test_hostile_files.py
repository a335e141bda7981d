"""The harness of spoilt files finds bugs that were planted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.torture import hostile_files
from tests.torture.hostile_files import Case

from holdfast_storage.core import records, strict_json
from holdfast_storage.core.errors import Unreadable
from holdfast_storage.engines.base import Head
from holdfast_storage.engines.folder import heads
from holdfast_storage.engines.folder.disk import Disk

STATE = "tasks/report/state.json"
OLD, NEWEST = "tasks/report/journal/000001.jsonl", "tasks/report/journal/000002.jsonl"
LAST = "tasks/report/journal/000003.jsonl"


@pytest.fixture(autouse=True)
def healthy() -> Path:
    """Make the healthy workspace before anything is planted."""
    return hostile_files.template()


def found(*cases: Case) -> list[str]:
    return [each for case in cases for each in hostile_files.tried(case)]


def flips(file: str, step: int = 41) -> Iterator[Case]:
    size = (hostile_files.template() / "project" / ".holdfast" / file).stat().st_size
    return (Case(file, "flip", at) for at in range(0, size * 8, step * 8 + 3))


def test_without_a_planted_bug_nothing_is_found() -> None:
    assert hostile_files.many(seed=1, count=60).violations == ()


def test_every_kind_of_file_is_spoilt_in_every_way() -> None:
    cases = hostile_files.all_cases()

    assert {case.file for case in cases} >= {
        *("holdfast.json", "README.md", ".gitignore", "schema/state.schema.json"),
        *(STATE, OLD, NEWEST, "tasks/report/loads.jsonl", "tasks/report/.lock"),
        *("tasks/report/.gate", "tasks/report/.head"),
    }
    assert any("/conflicts/" in case.file for case in cases)
    assert any("/checkpoints/" in case.file for case in cases)
    assert any(case.file.startswith(".trash/") for case in cases)
    size = (hostile_files.template() / "project" / ".holdfast" / NEWEST).stat().st_size
    assert sum(case.file == NEWEST and case.how == "truncate" for case in cases) == size


def test_believing_lines_whose_crc_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = records.decode_line

    def forgiving(raw: bytes, place: Any) -> Any:
        entry = decode(raw, place)
        if isinstance(entry, records.DamagedLine):
            # As if whatever cannot be read had never been there.
            return records.Record(
                entry.seq or 0, "x", "2026-01-02T03:04:05.678Z", "x", "acknowledge", {}, False, ""
            )
        return entry

    for module in ("lines", "heads"):
        monkeypatch.setattr(
            f"holdfast_storage.engines.folder.{module}.decode_line", forgiving, raising=True
        )

    assert found(*flips(NEWEST))


def test_taking_what_cannot_be_read_for_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    head = heads._head  # pyright: ignore[reportPrivateUsage]

    def forgetful(*arguments: Any) -> Head | None:
        told = head(*arguments)
        return None if told is None or told.problem else told

    monkeypatch.setattr(heads, "_head", forgetful)

    assert found(Case(LAST, "put another task's file in the place of"))


def test_taking_a_broken_file_for_an_empty_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = strict_json.parse_object

    def forgiving(raw: bytes) -> strict_json.JsonObject:
        try:
            return parse(raw)
        except Unreadable:
            return {}

    monkeypatch.setattr(strict_json, "parse_object", forgiving)

    assert found(Case(STATE, "truncate", 100))


def test_following_links_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(self: Disk, name: str, flags: int, mode: int = 0o600, *, at: int | None) -> int:
        return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=at)

    monkeypatch.setattr(Disk, "open", follow)

    assert found(Case("tasks/report/loads.jsonl", "put a link in the place of"))


def test_a_raw_traceback_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(raw: bytes, *arguments: Any) -> Any:
        return json.loads(raw)

    monkeypatch.setattr(strict_json, "parse_object", careless)

    assert found(Case(STATE, "truncate", 100))
