from __future__ import annotations

from typing import Any

import pytest

from holdfast_storage.core.errors import InvalidValue
from holdfast_storage.core.limits import Limits, Settings, read_settings
from holdfast_storage.core.retention import Retention


def test_an_empty_file_means_the_defaults() -> None:
    assert read_settings({}) == Settings()


def test_a_setting_that_is_given_replaces_the_default_and_no_other() -> None:
    document = {
        "$schema": "x",
        "help": "y",
        "format": 1,
        "workspace": "w",
        "limits": {"state_bytes": 1000},
        "retention": {"keep_last": 3, "older_than_hours": 0.5},
        "lease_seconds": 60,
    }

    settings = read_settings(document)

    assert settings == Settings(Limits(state_bytes=1000), Retention(3, 0.5), 60)


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({"leese_seconds": 60}, "leese_seconds"),
        ({"limits": {"stat_bytes": 1}}, "limits.stat_bytes"),
        ({"retention": {"keep": 1}}, "retention.keep"),
        ({"limits": {"depth": -1}}, "limits.depth"),
        ({"limits": {"depth": "64"}}, "limits.depth"),
        ({"limits": {"depth": True}}, "limits.depth"),
        ({"limits": []}, "limits"),
        ({"retention": None}, "retention"),
        ({"lease_seconds": None}, "lease_seconds"),
        ({"lease_seconds": -1}, "lease_seconds"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(document: Any, named: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_settings(document)

    assert refused.value.where == f"holdfast.json: {named}"


@pytest.mark.parametrize("document", [{"limits": {"depth": 65}}, {"limits": {"steps": 1.5}}])
def test_a_limit_that_could_not_be_kept_is_refused(document: Any) -> None:
    with pytest.raises(InvalidValue):
        read_settings(document)
