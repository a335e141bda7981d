"""What a person reads who opens a workspace and wonders what it is."""

README = """\
# A Holdfast workspace

AI agents keep their progress here, so that a crash, a time-out or a full context costs nothing.
Everything is plain text. You may read all of it and correct most of it while agents work.

- `tasks/NAME/state.json` is where one task stands. **Edit it** with any editor: change a value of
  `state`, `goal` or `next`; set a step in `plan` to `pending`, `done`, `failed` or `skipped`; add a
  step as a new line; write names of finished steps into `reopen`; put an `answer` in place of `null`
  in `questions`; set `status` to `paused`, `active`, `done` or `abandoned`. Agents see it at their
  next call, and are told what you changed. Whatever stands in `read_only` is put back.
- If your file does not parse, nothing is lost: it stays as you left it, the last good state counts,
  and agents are told the line and column.
- If an agent changed the same value meanwhile, yours stands and the agent's lies in `conflicts/`.
- `tasks/NAME/checkpoints/` holds copies of milestones and of the newest saves, to look at.
- `tasks/NAME/journal/` is the truth: one line for each thing that happened. Do not edit it.
- `holdfast.json` holds limits and how long checkpoints are kept; you may edit it.

This folder ignores itself in git. Delete it only if you want agents to forget their work.
"""
