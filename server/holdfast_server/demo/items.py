"""What the agent of the demo works through."""

from __future__ import annotations

TASK = "summarise-50-documents"
ITEMS = [f"doc-{number:03d}" for number in range(1, 51)]
