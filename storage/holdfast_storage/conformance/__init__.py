"""The promises of `engines.base` as tests, for every engine to inherit.

    class TestMyEngine(EngineConformance):
        @pytest_asyncio.fixture
        async def open_engine(self, tmp_path: Path) -> AsyncIterator[OpenEngine]:
            async with closing_all(lambda: MyEngine.open(tmp_path)) as open_engine:
                yield open_engine

An engine with `Capabilities(editable=True)` also says what happens when a person saves, by
overriding `save_as_person`. The other hooks of `Conformance` each bring a few more tests.
Install `holdfast[conformance]` to have what this needs.
"""

import pytest

# Before the import: a failing assert in there shows its values only if it was rewritten.
_PARTS = ("harness", "log", "planting", "racing", "rewriting", "surroundings", "view")
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from holdfast_storage.conformance.harness import Conformance, OpenEngine, closing_all
from holdfast_storage.conformance.log import LogConformance
from holdfast_storage.conformance.planting import PlantingConformance
from holdfast_storage.conformance.racing import RacingConformance
from holdfast_storage.conformance.rewriting import RewritingConformance
from holdfast_storage.conformance.surroundings import SurroundingsConformance
from holdfast_storage.conformance.view import ViewConformance

__all__ = ["Conformance", "EngineConformance", "OpenEngine", "closing_all"]


class EngineConformance(
    LogConformance,
    RacingConformance,
    RewritingConformance,
    PlantingConformance,
    ViewConformance,
    SurroundingsConformance,
):
    """Everything that an engine promises."""
