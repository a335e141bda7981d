"""What every test of the folder engine leaves behind: nothing."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from tests.storage.engines.folder.harness import close_all


@pytest.fixture(autouse=True)
def _descriptors_are_closed() -> Generator[None]:
    yield
    close_all()
