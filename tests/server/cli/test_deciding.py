"""What a person decides at the terminal is done, said, and refused with the next command to type."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.cli.conftest import Desk, Terminal

from holdfast_storage import Workspace

At = Callable[..., Terminal]


def test_a_question_is_answered(busy: Desk) -> None:
    told = busy.json("answer", "ingest", "skip")

    assert (told["status"], told["answer"]) == ("answered", "skip")
    assert busy.json("show", "ingest")["status"] == "active"


def test_of_several_questions_the_one_is_named(busy: Desk) -> None:
    async def ask(workspace: Workspace) -> None:
        await workspace.caller("claude@laptop").ask("ingest", "Which colour?")

    busy.work(ask)

    refused = busy("answer", "ingest", "red")
    busy.ok("answer", "ingest", "red", "--question", "q2")

    assert refused.status == 3
    assert "q1, q2" in refused.err
    assert "holdfast show ingest" in refused.err
    answers = {each["id"]: each["answer"] for each in busy.json("show", "ingest")["questions"]}
    assert answers == {"q1": None, "q2": "red"}


def test_a_doubt_is_settled_either_way(busy: Desk) -> None:
    assert busy.json("resolve", "ingest", "doc-003", "--did-not-happen")["status"] == "pending"

    async def begin(workspace: Workspace) -> None:
        await workspace.caller("claude@laptop").begin("ingest", "doc-003")

    busy.work(begin)
    busy.ok("resolve", "ingest", "doc-003", "--happened", "--result", '{"rows": 9}')

    [step] = [each for each in busy.json("steps", "ingest") if each["step"] == "doc-003"]
    assert (step["status"], step["result"]) == ("done", {"rows": 9})


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["resolve", "ingest", "doc-003"], 2, "--happened"),
        (["resolve", "ingest", "doc-003", "--happened", "--result", "{"], 2, "not JSON"),
        (["resolve", "ingest", "doc-001", "--did-not-happen"], 3, "--status in_doubt"),
        (["reopen", "ingest", "doc-01"], 3, "doc-001"),
        (["reopen", "ingest", "doc-003"], 1, "holdfast resolve ingest doc-003 --happened"),
        (["release", "ingest", "doc-001"], 3, "holdfast steps ingest"),
        (["ack", "ingest", "x-1"], 3, "holdfast show ingest"),
        (["finish", "ingest"], 1, "holdfast finish ingest abandoned"),
        (["pause", "igest"], 3, "did you mean ingest?"),
        (["rewind", "ingest", "x"], 2, "invalid int value"),
        (["rewind", "ingest", "7"], 3, "holdfast log ingest --checkpoints"),
        (["fork", "ingest", "1", "ingest"], 1, "holdfast ls"),
        (["fork", "ingest", "1", " "], 1, "white space"),
        (["pin", "ingest", "9"], 3, "holdfast log ingest --checkpoints"),
        (["prune"], 2, "--all"),
        (["prune", "ingest", "--keep-last", "-1"], 1, "keep_last"),
        (["restore", "nothing"], 3, "holdfast trash"),
        (["edit", "ingset"], 3, "did you mean ingest?"),
        (["wait", "ingset"], 3, "did you mean ingest?"),
        (["check", "ingset"], 3, "did you mean ingest?"),
        (["export", "ingset", "--to", "x"], 3, "did you mean ingest?"),
        (["import", "nowhere.jsonl"], 1, "nowhere.jsonl"),
        (["import", ".git"], 1, ".git"),
        (["show"], 2, "holdfast show --help"),
        (["shwo"], 2, "did you mean show?"),
        (["ls", "--status", "wating"], 2, "waiting"),
    ],
    ids=repr,
)
def test_a_refusal_says_what_to_type_next(
    busy: Desk, words: list[str], status: int, said: str
) -> None:
    typed = busy(*words)

    assert (typed.status, typed.out) == (status, "")
    assert typed.err.startswith("holdfast: ")
    assert said in typed.err


def test_a_step_is_reopened_and_released(busy: Desk) -> None:
    busy.ok("reopen", "ingest", "doc-001", "doc-002")
    busy.ok("release", "ingest", "doc-003")

    steps = {each["step"]: each["status"] for each in busy.json("steps", "ingest")}
    assert steps["doc-001"] == steps["doc-002"] == "pending"
    assert steps["doc-003"] == "in_doubt"


def test_conflicts_are_acknowledged_one_by_one_or_all(desk: Desk) -> None:
    async def clash(workspace: Workspace) -> None:
        ann, bea = workspace.caller("ann"), workspace.caller("bea")
        await ann.save("shared", {"a": 1, "b": 1, "c": 1})
        await bea.load("shared")
        await ann.save("shared", {"a": 2, "b": 2, "c": 2})
        await bea.save("shared", {"a": 3, "b": 3, "c": 3})

    desk.work(clash)
    first, *rest = (each["id"] for each in desk.json("show", "shared")["conflicts"])
    assert f"holdfast ack shared {first}" in desk.ok("show", "shared").out

    assert desk.json("ack", "shared", first)["acknowledged"] == [first]
    assert desk.json("ack", "shared")["acknowledged"] == rest
    assert desk.json("ack", "shared")["acknowledged"] == []
    assert desk.json("show", "shared")["conflicts"] == []


def test_a_task_is_paused_and_let_go_on(busy: Desk) -> None:
    busy.ok("pause", "ingest")
    paused = busy.json("show", "ingest")
    assert "holdfast unpause ingest" in busy.ok("show", "ingest").out

    told = busy.json("unpause", "ingest")

    assert (paused["status"], paused["paused_by_person"]) == ("paused", True)
    assert told["status"] == "waiting"


def test_a_run_is_ended_by_a_person(busy: Desk) -> None:
    told = busy.json("finish", "ingest", "abandoned", "--summary", "not needed")

    assert told["status"] == "abandoned"
    assert busy.json("show", "ingest")["summary"] == "not needed"
    closed = busy("answer", "ingest", "skip")
    assert closed.status == 1
    assert "holdfast edit ingest" in closed.err


# --- checkpoints ------------------------------------------------------------------------------


def test_going_back_keeps_what_was_in_between(busy: Desk) -> None:
    told = busy.json("rewind", "ingest", "1")

    assert told["checkpoint"] == 3
    assert busy.json("show", "ingest")["state"] == {"model": "small", "pages": 10}
    assert busy.json("show", "ingest", "2")["state"]["pages"] == 12


def test_a_fork_is_a_paused_copy(busy: Desk) -> None:
    told = busy.json("fork", "ingest", "1", "rehearsal")

    assert told["status"] == "paused"
    assert busy.json("show", "rehearsal")["state"] == {"model": "small", "pages": 10}


def many_saves(desk: Desk) -> None:
    async def save(workspace: Workspace) -> None:
        agent = workspace.caller("agent")
        for number in range(4):
            await agent.save("report", {"n": number, "text": "x" * 500})

    desk.work(save)


PRUNE = ["prune", "report", "--keep-last", "1", "--older-than-hours", "0"]


def test_prune_shows_its_plan_with_reasons_and_does_nothing_unasked(desk: Desk) -> None:
    many_saves(desk)
    desk.ok("pin", "report", "1")

    typed = desk(*PRUNE)

    assert typed.status == 1
    assert typed.rows == [
        ["report", "2", "goes", "not the newest"],
        ["report", "3", "goes", "not the newest"],
        ["report", "1", "stays", "pinned"],
        ["report", "4", "stays", "the newest"],
    ]
    assert "--yes" in typed.err
    assert desk.json("trash") == []
    assert [each["checkpoint"] for each in desk.json(*PRUNE, "--dry-run")["removed"]] == [2, 3]
    assert desk.json("trash") == []


def test_what_prune_took_is_in_the_trash_and_comes_back(desk: Desk) -> None:
    many_saves(desk)

    pruned = desk.json(*PRUNE, "--yes")
    gone = desk("show", "report", "2")
    [[name, task, _, numbers, _]] = desk.ok("trash").rows
    restored = desk.json("restore", name)

    assert [each["checkpoint"] for each in pruned["removed"]] == [1, 2, 3]
    assert gone.status == 3
    assert "holdfast trash" in gone.err
    assert (task, numbers, restored["checkpoints"]) == ("report", "1,2,3", [1, 2, 3])
    assert desk.json("show", "report", "2")["state"]["n"] == 1


def test_prune_goes_by_the_rule_of_the_workspace(desk: Desk) -> None:
    many_saves(desk)
    settings = json.loads((desk.root / "holdfast.json").read_text())
    settings["retention"] = {"keep_last": 2, "older_than_hours": 0}
    (desk.root / "holdfast.json").write_text(json.dumps(settings))

    told = desk.json("prune", "--all", "--dry-run")

    assert [each["checkpoint"] for each in told["removed"]] == [1, 2]


@pytest.mark.parametrize(("reply", "kept"), [("y\n", 1), ("n\n", 4), ("\n", 4)])
def test_prune_asks_at_a_terminal(desk: Desk, terminal: At, reply: str, kept: int) -> None:
    many_saves(desk)
    screen = terminal()
    screen.type(reply)

    status = desk(*PRUNE).status

    assert "3 checkpoints would go" in screen.shown()
    assert "Let them go? [y/N]" in screen.shown()
    assert status == (0 if kept == 1 else 1)

    async def available(workspace: Workspace) -> int:
        page = await workspace.caller("x").list_checkpoints("report")
        return sum(each.available for each in page.checkpoints)

    assert desk.work(available) == kept


# --- looking after the whole ------------------------------------------------------------------


def test_init_makes_the_workspace_at_the_root_of_the_repository(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.project / "deep" / "below").mkdir(parents=True)
    monkeypatch.chdir(desk.project / "deep" / "below")

    told = desk.json("init")

    assert told == {"workspace": str(desk.root), "made": True}
    assert (desk.root / "holdfast.json").exists()
    assert (desk.root / "README.md").exists()
    assert desk.json("init")["made"] is False
    assert desk.ok("ls").out == ""


def test_a_workspace_can_be_anywhere(desk: Desk) -> None:
    where = str(desk.project / "elsewhere")

    desk.ok("init", "--workspace", where)

    assert desk.json("ls", "--workspace", where) == []
    assert not desk.root.exists()


def test_check_finds_nothing_where_all_is_well(busy: Desk) -> None:
    assert busy.ok("check").out == ""
    assert busy.json("check") == {"problems": [], "left": []}


def test_check_names_damage_repairs_what_it_can_and_accepts_the_rest(busy: Desk) -> None:
    busy.damage("ingest", 2)

    found = busy("check")
    other = busy("check", "--json")
    repaired = busy("check", "--repair")
    before = busy.json("show", "ingest")
    accepted = busy.json("check", "--accept")
    again = busy.json("check", "ingest", "--accept")

    assert found.status == other.status == repaired.status == 4
    assert "tasks/ingest/journal/000001.jsonl:2: its crc does not fit" in found.out
    assert "--repair would" in found.out
    assert other.json["problems"][0]["line"] == 2
    assert list(busy.root.glob("tasks/ingest/quarantine/*"))
    assert before["damaged"]
    assert (accepted, again) == ({"accepted": ["ingest"]}, {"accepted": []})
    assert not busy.json("show", "ingest")["damaged"]


def test_a_view_that_does_not_parse_is_set_aside_by_repair(busy: Desk) -> None:
    (busy.root / "tasks" / "ingest" / "state.json").write_text("{ broken")

    found, repaired = busy("check"), busy("check", "--repair")

    assert found.status == 4
    assert "state.json:1" in found.out
    assert repaired.status == 0
    assert busy.ok("check").out == ""


def test_settings_that_do_not_parse_are_named_with_line_and_column(busy: Desk) -> None:
    (busy.root / "holdfast.json").write_text('{\n "format": }')

    for command in (["ls"], ["show", "ingest"]):
        typed = busy(*command)

        assert typed.status == 1
        assert "holdfast.json: line 2, column 12" in typed.err


# --- carrying tasks elsewhere -----------------------------------------------------------------


def test_tasks_are_carried_to_another_workspace(busy: Desk) -> None:
    there = ["--workspace", str(busy.project / "there")]

    told = busy.json("export", "ingest", "--to", "out.jsonl")
    taken = busy.json("import", "out.jsonl", *there)
    renamed = busy.json("import", "out.jsonl", "--as", "copy", *there)

    assert told == {"file": "out.jsonl", "tasks": ["ingest"]}
    assert (taken, renamed) == ({"tasks": ["ingest"]}, {"tasks": ["copy"]})
    here = busy.json("show", "ingest")
    assert busy.json("show", "ingest", *there) == here
    assert busy.json("show", "copy", *there)["state"] == here["state"]


def test_an_import_that_is_killed_leaves_nothing_and_can_be_done_again(busy: Desk) -> None:
    busy.ok("export", "ingest", "--to", "out.jsonl")
    lines = Path("out.jsonl").read_bytes().splitlines(keepends=True)
    there = busy.project / "there"
    command = [sys.executable, "-m", "holdfast_server", "import", "-", "--workspace", str(there)]

    with subprocess.Popen(command, stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None
        importing.stdin.write(b"".join(lines[:3]))
        importing.stdin.flush()
        while not list(there.glob("tasks/.new.*/journal")):
            assert importing.poll() is None
            time.sleep(0.01)
        importing.kill()

    assert busy.json("ls", "--workspace", str(there)) == []
    assert busy.json("check", "--workspace", str(there))["problems"] == []
    assert busy.json("import", "out.jsonl", "--workspace", str(there)) == {"tasks": ["ingest"]}


def test_an_export_replaces_no_file(busy: Desk) -> None:
    busy.ok("export", "--to", "out.jsonl")

    typed = busy("export", "--to", "out.jsonl")

    assert typed.status == 1
    assert "out.jsonl" in typed.err


def test_an_export_is_not_poured_over_a_terminal(busy: Desk, terminal: At) -> None:
    screen = terminal()

    assert busy("export", "ingest").status == 2

    assert "--to" in screen.shown()
