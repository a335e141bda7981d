"""Write for whoever reads: tables and colours on a terminal, plain text in a pipe, nothing that obeys.

Whatever was stored may have been written by anybody. A control character in it could move the
cursor, change a title or answer a question in somebody's name, so none of them ever gets out.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TextIO
from unicodedata import combining, east_asian_width

# C0, delete and C1; line and paragraph separators; what changes the direction of writing or hides.
_UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\U000e0001-\U000e007f]"
)
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATUS_STYLES = {
    "active": "green",
    "running": "green",
    "waiting": "yellow",
    "in_doubt": "yellow",
    "paused": "cyan",
    "failed": "red",
    "damaged": "red",
    "done": "dim",
    "skipped": "dim",
    "abandoned": "dim",
}
_GAP = "  "
_NARROWEST = 8
_BAR_WIDTH = 10


def harmless(text: str) -> str:
    """Show control characters instead of obeying them; only the newline stays."""
    return _UNSAFE.sub(lambda found: _escaped(found[0]), text)


def one_line(text: str) -> str:
    """Show a text in one line, whatever it is."""
    return harmless(text).replace("\n", "\\n")


def _escaped(character: str) -> str:
    known = {"\t": "\\t", "\r": "\\r"}
    number = ord(character)
    if number > 0xFFFF:
        return f"\\U{number:08x}"
    return known.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


class Styled(NamedTuple):
    """Text with a meaning that a terminal may show as a colour."""

    text: str
    style: str = ""


Part = str | Styled


def status(word: str) -> Styled:
    """Show a status in its colour."""
    return Styled(word, _STATUS_STYLES.get(word, ""))


def bar(done: int, total: int) -> str:
    """Show how much of something is done; nothing if nobody knows how much there is."""
    if total <= 0:
        return ""
    filled = min(_BAR_WIDTH, _BAR_WIDTH * done // total)
    return "█" * filled + "░" * (_BAR_WIDTH - filled)


class Screen:
    """Where a command writes to. On a terminal it is `rich`: wide enough for tables and colours."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self.is_rich = self._out.isatty()
        is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._has_colour = self.is_rich and not is_plain

    @property
    def size(self) -> os.terminal_size:
        """How many columns and lines there are."""
        try:
            found = os.get_terminal_size(self._out.fileno())
        except OSError:
            found = os.terminal_size((0, 0))
        # Some say 0 of what they do not know.
        return os.terminal_size((found.columns or 100, found.lines or 24))

    def line(self, *parts: Part) -> None:
        """Write one line, or several if a text has several."""
        self._out.write(self.painted(*parts) + "\n")

    def painted(self, *parts: Part) -> str:
        """Put parts together, each made harmless."""
        return "".join(self._paint(part) for part in parts)

    def _paint(self, part: Part) -> str:
        text, style = part if isinstance(part, Styled) else Styled(part)
        text = harmless(text)
        if not style or not self._has_colour or not text:
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"

    def block(self, text: str, indent: str = "  ") -> None:
        """Write a text of several lines, set off from what is around it."""
        for each in text.splitlines() or [""]:
            self.line(indent, each)

    def raw(self, text: str) -> None:
        """Write what was put together by `painted`, or moves the cursor for us."""
        self._out.write(text)
        self._out.flush()

    # --- tables -------------------------------------------------------------------------------

    def table(
        self, headers: Sequence[str], rows: Iterable[Sequence[Part]], *, least: Sequence[str] = ()
    ) -> None:
        """Write rows: aligned and cut to the width on a terminal, tab-separated and whole in a pipe.

        The columns headed `least` are cut first, one after the other.
        """
        for text in self.table_lines(headers, rows, least=least):
            self._out.write(text + "\n")

    def table_lines(
        self, headers: Sequence[str], rows: Iterable[Sequence[Part]], *, least: Sequence[str] = ()
    ) -> list[str]:
        """Give the lines of a table."""
        cells = [[_one_line(part) for part in row] for row in rows]
        if not self.is_rich:
            return ["\t".join(cell.text for cell in row) for row in cells]
        shown = [number for number in range(len(headers)) if any(row[number].text for row in cells)]
        columns = [[Styled(headers[n], "dim"), *(row[n] for row in cells)] for n in shown]
        widths = _fitting(
            [max(_width(cell.text) for cell in each) for each in columns],
            self.size,
            [n for name in least for n, number in enumerate(shown) if headers[number] == name],
        )
        return [
            _GAP.join(
                self.painted(Styled(_fitted(column[row].text, width), column[row].style))
                for column, width in zip(columns, widths, strict=True)
            ).rstrip()
            for row in range(len(cells) + 1)
        ]


def _one_line(part: Part) -> Styled:
    text, style = part if isinstance(part, Styled) else Styled(part)
    return Styled(one_line(text), style)


def _fitting(widths: list[int], size: os.terminal_size, least: list[int]) -> list[int]:
    """Take room away from some columns, then from the widest again and again, until the table fits."""
    room = size.columns - len(_GAP) * (len(widths) - 1)
    for column in least:
        widths[column] -= max(0, min(sum(widths) - room, widths[column] - _NARROWEST))
    while sum(widths) > room and max(widths) > _NARROWEST:
        widest = widths.index(max(widths))
        second = max([width for n, width in enumerate(widths) if n != widest], default=0)
        too_much = sum(widths) - room
        widths[widest] -= max(1, min(too_much, widths[widest] - max(second, _NARROWEST)))
    return widths


def _fitted(text: str, width: int) -> str:
    if _width(text) <= width:
        return text + " " * (width - _width(text))
    kept, room = "", width - 1
    for character in text:
        room -= _width(character)
        if room < 0:
            break
        kept += character
    return kept + "…" + " " * (width - 1 - _width(kept))


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )
