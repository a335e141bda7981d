"""What `holdfast install` promises to somebody whose settings it changes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast_server.cli.install import CLIENTS as CHOICES
from holdfast_server.cli.main import main
from holdfast_server.clients import jsonc
from holdfast_server.clients.changes import Change, ChangedMeanwhile, Registration
from holdfast_server.clients.claude_hooks import put as put_hooks
from holdfast_server.clients.command import holdfast_command
from holdfast_server.clients.known import CLIENTS, Surroundings

EXAMPLES = Path(__file__).parents[3] / "client_examples" / "configurations"

SECTION = {"vscode": "servers", "codex": "mcp_servers"}
IN_PROJECT = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
}
IN_HOME = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
}
PLACES = [(client, "project") for client in IN_PROJECT] + [(client, "user") for client in IN_HOME]

JSON_BEFORE = """\
// mine
{
    "theme": "dark", // not light
    "SECTION": {
        "git": {
            "command": "git-mcp" /* from the team */
        }
    },
    "numbers": [1, 2,
        3]
}
"""
TOML_BEFORE = """\
# mine
model = "small"  # cheap

[mcp_servers.git]  # from the team
command = "git-mcp"

[profiles.deep]
model = "large"
"""


@dataclass(frozen=True)
class Place:
    """A home and a project in it, which is the current folder."""

    home: Path
    project: Path

    def file(self, client: str, scope: str) -> Path:
        return self.home / IN_HOME[client] if scope == "user" else self.project / IN_PROJECT[client]

    def written(self, client: str, scope: str, text: str | None = None) -> Path:
        """Put a file there that has been somebody's for a while."""
        file = self.file(client, scope)
        file.parent.mkdir(parents=True, exist_ok=True)
        section = SECTION.get(client, "mcpServers")
        before = TOML_BEFORE if client == "codex" else JSON_BEFORE.replace("SECTION", section)
        file.write_text(before if text is None else text)
        return file


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    project = tmp_path / "home" / "project"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(project / "src")
    return Place(tmp_path / "home", project)


def content(file: Path) -> dict[str, Any]:
    text = file.read_text()
    told: dict[str, Any] = (
        tomllib.loads(text) if file.suffix == ".toml" else jsonc.parse(text).value
    )
    return told


def servers(client: str, file: Path) -> dict[str, Any]:
    told: dict[str, Any] = content(file)[SECTION.get(client, "mcpServers")]
    return told


def install(*arguments: str) -> int:
    return main(["install", *arguments, "--yes"])


# --- each client ------------------------------------------------------------------------------


