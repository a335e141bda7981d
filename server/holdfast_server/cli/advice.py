"""What a person types next after a refusal; what the storage advises is written for agents."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast_storage.core.errors import HoldfastError

_OF_UNKNOWN = {
    "task": "Type holdfast ls to see what there is.",
    "checkpoint": "Type holdfast log {task} --checkpoints to see which there are.",
    "step": "Type holdfast steps {task} to see which there are.",
    "step in doubt": "Type holdfast steps {task} --status in_doubt to see which there are.",
    "claim on step": "Nobody is at work on it: type holdfast steps {task} to see where it stands.",
    "question": "Type holdfast show {task} to see the questions.",
    "conflict": "Type holdfast show {task} to see the conflicts.",
    "trash": "Type holdfast trash to see what can be restored.",
}
_OF_CODE = {
    "unavailable": "Type holdfast trash to see whether it can be restored.",
    "run_closed": "Type holdfast edit {task} and set status to active to open that run again, "
    "or holdfast fork {task} 0 NEW to go on in a copy.",
    "unfinished": "Type holdfast steps {task} to see them; holdfast edit {task} to skip or settle "
    "them; or holdfast finish {task} abandoned.",
    "already_there": "Choose another name; holdfast ls shows which are taken.",
    "busy": "Another program holds it: type the same command again in a few seconds.",
    "not_saved": "Make room or mend the disk, then type the same command again.",
    "invalid_value": "Nothing was changed. Correct it and type the command again.",
    "invalid_name": "Nothing was changed. Type holdfast ls to see the names there are.",
}


def advice(error: HoldfastError, options: argparse.Namespace) -> str:
    """Give the next command to type."""
    kind = getattr(error, "kind", "")
    text = _OF_UNKNOWN.get(kind) if error.code == "unknown" else _OF_CODE.get(error.code)
    if text is None or (error.code == "invalid_value" and error.hint != type(error).hint):
        text = error.hint
        return text
    task = getattr(options, "task", None) or getattr(error, "task", None) or "TASK"
    return text.format(task=shlex.quote(task) if isinstance(task, str) else "TASK")
