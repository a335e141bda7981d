"""A person corrects a task in an editor, and nothing that was typed is lost."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.cli.conftest import Desk, Terminal

At = Callable[..., Terminal]
Editor = Callable[[str], Path]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """Have a program in the place of an editor: it gets `file`, a Path, and changes it."""

    def make(program: str) -> Path:
        script = tmp_path / "my editor"
        script.write_text(
            f"#!{sys.executable}\nimport json, sys\nfrom pathlib import Path\n"
            f"file = Path(sys.argv[-1])\ndocument = file.read_text()\n{program}\n"
        )
        script.chmod(0o700)
        monkeypatch.setenv("EDITOR", f"'{script}' --wait")
        return script

    return make


BETTER = "file.write_text(document.replace('One row each', 'Two rows each'))"


def test_what_was_changed_in_the_editor_counts(busy: Desk, editor: Editor) -> None:
    editor(BETTER)

    told = busy.json("edit", "ingest")

    assert told["changed"]
    assert busy.json("show", "ingest")["goal"] == "Two rows each"
    assert busy.ok("log", "ingest", "--limit", "1").rows[0][2:] == ["human", "edited: /goal"]


def test_a_backup_that_the_editor_leaves_is_no_failure(busy: Desk, editor: Editor) -> None:
    editor(f"Path(f'{{file}}~').write_text(document); {BETTER}")

    assert busy.json("edit", "ingest")["changed"]

    assert busy.json("show", "ingest")["goal"] == "Two rows each"


def test_nothing_changed_is_no_edit(busy: Desk, editor: Editor) -> None:
    editor("")

    assert busy.json("edit", "ingest")["changed"] is False

    assert busy.json("log", "ingest", "--limit", "1")[0]["op"] == "ask"


def test_the_visual_editor_comes_first(
    busy: Desk, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = editor(BETTER)
    monkeypatch.setenv("VISUAL", f"'{script}'")
    monkeypatch.setenv("EDITOR", "false")

    assert busy.json("edit", "ingest")["changed"]


def test_what_an_agent_saved_meanwhile_is_merged(busy: Desk, editor: Editor) -> None:
    editor(
        BETTER + "\nimport asyncio\nfrom holdfast_storage import Workspace\n"
        "async def save():\n"
        f"    async with Workspace.open({str(busy.root)!r}) as workspace:\n"
        "        agent = workspace.caller('agent')\n"
        "        await agent.load('ingest')\n"
        "        await agent.save('ingest', {'pages': 99}, goal='Mine')\n"
        "        await agent.mark('ingest', 'doc-004')\n"
        "asyncio.run(save())"
    )

    typed = busy.ok("edit", "ingest")

    told = busy.json("show", "ingest")
    assert (told["goal"], told["state"]["pages"]) == ("Two rows each", 99)
    assert told["progress"]["done"] == 2
    assert "/goal: agent's value is in conflicts/" in typed.out


def test_what_is_put_back_is_said(busy: Desk, editor: Editor) -> None:
    editor("file.write_text(document.replace('\"waiting\"', '\"done\"'))")

    assert "status" in busy.ok("edit", "ingest").out


BREAKS_ONCE = """
tries = Path(__file__).with_name("tries")
if not tries.exists():
    tries.write_text("")
    file.write_text(document.replace('"goal": "One row each",', '"goal": "Typed for an hour"'))
else:
    assert "Typed for an hour" in document
    file.write_text(document.replace("hour\\"", "hour\\","))
"""


def test_text_that_does_not_parse_comes_back_with_line_and_column(
    busy: Desk, editor: Editor, terminal: At
) -> None:
    editor(BREAKS_ONCE)
    screen = terminal()
    screen.type("\n")

    status = busy("edit", "ingest").status

    said = screen.shown()
    assert status == 0, said
    assert re.search(r"line 6, column 3: ", said)
    assert '"next"' in said
    assert "Open it again? [Y/n]" in said
    assert busy.work(lambda workspace: workspace.brief("ingest")).goal == "Typed for an hour"


@pytest.mark.parametrize("is_at_terminal", [True, False])
def test_text_that_somebody_gives_up_on_is_kept_and_can_be_taken_up(
    busy: Desk,
    editor: Editor,
    terminal: At,
    is_at_terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    editor(BREAKS_ONCE)
    if is_at_terminal:
        screen = terminal(columns=400)
        screen.type("n\n")
        status, said = busy("edit", "ingest").status, screen.shown()
    else:
        with Path("/dev/null").open() as nobody:
            monkeypatch.setattr("sys.stdin", nobody)
            typed = busy("edit", "ingest")
        status, said = typed.status, typed.err

    assert status == 1
    [kept] = tmp_path.glob("holdfast-*/ingest.json")
    assert "Typed for an hour" in kept.read_text()
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert f"holdfast edit ingest --from {kept}" in said
    kept.write_text(kept.read_text().replace('hour"', 'hour",'))
    busy("edit", "ingest", "--from", str(kept))
    assert busy.work(lambda workspace: workspace.brief("ingest")).goal == "Typed for an hour"


def test_text_that_is_refused_is_kept(
    busy: Desk, editor: Editor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    editor('file.write_text(document.replace(\'"task": "ingest"\', \'"task": "other"\'))')

    typed = busy("edit", "ingest")

    assert typed.status == 1
    [kept] = tmp_path.glob("holdfast-*/ingest.json")
    assert str(kept) in typed.err


@pytest.mark.parametrize("command", ["no-such-editor", "false"])
def test_an_editor_that_fails_changes_nothing_and_leaves_nothing(
    busy: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("EDITOR", command)

    typed = busy("edit", "ingest")

    assert typed.status == 1
    assert "editor" in typed.err
    assert list(tmp_path.glob("holdfast-*")) == []


def test_a_file_can_be_taken_in_without_an_editor(busy: Desk) -> None:
    view = json.loads(busy.work(lambda workspace: workspace.view("ingest")))
    view["state"]["pages"] = 77
    (busy.project / "mine.json").write_text(json.dumps(view))

    busy.ok("edit", "ingest", "--from", "mine.json")

    assert busy.json("show", "ingest")["state"]["pages"] == 77


def test_a_broken_file_is_refused_with_line_and_column(busy: Desk) -> None:
    (busy.project / "mine.json").write_text("{\n oops")

    typed = busy("edit", "ingest", "--from", "mine.json")

    assert typed.status == 1
    assert "line 2, column 2" in typed.err
