from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_storage.core.errors import InvalidName
from holdfast_storage.core.ids import (
    check_id,
    checkpoint_file_name,
    folder_name,
    resembles,
    similar,
)

SAFE_FOLDER = re.compile("[a-z0-9][a-z0-9_-]{0,63}|[a-z0-9-]{1,40}~[0-9a-f]{16}")


def problem_of(name: str) -> str:
    with pytest.raises(InvalidName) as caught:
        check_id("step", name)
    assert (caught.value.kind, caught.value.name) == ("step", name)
    return caught.value.problem


# --- names that are taken ---------------------------------------------------------------------


READABLE = ["doc-047", "Doc 7", "../etc/passwd", "a/b", "CON", "x.", "0", "x" * 512, "é" * 256]
FOREIGN = ["契約書", "résumé", "re\u0301sume\u0301", "👍", "مهمة"]


@pytest.mark.parametrize("name", READABLE + FOREIGN)
def test_readable_names_are_taken_as_they_are(name: str) -> None:
    assert check_id("step", name) == name


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "empty"),
        ("a\0b", "U+0000"),
        ("a\nb", "U+000A"),
        ("a\tb", "U+0009"),
        ("a\x1bb", "U+001B"),
        ("a\x7fb", "U+007F"),
        ("a\x85b", "U+0085"),
        ("a\u2028b", "U+2028"),
        ("a\u202eb", "U+202E"),
        ("a\u2066b", "U+2066"),
        ("a\u200fb", "U+200F"),
        ("a\u200bb", "U+200B"),
        ("a\u200db", "U+200D"),
        ("a\ufeffb", "U+FEFF"),
        ("a\u2060b", "U+2060"),
        ("a\U000e0041b", "U+E0041"),
        ("a\ud800b", "surrogate"),
        (" a", "white space"),
        ("a ", "white space"),
        ("a\u3000", "white space"),
        (" ", "white space"),
        ("x" * 513, "513"),
        ("é" * 257, "514"),
    ],
)
def test_a_name_that_is_refused_is_told_what_to_do(name: str, word: str) -> None:
    assert word in problem_of(name)


# --- names of folders and files ---------------------------------------------------------------


@pytest.mark.parametrize("task", ["ingest-200-docs", "a", "0", "a_b", "x" * 64, "console", "com10"])
def test_a_plain_id_is_its_own_folder(task: str) -> None:
    assert folder_name(task) == task


@pytest.mark.parametrize(
    ("task", "slug"),
    [
        ("Ingest 200 docs!", "ingest-200-docs"),
        ("../../etc/passwd", "etc-passwd"),
        ("con", "con"),
        ("lpt1", "lpt1"),
        ("-a", "a"),
        ("a~b", "a-b"),
        ("x" * 65, "x" * 40),
        ("x" * 39 + " y", "x" * 39),
        ("契約書", "task"),
        ("plain\n", "plain"),
    ],
)
def test_any_other_id_becomes_a_slug_and_a_hash(task: str, slug: str) -> None:
    name, hexes = folder_name(task).split("~")

    assert name == slug
    assert re.fullmatch("[0-9a-f]{16}", hexes)


def test_folder_names_stay_what_they_are() -> None:
    # People's folders hang on this: SHA-256 of the id's UTF-8 bytes, not normalised.
    assert folder_name("Ingest 200 docs!") == "ingest-200-docs~dc3e63fdca765ed9"
    assert folder_name("é") == "task~4a99557e4033c353"
    assert folder_name("e\u0301").startswith("e~")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_folder_name_is_safe(task: str) -> None:
    assert SAFE_FOLDER.fullmatch(folder_name(task))


IDS = st.text(st.sampled_from("abAB-_ ~./é"), max_size=4)


@given(IDS, IDS)
def test_two_ids_never_share_a_folder(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)


def test_checkpoint_files_sort_by_number_and_tell_the_label() -> None:
    assert checkpoint_file_name(7, "Research complete") == "0007-research-complete.json"
    assert checkpoint_file_name(7, "") == "0007.json"
    assert checkpoint_file_name(7, "契約書") == "0007.json"
    assert checkpoint_file_name(12345, "../x") == "12345-x.json"
    assert checkpoint_file_name(1, "x" * 500) == f"0001-{'x' * 40}.json"


# --- names that are mistaken for one another --------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Doc-7", "doc_007"),
        ("doc 7", "doc7"),
        ("a.b/c:d", "ABCD"),
        ("step-0", "step-000"),
        ("1.02", "1-2"),
        ("0001", "1"),
    ],
)
def test_names_that_differ_only_in_case_separators_and_zeros_are_alike(
    one: str, other: str
) -> None:
    assert resembles(one) == resembles(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("doc-7", "doc-8"),
        ("doc-7", "doc-70"),
        ("doc-100", "doc-1"),
        ("part-1-12", "part-11-2"),
        ("1.1", "11"),
    ],
)
def test_names_with_other_numbers_are_not_alike(one: str, other: str) -> None:
    assert resembles(one) != resembles(other)


@given(st.text(st.sampled_from("aB0 19-_./:")))
def test_what_a_name_resembles_resembles_itself(name: str) -> None:
    assert resembles(resembles(name)) == resembles(name)


def test_the_most_similar_names_come_first() -> None:
    known = ["ingest-200-docs", "ingest-docs", "write-report", "Ingest_200_Docs"]

    assert similar("ingest-200-doc", known, limit=2) == ["ingest-200-docs", "Ingest_200_Docs"]


def test_names_that_have_nothing_in_common_are_not_similar() -> None:
    assert similar("zzz", ["ingest", "report"]) == []
    assert similar("zzz", []) == []


def test_looking_for_similar_names_ends_however_many_and_long_they_are() -> None:
    known = (("ab" * 256)[:-6] + f"{n:06d}" for n in range(10**9))

    assert len(similar("ba" * 256, known)) == 3
