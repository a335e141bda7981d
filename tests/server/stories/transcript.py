"""A story as a transcript: each call and its answer, with what it costs, and nothing that changes."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.server.conftest import Agent, Refused, assert_snapshot

from holdfast_storage.core.strict_json import is_array, is_object

_CHARACTERS_PER_TOKEN = 4
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_VOLATILE = {
    "claim": "<claim>",
    "idempotency_key": "<key>",
    "bytes": 0,
}
_FILE = re.compile(r"conflicts/[0-9a-f]{8}-(\d+)\.json")
_HOST = re.compile(r"@[\w.-]+")


class Transcript:
    """Keeps what agents said and were told, in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: list[dict[str, Any]] = []
        self._seen: dict[str, str] = {}

    def note(self, what: str) -> None:
        """Note something that happens outside: a crash, a person, a new agent."""
        self._lines.append({"happens": what})

    async def call(self, agent: Agent, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and note the answer."""
        answer = await agent.send(tool, arguments)
        self._add(tool, arguments, answer)
        return answer

    async def refused(self, agent: Agent, tool: str, **arguments: Any) -> Refused:
        """Call a tool, be refused, and note that."""
        refused = await agent.refusal(tool, **arguments)
        self._add(tool, arguments, str(refused))
        return refused

    def _add(self, tool: str, arguments: dict[str, Any], answer: Any) -> None:
        text = answer if isinstance(answer, str) else _compact(answer)
        self._lines.append(
            {
                "call": tool,
                "with": self._settled(arguments),
                "tokens": -(-len(text) // _CHARACTERS_PER_TOKEN),
                "answer": self._settled(answer),
            }
        )

    def check(self) -> None:
        """Compare with what was reviewed before."""
        costs = [line["tokens"] for line in self._lines if "tokens" in line]
        told = {"story": self._name, "tokens_in_all": sum(costs), "transcript": self._lines}
        assert_snapshot(f"story-{self._name}", told)

    @property
    def tokens(self) -> list[int]:
        """What each answer cost."""
        return [line["tokens"] for line in self._lines if "tokens" in line]

    def _settled(self, value: Any, key: str = "") -> Any:
        """Put words in the place of times, ids, claims and keys."""
        if is_object(value):
            return {name: self._settled(each, name) for name, each in value.items()}
        if is_array(value):
            return [self._settled(each, key) for each in value]
        if key in _VOLATILE and value:
            return self._named(key, value) if isinstance(value, str) else 0
        if isinstance(value, str):
            text = _FILE.sub(r"conflicts/<id>-\1.json", _TIME.sub("<time>", value))
            return _HOST.sub("@host", text)
        return value

    def _named(self, key: str, value: str) -> str:
        """Give the same claim or key the same name every time."""
        names = [name for name in self._seen.values() if name.startswith(f"<{key}")]
        return self._seen.setdefault(value, f"<{key} {len(names) + 1}>")


def _compact(answer: Any) -> str:
    return json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
