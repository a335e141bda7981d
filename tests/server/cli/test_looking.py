"""A person sees every task, one task, what happened to it and what changed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.cli.conftest import Desk, Terminal

from holdfast_storage import Workspace

# --- ls ---------------------------------------------------------------------------------------


def test_every_task_is_listed_the_most_recent_first(busy: Desk) -> None:
    async def more(workspace: Workspace) -> None:
        await workspace.caller("bob").save("letters", {"a": 1}, goal="Write them", next="to Ann")

    busy.work(more)

    rows = busy.ok("ls").rows

    assert [row[0] for row in rows] == ["letters", "ingest"]
    assert rows[0][1:5] == ["active", "0/0", "to Ann", "bob"]
    assert rows[1][1:3] == ["waiting", "1/5"]
    assert "1 question" in rows[1][6]


def test_tasks_are_listed_by_status(busy: Desk) -> None:
    assert [row[0] for row in busy.ok("ls", "--status", "waiting").rows] == ["ingest"]
    assert busy.ok("ls", "--status", "done").out == ""


def test_a_listing_without_summaries_is_the_same(busy: Desk) -> None:
    quick = busy.json("ls")
    for head in busy.root.glob("tasks/*/.head"):
        head.unlink()

    folded = busy.json("ls")

    assert folded == quick
    assert quick[0]["progress"] == {"done": 1, "failed": 1, "total": 5}


def test_a_step_whose_agent_died_is_listed_as_in_doubt(busy: Desk) -> None:
    async def begin(workspace: Workspace) -> None:
        await workspace.caller("mailer").begin("mails", "mail-1")

    busy.work(begin)

    [line] = [line for line in busy.json("ls") if line["task"] == "mails"]
    assert line["in_doubt"] == 1


@pytest.mark.parametrize("broken", [b"{}", b'{"summary": 1}', b"\xff"])
def test_a_summary_that_somebody_changed_is_not_believed(busy: Desk, broken: bytes) -> None:
    told = busy.json("ls")
    head = busy.root / "tasks" / "ingest" / ".head"
    head.write_bytes(head.read_bytes().replace(b'"status":"waiting"', b'"status":12'))
    assert busy.json("ls") == told

    head.write_bytes(broken)

    assert busy.json("ls") == told


def test_a_task_that_cannot_be_read_is_listed_with_the_reason(busy: Desk) -> None:
    (busy.root / "tasks" / "ingest").rename(busy.root / "tasks" / "elsewhere")

    [row] = busy.ok("ls").rows

    assert row[0:2] == ["elsewhere", "damaged"]
    assert "belongs to the task" in row[3]


def test_where_there_is_nothing_nothing_is_listed(desk: Desk) -> None:
    assert desk.ok("ls").out == ""
    assert desk.json("ls") == []
    assert not desk.root.exists()


def test_a_listing_imports_neither_mcp_nor_what_works_on_tasks(desk: Desk) -> None:
    async def save(workspace: Workspace) -> None:
        await workspace.caller("claude").save("ingest", {"pages": 1})

    desk.work(save)
    program = (
        "import sys; from holdfast_server.cli.main import main; status = main(['ls']);"
        "heavy = {'mcp', 'asyncio', 'watchfiles', 'holdfast_storage.results'} & set(sys.modules);"
        "sys.exit(status or (str(heavy) if heavy else 0))"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("ingest\t")


def test_no_command_for_people_imports_mcp(busy: Desk) -> None:
    program = (
        "import sys; from holdfast_server.cli.main import main;"
        "main(['show', 'ingest']); main(['check']); sys.exit('mcp' in sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)


# --- show -------------------------------------------------------------------------------------


def test_a_task_is_shown_with_what_it_waits_for_and_how_to_settle_it(busy: Desk) -> None:
    said = busy.ok("show", "ingest").out

    assert "One row each" in said
    assert "Skip doc-002? (skip, stop)" in said
    assert "holdfast answer ingest TEXT --question q1" in said
    assert "holdfast resolve ingest doc-003 --happened (or --did-not-happen)" in said
    assert '"pages": 12' in said


def test_a_task_as_json_has_everything(busy: Desk) -> None:
    told = busy.json("show", "ingest")

    assert told["state"] == {"model": "small", "pages": 12, "files": ["a"]}
    assert told["status"] == "waiting"
    assert told["in_doubt"][0]["step"] == "doc-003"
    assert told["questions"][0]["options"] == ["skip", "stop"]
    assert told["remaining"] == ["doc-002", "doc-004", "doc-005"]


def test_a_checkpoint_is_shown_as_it_was(busy: Desk) -> None:
    told = busy.json("show", "ingest", "1")

    assert told["state"] == {"model": "small", "pages": 10}
    assert (told["checkpoint"], told["current"]) == (1, False)
    assert '"pages": 10' in busy.ok("show", "ingest", "1").out


def test_a_state_that_cannot_be_read_is_unknown_and_not_empty(desk: Desk) -> None:
    async def save(workspace: Workspace) -> None:
        agent = workspace.caller("agent")
        await agent.save("report", {"n": 1})
        await agent.mark("report", "a")

    desk.work(save)
    desk.damage("report", 1)

    assert desk.json("show", "report")["state"] is None
    said = desk.ok("show", "report").out
    assert "unknown: what was saved cannot be read" in said
    assert "holdfast check --accept" in said


def test_looking_is_no_resume(busy: Desk) -> None:
    busy.ok("show", "ingest")
    busy.ok("show", "ingest", "1")

    assert busy.json("show", "ingest")["progress"]["resumes"] == 0


def test_a_name_that_is_nearly_right_is_suggested(busy: Desk) -> None:
    typed = busy("show", "ingset")

    assert typed.status == 3
    assert "did you mean ingest?" in typed.err
    assert "holdfast ls" in typed.err


def test_a_refusal_is_json_too(busy: Desk) -> None:
    typed = busy("show", "ingset", "--json")

    assert typed.status == 3
    assert typed.json["error"] == "unknown"
    assert "holdfast ls" in typed.json["hint"]


def test_a_checkpoint_that_is_not_there_is_refused_with_the_next_command(busy: Desk) -> None:
    typed = busy("show", "ingest", "9")

    assert typed.status == 3
    assert "holdfast log ingest --checkpoints" in typed.err
    assert busy.ok("log", "ingest", "--checkpoints").rows[0][0] == "2"


# --- log, steps, diff -------------------------------------------------------------------------


def test_what_happened_is_told_newest_first(busy: Desk) -> None:
    rows = busy.ok("log", "ingest").rows

    assert [row[0] for row in rows] == ["6", "5", "4", "3", "2", "1"]
    assert [row[3] for row in rows[:5]] == [
        "asked q1",
        "began step doc-003",
        "saved checkpoint 2 (half way): /state/pages, /state/files",
        "step doc-002: failed",
        "step doc-001: done",
    ]


def test_everything_that_people_do_is_told_in_words(busy: Desk) -> None:
    for words in (
        ["answer", "ingest", "skip"],
        ["resolve", "ingest", "doc-003", "--did-not-happen"],
        ["reopen", "ingest", "doc-001"],
        ["pin", "ingest", "1"],
        ["pin", "ingest", "1", "--off"],
        ["pause", "ingest"],
        ["unpause", "ingest"],
        ["rewind", "ingest", "1"],
        ["fork", "ingest", "0", "copy"],
    ):
        busy.ok(*words)

    said = [row[3] for row in busy.ok("log", "ingest", "--limit", "8").rows]
    forked = busy.ok("log", "copy", "--limit", "1").rows

    assert said[::-1] == [
        'answered q1: "skip"',
        "step doc-003 did not happen",
        "reopened doc-001",
        "checkpoint 1 is pinned",
        "checkpoint 1 is no longer pinned",
        "set to paused",
        "set to active",
        "went back to checkpoint 1, as 3: /state/pages, /state/files",
    ]
    assert forked[0][3] == "forked from another task"


def test_checkpoints_are_listed_with_what_they_are(busy: Desk) -> None:
    busy.ok("pin", "ingest", "1")

    rows = busy.ok("log", "ingest", "--checkpoints").rows

    assert [(row[0], row[1], row[5]) for row in rows] == [
        ("2", "half way", "milestone"),
        ("1", "", "pinned"),
    ]
    assert busy.json("log", "ingest", "--checkpoints")[1]["pinned"] is True


def test_a_long_history_is_told_whole_and_cut_where_wanted(desk: Desk) -> None:
    async def many(workspace: Workspace) -> None:
        for number in range(250):
            await workspace.task("many").done(f"step-{number}")

    desk.work(many)

    assert len(desk.ok("log", "many").rows) == 250
    assert len(desk.ok("log", "many", "--limit", "3").rows) == 3
    assert len(desk.json("steps", "many")) == 250
    assert len(desk.ok("steps", "many", "--limit", "210").rows) == 210


def test_steps_are_listed_in_order_and_by_status(busy: Desk) -> None:
    rows = busy.ok("steps", "ingest").rows

    assert [(row[0], row[1]) for row in rows[:3]] == [
        ("doc-001", "done"),
        ("doc-002", "failed"),
        ("doc-003", "in_doubt"),
    ]
    assert rows[0][5] == '{"rows":4}'
    assert [row[0] for row in busy.ok("steps", "ingest", "--status", "failed").rows] == ["doc-002"]
    assert busy.json("steps", "ingest", "--status", "done")[0]["result"] == {"rows": 4}


def test_a_diff_names_what_came_went_and_changed(busy: Desk) -> None:
    said = busy.ok("diff", "ingest", "1", "2").out

    assert said.splitlines() == ['+ /files: ["a"]', "- /pages: 10", "+ /pages: 12"]
    assert busy.ok("diff", "ingest").out == said
    assert busy.ok("diff", "ingest", "2").out == ""
    assert busy.ok("diff", "ingest", "2", "1").out.splitlines()[0] == '- /files: ["a"]'
    assert {each["path"] for each in busy.json("diff", "ingest", "1")} == {"/files", "/pages"}


# --- a terminal -------------------------------------------------------------------------------

At = Callable[..., Terminal]


def test_a_terminal_gets_a_table_with_colours_and_a_bar(busy: Desk, terminal: At) -> None:
    screen = terminal(columns=120)

    busy("ls")

    said = screen.shown()
    assert "TASK" in said.splitlines()[0]
    assert "██░░░░░░░░ 1/5, 1 failed" in said
    assert "\x1b[33mwaiting\x1b[0m" in said


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("NO_COLOR", ""), ("TERM", "dumb")])
def test_a_terminal_without_colours_gets_none(
    busy: Desk, terminal: At, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    screen = terminal()

    busy("ls")
    busy("show", "ingest")

    assert "\x1b" not in screen.shown()


def test_a_pipe_gets_no_colours_and_whole_values(busy: Desk) -> None:
    for words in (["ls"], ["show", "ingest"], ["log", "ingest"], ["diff", "ingest"]):
        assert "\x1b" not in busy.ok(*words).out


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_table_fits_the_terminal(busy: Desk, terminal: At, columns: int) -> None:
    async def long(workspace: Workspace) -> None:
        await workspace.caller("x" * 60).save("名前" * 20, next="n" * 300)

    busy.work(long)
    screen = terminal(columns=columns)

    busy("ls")

    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen.shown())
    widths = [sum(2 if each in "名前" else 1 for each in line) for line in plain.splitlines()]
    assert max(widths) <= max(columns, 68)
    assert "…" in plain


def test_a_long_list_on_a_terminal_says_that_there_is_more(desk: Desk, terminal: At) -> None:
    async def many(workspace: Workspace) -> None:
        for number in range(40):
            await workspace.task("many").done(f"step-{number}")

    desk.work(many)
    screen = terminal()

    desk("steps", "many")
    desk("log", "many")

    assert screen.shown().count("--limit 0 shows all") == 2


def test_an_empty_workspace_says_so_on_a_terminal(desk: Desk, terminal: At) -> None:
    screen = terminal()

    desk("ls")
    desk("trash")
    desk("check")
    desk("ls", "--status", "done")

    said = screen.shown()
    assert "There are no tasks yet." in said
    assert "The trash is empty." in said
    assert "All is well" in said
    assert "No task is done." in said


# --- text that would obey ---------------------------------------------------------------------

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\x00\r\x08\x7f\u2028\u200b<\ttab>"


def test_no_stored_text_reaches_the_terminal_as_a_command(desk: Desk, terminal: At) -> None:
    async def evil(workspace: Workspace) -> None:
        agent = workspace.caller("agent")
        await agent.save("evil", {EVIL: EVIL}, goal=EVIL, next=EVIL, plan=["a", "b"])
        await agent.mark("evil", "a", {EVIL: EVIL})
        await agent.save("evil", {EVIL: [EVIL]})
        await agent.ask("evil", EVIL, [EVIL])
        await workspace.answer("evil", EVIL)
        await agent.ask("evil", EVIL + "?", [EVIL])
        await agent.finish("evil", "paused", EVIL)

    desk.work(evil)
    screen = terminal(columns=200)

    for words in (
        ["ls"],
        ["show", "evil"],
        ["show", "evil", "1"],
        ["log", "evil"],
        ["log", "evil", "--checkpoints"],
        ["steps", "evil"],
        ["diff", "evil"],
        ["answer", "evil", EVIL],
        ["show", "evil" + EVIL],
        ["finish", "evil"],
    ):
        desk(*words)
        desk(*words, "--json")

    said = re.sub(r"\x1b\[[0-9]{1,2}m", "", screen.shown())
    # Our own colours are gone: what is left may be anything but a command.
    assert sorted(set(re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e\u2028]", said))) == []
    assert "\\x1b[2J" in said


def test_no_stored_text_breaks_a_line_in_a_pipe(desk: Desk) -> None:
    async def evil(workspace: Workspace) -> None:
        await workspace.caller("agent").save("evil", next="one\ntwo\tthree")

    desk.work(evil)

    [row] = desk.ok("ls").rows
    assert row[3] == "one\\ntwo\\tthree"


def test_json_says_exactly_what_was_stored(desk: Desk) -> None:
    async def evil(workspace: Workspace) -> None:
        await workspace.caller("agent").save("evil", {"text": EVIL}, goal=EVIL)

    desk.work(evil)

    told = desk.json("show", "evil")
    assert (told["goal"], told["state"]) == (EVIL, {"text": EVIL})


def test_a_reader_who_has_seen_enough_is_no_failure(busy: Desk, tmp_path: Path) -> None:
    command = f"{sys.executable} -m holdfast_server log ingest --limit 0 | true"

    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert ran.stderr == ""
