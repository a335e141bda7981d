"""What `holdfast install` writes is what the real clients read, and work with.

No model is needed: a scripted one on loopback calls our tools through the client.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.clients.conftest import Clients

pytestmark = pytest.mark.timeout(300)

MODEL = Path(__file__).with_name("scripted_model.py")
LOAD = {"tool": "load_checkpoint", "arguments": {"task": "survey"}}
SAVE = {
    "tool": "save_checkpoint",
    "arguments": {"task": "survey", "goal": "count the birds", "state": {"robins": 41}},
}


@pytest.fixture
def project(clients: Clients) -> Path:
    folder = clients.home / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def install(clients: Clients, project: Path, *arguments: str) -> None:
    clients.run(clients.holdfast, "install", *arguments, "--yes", folder=project)


# The model, the client and what it starts share one loopback, so one shell runs them all.
_WITH_MODEL = """
"$PYTHON" "$MODEL" requests.jsonl "$@" > port & scripted=$!
trap 'kill $scripted' EXIT
until [ -s port ]; do sleep 0.05; done
model="http://127.0.0.1:$(cat port)"
"""


def converse(
    clients: Clients, project: Path, script: str, *calls: dict[str, Any], **more: str
) -> None:
    """Let a client talk to a model that makes these calls."""
    names = {"PYTHON": sys.executable, "MODEL": str(MODEL), **more}
    variables = [f"{name}={value}" for name, value in names.items()]
    arguments = [json.dumps(call) for call in calls]
    shell = ["bash", "-ec", _WITH_MODEL + script, "converse", *arguments]
    clients.run("env", *variables, *shell, folder=project)


def journal(project: Path) -> list[dict[str, Any]]:
    file = project / ".holdfast" / "tasks" / "survey" / "journal" / "000001.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


# --- Claude Code ------------------------------------------------------------------------------


def claude_lists(clients: Clients, project: Path) -> str:
    listed = clients.run(*clients.claude, "mcp", "list", folder=project)
    return "".join(line for line in listed.splitlines() if line.startswith("holdfast:"))


def test_claude_code_starts_what_was_installed_for_a_person(
    clients: Clients, project: Path
) -> None:
    install(clients, project, "claude-code", "--scope", "user")
    connected = claude_lists(clients, project)
    install(clients, project, "claude-code", "--scope", "user", "--remove")

    assert connected.endswith("Connected")
    assert claude_lists(clients, project) == ""


def test_claude_code_finds_what_was_installed_for_a_project_and_asks_first(
    clients: Clients, project: Path
) -> None:
    install(clients, project, "claude-code")

    assert "Pending approval" in claude_lists(clients, project)


_COMPACTED = """
export ANTHROPIC_BASE_URL="$model" ANTHROPIC_API_KEY=none
claude() { "$NODE" "$CLAUDE" -p --mcp-config .mcp.json --allowedTools mcp__holdfast --output-format json "$@"; }
claude "count the birds" > first.json
session=$("$PYTHON" -c 'import json; print(json.load(open("first.json"))["session_id"])')
claude --resume "$session" /compact > compacted.json
wc -l < requests.jsonl > before
claude --resume "$session" "go on" > third.json
"""


def test_claude_code_knows_its_task_after_a_compaction(clients: Clients, project: Path) -> None:
    install(clients, project, "claude-code", "--hooks")
    node, claude = clients.claude

    converse(clients, project, _COMPACTED, LOAD, SAVE, NODE=node, CLAUDE=claude)

    [hooked] = [each for each in journal(project) if each.get("label") == "before compaction"]
    [ref] = hooked["refs"]
    session = json.loads((project / "first.json").read_text())["session_id"]
    assert Path(ref["ref"]).name == f"{session}.jsonl"
    assert Path(ref["ref"]).exists()
    # The script's own calls are gone with the old context: what the model reads now is the brief.
    requests = (project / "requests.jsonl").read_text().splitlines()
    told = requests[int((project / "before").read_text())]
    assert "call1" not in told
    assert "This is saved progress, kept by Holdfast" in told
    assert '\\"robins\\": 41' in told


# --- Codex ------------------------------------------------------------------------------------


def codex_lists(clients: Clients, project: Path) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(
        clients.run(clients.program("codex"), "mcp", "list", "--json", folder=project)
    )
    return told


def codex_settings(clients: Clients, project: Path, more: str = "") -> None:
    settings = clients.home / ".codex" / "config.toml"
    settings.parent.mkdir()
    trusted = f'[projects."{project}"]\ntrust_level = "trusted"  # ours\n'
    settings.write_text(f"{more}\n{trusted}\n[analytics]\nenabled = false\n")


@pytest.mark.parametrize("scope", ["project", "user"])
def test_codex_reads_what_was_installed(clients: Clients, project: Path, scope: str) -> None:
    codex_settings(clients, project)

    install(clients, project, "codex", "--scope", scope)
    [listed] = codex_lists(clients, project)
    install(clients, project, "codex", "--scope", scope, "--remove")

    assert (listed["name"], listed["enabled"]) == ("holdfast", True)
    assert listed["transport"]["command"] == clients.holdfast
    assert listed["transport"]["args"] == ["serve"]
    assert codex_lists(clients, project) == []


_SCRIPTED = """\
model = "scripted"
model_provider = "loopback"
approval_policy = "never"

[model_providers.loopback]
name = "loopback"
base_url = "MODEL/v1"
wire_api = "responses"
"""
_EXEC = """
sed -i "s|MODEL|$model|" "$HOME/.codex/config.toml"
"$CODEX" exec --skip-git-repo-check --sandbox danger-full-access "count the birds" < /dev/null
"""


def test_codex_saves_in_the_project(clients: Clients, project: Path) -> None:
    codex_settings(clients, project, _SCRIPTED)
    install(clients, project, "codex")

    converse(clients, project, _EXEC, SAVE, CODEX=clients.program("codex"))

    [saved] = journal(project)
    assert saved["state"] == {"robins": 41}
    assert saved["by"].startswith("codex")


# --- Gemini CLI -------------------------------------------------------------------------------

_GEMINI = """
export GOOGLE_GEMINI_BASE_URL="$model" GEMINI_API_KEY=none
"$GEMINI" --yolo --model gemini-2.5-flash --prompt "count the birds" < /dev/null
"""


@pytest.fixture
def quiet_gemini(clients: Clients) -> None:
    """Trust all folders, and send nothing anywhere."""
    settings = clients.home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(
        """{
  // for a test
  "security": {"folderTrust": {"enabled": false}, "auth": {"selectedType": "gemini-api-key"}},
  "privacy": {"usageStatisticsEnabled": false}
}
"""
    )


@pytest.mark.usefixtures("quiet_gemini")
def test_gemini_starts_what_was_installed_for_a_person(clients: Clients, project: Path) -> None:
    install(clients, project, "gemini", "--scope", "user")

    # It lists to stderr.
    listing = ("sh", "-c", '"$0" mcp list 2>&1', clients.program("gemini"))
    listed = clients.run(*listing, folder=project)
    [line] = [each for each in listed.splitlines() if "holdfast:" in each]
    assert line.endswith("Connected")


@pytest.mark.usefixtures("quiet_gemini")
def test_gemini_saves_in_the_project(clients: Clients, project: Path) -> None:
    install(clients, project, "gemini")

    converse(clients, project, _GEMINI, SAVE, GEMINI=clients.program("gemini"))

    [saved] = journal(project)
    assert saved["state"] == {"robins": 41}
    assert saved["by"].startswith("gemini")
