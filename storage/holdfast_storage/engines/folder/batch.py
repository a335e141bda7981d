"""A batch of operations: decided one after the other, written together, accepted after one flush."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast_storage.core.errors import NotSaved
from holdfast_storage.engines.base import Foreseeing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast_storage.core.records import Entry, Record
    from holdfast_storage.engines.base import Operation
    from holdfast_storage.engines.folder.journal import Journal
    from holdfast_storage.engines.folder.lines import Numbered


class Batch:
    """Operations of one task under its lock, with everything they may have to see."""

    def __init__(
        self,
        journal: Journal,
        fresh: list[Numbered],
        read_again: Callable[[int], list[Numbered]],
        refuse_if_replaced: Callable[[int], None],
    ) -> None:
        self._journal = journal
        self._drafting = journal.drafting()
        # Beyond this seq lies only what this batch itself decides.
        self._end = self._drafting.seq
        self._entries, self._read_again = fresh, read_again
        self._refuse_if_replaced = refuse_if_replaced
        # `_entries` holds everything after this seq.
        self._since = fresh[0][0] - 1 if fresh else self._end
        self.has_begun_anew = False
        self._verdicts: list[Record | Exception | None] = []
        # The last one to decide, until it has made up its answer.
        self._unforeseen: tuple[Foreseeing, Record | None] | None = None
        # For each verdict, how many chunks must be durable before it may be told.
        self._rests_on: list[int] = []

    def decide(self, operation: Operation) -> None:
        """Let one operation decide; its refusal is its own."""
        verdict: Record | Exception | None
        self._foresee()
        try:
            known = operation.known
            if known == 0:
                # Whoever knows nothing is shown everything, and so are those who follow it.
                self.has_begun_anew = True
            elif not (self.has_begun_anew or self._end < known <= self._drafting.seq):
                # Whoever knows a record of this very batch knows the journal as it is.
                self._refuse_if_replaced(known)
            draft = operation.decide(self._shown(known))
            verdict = None if draft is None else self._drafting.add(draft)
            if verdict is not None:
                self._entries.append((verdict.seq, verdict))
            if isinstance(operation, Foreseeing):
                self._unforeseen = operation, verdict
        except Exception as refusal:  # noqa: BLE001 - whatever it is, it is the caller's
            verdict = refusal
        self._verdicts.append(verdict)
        self._rests_on.append(len(self._drafting.chunks))

    def _foresee(self) -> None:
        """Let the last one make up its answer: before the next decides, or while the disk writes."""
        if self._unforeseen is None:
            return
        operation, verdict = self._unforeseen
        self._unforeseen = None
        try:
            operation.foresee(verdict)
        except Exception as refusal:  # noqa: BLE001 - whatever it is, it is the caller's
            self._verdicts[-1] = refusal

    def _shown(self, known: int) -> Sequence[Entry]:
        if known >= self._drafting.seq:
            return []
        if known < self._since:
            drafted = [one for one in self._entries if one[0] > self._end]
            self._entries = self._read_again(known) + drafted
            self._since = known
        return [entry for seq, entry in self._entries if seq > known]

    def written(self) -> list[Record | Exception | None]:
        """Write and flush; what rests on anything that could not be is NotSaved."""
        if not self._drafting.chunks:
            self._foresee()
        moved: dict[int, Record] = {}
        for number, chunk in enumerate(self._drafting.chunks):
            try:
                meanwhile = self._foresee if self._unforeseen else None
                written = self._journal.write(chunk, meanwhile)
            except NotSaved as failure:
                return self._told(moved, number, failure)
            if written is not chunk:
                moved |= {record.seq: record for record in written.records}
        return self._told(moved, len(self._drafting.chunks), None) if moved else self._verdicts

    def _told(
        self, moved: dict[int, Record], durable: int, failure: NotSaved | None
    ) -> list[Record | Exception | None]:
        told: list[Record | Exception | None] = []
        for verdict, rests_on in zip(self._verdicts, self._rests_on, strict=True):
            if failure is not None and rests_on > durable:
                # Also a refusal: it may have been made because of a record that is not there now.
                told.append(failure)
            elif verdict is None or isinstance(verdict, Exception):
                told.append(verdict)
            else:
                told.append(moved.get(verdict.seq, verdict))
        return told


def asked(operation: Operation) -> Exception | None:
    """Let an operation that only asks, and has seen everything, decide; its refusal is its own."""
    try:
        if operation.decide([]) is not None:
            raise AssertionError("what only asks has nothing to write")
    except Exception as refusal:  # noqa: BLE001 - whatever it is, it is the caller's
        return refusal
    return None


def accept(operation: Operation, verdict: Record | Exception | None) -> Exception | None:
    """Tell an operation what became of it; what goes wrong in there is its caller's to see."""
    if isinstance(verdict, Exception):
        if isinstance(operation, Foreseeing) and isinstance(verdict, NotSaved):
            operation.abandon()
        return verdict
    try:
        operation.accept(verdict)
    except Exception as error:  # noqa: BLE001 - a bug of one caller is not its neighbours'
        return error
    return None
