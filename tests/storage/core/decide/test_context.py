from __future__ import annotations

from typing import Any

import pytest

from holdfast_storage.core.decide.context import Belief
from holdfast_storage.core.snapshot import Snapshot
from holdfast_storage.core.strict_json import encode


def kept(state: dict[str, Any]) -> Snapshot:
    return Snapshot.encoded(state, encode(state))


@pytest.mark.parametrize("form", [kept, Snapshot])
def test_every_key_of_what_was_shown_counts_as_seen(form: Any) -> None:
    before = form({"a": 1, "b": 2})
    # It saw a part of that, and now all of what came after it, under the same keys.
    belief = Belief(run=1, state=before, shown={"a"})

    belief.show_all(form({"a": 3, "b": 4}))

    assert belief.shown == {"a", "b"}


@pytest.mark.parametrize("form", [kept, Snapshot])
def test_keys_that_come_later_are_added_to_those_seen(form: Any) -> None:
    belief = Belief(run=1, state=form({"a": 1}), shown={"a"}, is_all_shown=True)

    belief.show_all(form({"b": 1}))

    assert belief.shown == {"a", "b"}