def test_every_client_can_be_named() -> None:
    assert set(CHOICES) == set(CLIENTS) == set(IN_HOME)


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_the_server_is_registered_and_everything_else_stays(
    client: str, scope: str, place: Place
) -> None:
    file = place.written(client, scope)
    lines = file.read_text().splitlines()

    assert install(client, "--scope", scope) == 0

    entry = servers(client, file)["holdfast"]
    assert Path(entry["command"]).name == "holdfast"
    assert entry["args"][0] == "serve"
    assert servers(client, file)["git"] == {"command": "git-mcp"}
    # A comma is all that a line may gain.
    after = file.read_text().splitlines()
    assert [each for each in lines if each not in after and each + "," not in after] == []


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_removing_leaves_the_file_as_it_was(client: str, scope: str, place: Place) -> None:
    file = place.written(client, scope)
    before = file.read_text()
    install(client, "--scope", scope)

    assert install(client, "--scope", scope, "--remove") == 0

    assert file.read_text() == before


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_a_file_that_was_not_there_comes_and_goes(client: str, scope: str, place: Place) -> None:
    file = place.file(client, scope)

    install(client, "--scope", scope)
    assert list(servers(client, file)) == ["holdfast"]

    install(client, "--scope", scope, "--remove")
    assert not file.exists()


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_a_second_time_changes_nothing(
    client: str, scope: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place.written(client, scope)
    install(client, "--scope", scope)
    before = file.stat()
    capsys.readouterr()

    assert install(client, "--scope", scope) == 0

    # Even the same content written again would be another file.
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert "registered already" in capsys.readouterr().out


@pytest.mark.parametrize(("client", "scope"), PLACES)
def test_what_somebody_added_to_the_entry_stays(client: str, scope: str, place: Place) -> None:
    section = SECTION.get(client, "mcpServers")
    own = f"[{section}.holdfast]\ncommand = 'old'\nenv = {{A = 'b'}}  # mine\n"
    entry = {section: {"holdfast": {"command": "old", "env": {"A": "b"}}}}
    file = place.written(client, scope, own if client == "codex" else json.dumps(entry))

    install(client, "--scope", scope)

    entry = servers(client, file)["holdfast"]
    assert entry["env"] == {"A": "b"}
    assert entry["command"] != "old"


@pytest.mark.parametrize(
    "written",
    [
        'mcp_servers = {git = {command = "git-mcp"}}  # in one line\n',
        'mcp_servers.git.command = "git-mcp"  # dotted\nmodel = "small"\n',
        '[mcp_servers.git]\ncommand = "git-mcp"\n\n[x]  # between\n\n[mcp_servers.jira]\n',
        "[mcp_servers]  # all\n\n[[lists]]\na = 1\n",
        'model = "small"  # no newline at the end',
    ],
)
def test_every_way_to_write_toml_is_kept_or_refused(
    written: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place.written("codex", "user", written)
    before = content(file)

    if install("codex", "--scope", "user") == 1:
        assert file.read_text() == written
        assert "[mcp_servers.holdfast]" in capsys.readouterr().err
        return

    after = content(file)
    comments = [line.split("#")[1] for line in written.splitlines() if "#" in line]
    assert all(comment in file.read_text() for comment in comments)
    assert after["mcp_servers"].pop("holdfast")["args"] == ["serve"]
    assert {"mcp_servers": {}, **before} == after


@pytest.mark.parametrize("client", IN_PROJECT)
def test_a_projects_settings_are_the_default_and_found_from_below(
    client: str, place: Place
) -> None:
    install(client)

    assert place.file(client, "project").exists()
    assert not place.file(client, "user").exists()


def test_an_application_is_told_where_the_workspace_is(place: Place) -> None:
    home = str(place.home / ".holdfast")
    for client in ("cursor", "vscode", "claude-desktop"):
        install(client, "--scope", "user")

        assert servers(client, place.file(client, "user"))["holdfast"]["args"] == [
            *("serve", "--workspace", home)
        ]
    install("cursor")
    in_project = servers("cursor", place.file("cursor", "project"))["holdfast"]
    assert in_project["args"][-1] == "${workspaceFolder}/.holdfast"


def test_a_workspace_can_be_named(place: Place) -> None:
    install("codex", "--workspace", "notes")

    entry = servers("codex", place.file("codex", "project"))["holdfast"]
    assert entry["args"] == ["serve", "--workspace", str(place.project / "src" / "notes")]


def test_settings_are_found_where_the_environment_says(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.setenv(variable, str(place.home / variable))
    for client in ("vscode", "claude-code", "codex"):
        install(client, "--scope", "user")

    assert (place.home / "XDG_CONFIG_HOME/Code/User/mcp.json").exists()
    assert (place.home / "CLAUDE_CONFIG_DIR/.claude.json").exists()
    assert (place.home / "CODEX_HOME/config.toml").exists()


def test_a_mac_keeps_its_settings_elsewhere(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")

    install("claude-desktop")

    support = place.home / "Library" / "Application Support"
    assert (support / "Claude" / "claude_desktop_config.json").exists()


# --- nothing happens unasked ------------------------------------------------------------------


def test_in_a_pipe_the_change_is_shown_and_nothing_written(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place.written("gemini", "project")
    before = file.read_text()

    assert main(["install", "gemini"]) == 1

    said = capsys.readouterr()
    assert '+        "holdfast": {' in said.out.splitlines()
    assert "--yes" in said.err
    assert file.read_text() == before


@pytest.mark.parametrize(("answer", "is_written"), [("y\n", True), ("\n", False)])
def test_on_a_terminal_it_asks(answer: str, is_written: bool, place: Place) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "holdfast_server", "install", "claude-code"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as asking:
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(ours, 4096)
        os.write(ours, answer.encode())
    os.close(ours)

    assert b'+    "holdfast": {' in said
    assert place.file("claude-code", "project").exists() == is_written
    assert asking.returncode == (0 if is_written else 1)


@pytest.mark.parametrize("arguments", [[], ["--print"]])
def test_any_other_client_gets_a_snippet(
    arguments: list[str], place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", *arguments]) == 0

    entry = json.loads(capsys.readouterr().out)["mcpServers"]["holdfast"]
    assert entry["args"] == ["serve"]
    assert list(place.project.rglob("*.json")) == []


@pytest.mark.parametrize(
    ("client", "broken", "place_of_it"),
    [
        ("vscode", '{\n  "servers": {\n', "line 3, column 1"),
        ("gemini", '{"mcpServers": "none"}', "line 1, column 16"),
        ("codex", "[mcp_servers\n", "line 1"),
        ("codex", "mcp_servers = 1\n", ""),
    ],
)
def test_a_file_that_makes_no_sense_is_left_alone(
    client: str, broken: str, place_of_it: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place.written(client, "project", broken)

    assert install(client) == 1

    said = capsys.readouterr().err
    assert file.read_text() == broken
    assert str(file) in said
    assert place_of_it in said
    # What to paste by hand.
    assert "serve" in said


@pytest.mark.parametrize(
    "arguments",
    [["cursor", "--hooks"], ["claude-desktop", "--scope", "project"]],
)
def test_what_a_client_does_not_have_is_refused(
    arguments: list[str], place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install(*arguments) == 1

    assert "leave it out" in capsys.readouterr().err


def test_the_home_folder_is_no_project(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place.home)

    assert install("claude-code") == 1

    assert "--scope user" in capsys.readouterr().err


def test_a_link_stays_a_link_and_a_secret_file_secret(place: Place) -> None:
    kept = place.written("claude-code", "user").rename(place.home / "dotfiles.json")
    kept.chmod(0o600)
    file = place.file("claude-code", "user")
    file.symlink_to(kept)

    install("claude-code", "--scope", "user")

    assert file.is_symlink()
    assert "holdfast" in servers("claude-code", kept)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in place.home.iterdir()) == [
        *(".claude.json", "dotfiles.json", "project")
    ]


def test_what_a_client_wrote_meanwhile_is_not_overwritten(place: Place) -> None:
    file = place.written("claude-code", "user", "{}")
    change = Change(file, "{}", '{"mcpServers": {}}')
    file.write_text('{"numStartups": 7}')

    with pytest.raises(ChangedMeanwhile):
        change.write()

    assert file.read_text() == '{"numStartups": 7}'


# --- the command ------------------------------------------------------------------------------


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install Holdfast as a tool installer does: an environment, and a link to it on the PATH."""
    environment, linked = tmp_path / "tools" / "bin", tmp_path / "bin"
    environment.mkdir(parents=True)
    linked.mkdir()
    (environment / "holdfast").write_text("#!/bin/sh\n")
    (environment / "holdfast").chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(environment.parent))
    monkeypatch.setenv("PATH", f"{linked}:{environment}")
    return linked


def test_a_command_on_the_path_is_called_by_its_name(tool: Path) -> None:
    (tool / "holdfast").symlink_to(Path(sys.prefix) / "bin" / "holdfast")

    assert holdfast_command() == ["holdfast"]
    assert holdfast_command(needs_whole_path=True) == [str(tool / "holdfast")]


def test_a_command_of_an_environment_is_called_by_its_path(tool: Path) -> None:
    assert holdfast_command() == [str(Path(sys.prefix) / "bin" / "holdfast")]


def test_another_holdfast_on_the_path_is_not_ours(tool: Path) -> None:
    (tool / "holdfast").write_text("#!/bin/sh\n")
    (tool / "holdfast").chmod(0o755)

    assert holdfast_command() == [str(Path(sys.prefix) / "bin" / "holdfast")]


def test_without_a_command_the_module_is_run(tool: Path) -> None:
    (Path(sys.prefix) / "bin" / "holdfast").unlink()

    assert holdfast_command() == [sys.executable, "-m", "holdfast_server"]


# --- hooks ------------------------------------------------------------------------------------

OTHERS = """\
{
  // a sound at the end
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "beep"}]}],
    "PostToolUse": [
      {"matcher": "Edit", "hooks": [{"type": "command", "command": "format"}]} // always
    ]
  }
}
"""


@pytest.mark.parametrize("scope", ["project", "user"])
def test_hooks_join_those_that_are_there_and_leave_without_a_trace(
    scope: str, place: Place
) -> None:
    file = (place.home if scope == "user" else place.project) / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(OTHERS)

    install("claude-code", "--hooks", "--scope", scope)

    hooks = content(file)["hooks"]
    assert list(hooks) == ["Stop", "PostToolUse", "PreCompact", "SessionStart"]
    assert [group["matcher"] for group in hooks["PostToolUse"]] == ["Edit", "mcp__holdfast__.*"]
    install("claude-code", "--remove", "--scope", scope)
    assert file.read_text() == OTHERS
    assert not place.file("claude-code", scope).exists()


def test_hooks_are_brought_up_to_date_and_not_doubled(place: Place) -> None:
    file = place.project / ".claude" / "settings.json"
    install("claude-code", "--hooks")
    old = file.read_text().replace("|resume|compact", "")
    file.write_text(old)

    install("claude-code", "--hooks", "--workspace", "it's here")

    hooks = content(file)["hooks"]
    assert [len(groups) for groups in hooks.values()] == [1, 1, 1]
    [group] = hooks["SessionStart"]
    assert group["matcher"] == "startup|resume|compact"
    assert subprocess.run(
        ["sh", "-c", "holdfast() { :; }; set -- " + group["hooks"][0]["command"] + '; echo "$5"'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.endswith("it's here\n")


def test_a_hook_whose_program_is_gone_does_not_fail(place: Place) -> None:
    install("claude-code", "--hooks")
    file = place.project / ".claude" / "settings.json"
    command = content(file)["hooks"]["PreCompact"][0]["hooks"][0]["command"]

    gone = command.replace(command.split()[0], str(place.home / "gone"))

    assert (
        subprocess.run(["sh", "-c", gone], stderr=subprocess.DEVNULL, check=False).returncode == 0
    )


# --- what stands in client_examples -----------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_the_example_configurations_are_what_install_writes(client: str) -> None:
    known = CLIENTS[client]
    here = Surroundings(Path("/home/ann"), Path("/home/ann/project"), {})
    command = ["/home/ann/.local/bin/holdfast" if known.is_application else "holdfast"]
    registration = Registration(known, known.scopes[0], here, command)
    name = known.file(known.scopes[0], here).name.lstrip(".")

    assert (EXAMPLES / client / name).read_text() == known.snippet(registration.entry)
    if known.has_hooks:
        assert (EXAMPLES / client / "settings.json").read_text() == put_hooks(
            "", registration.hooks
        )
