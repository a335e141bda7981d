"""What users read is complete and true: nothing public is missing, links lead somewhere, examples run."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

import holdfast_storage
from holdfast_server.cli import exits
from holdfast_server.cli.main import COMMANDS, parser_of_command
from holdfast_server.tools import specs
from holdfast_storage import Caller, HoldfastError, Task, Workspace
from holdfast_storage.core import errors, limits, retention
from holdfast_storage.core.records import OPS, Place, Record, decode_line
from holdfast_storage.core.seal import is_sealed
from holdfast_storage.core.view import EDITABLE_KEYS, OWN_KEYS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RUN = ["README.md", "docs/python.md", "docs/langgraph.md"]
# In every command, and said for all of them.
EXPLAINED_ONCE = {"--help"}


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def all_docs() -> str:
    return "\n".join(page.read_text() for page in sorted(DOCS.glob("**/*.md")))


# --- nothing is missing -----------------------------------------------------------------------


def error_classes(of: type[HoldfastError] = HoldfastError) -> Iterator[type[HoldfastError]]:
    yield of
    for each in of.__subclasses__():
        yield from error_classes(each)


def public_methods(kind: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(kind) if not name.startswith("_")]


def settings() -> list[str]:
    sections = {"limits": limits.Limits, "retention": retention.Retention}
    named = [f"{name}.{each.name}" for name, kind in sections.items() for each in fields(kind)]
    return [*named, *(each.name for each in fields(limits.Settings) if each.name not in sections)]


@pytest.mark.parametrize("operation", sorted(OPS))
def test_every_operation_has_a_section(operation: str) -> None:
    assert f"\n### `{operation}`\n" in text_of("docs/format.md")


@pytest.mark.parametrize(
    "error", [each for each in error_classes() if each.__module__ == errors.__name__]
)
def test_every_error_is_in_the_table(error: type[HoldfastError]) -> None:
    page = text_of("docs/python.md")

    assert f"`{error.code}`" in page
    if error is not HoldfastError:
        assert f"| `{error.code}` | `{error.__name__}` |" in page


@pytest.mark.parametrize("setting", settings())
def test_every_setting_is_described_with_its_default(setting: str) -> None:
    value: Any = limits.Settings()
    for name in setting.split("."):
        value = getattr(value, name)

    assert f"| `{setting}` | {value} |" in text_of("docs/format.md")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_described_with_its_options(command: str) -> None:
    page = all_docs()

    assert re.search(rf"^\| [^|]*`holdfast {command}[ `]", text_of("docs/cli.md"), re.MULTILINE)
    for option in long_options(command) - EXPLAINED_ONCE:
        assert f"`{option}" in page or f" {option}" in page, option


def long_options(command: str) -> set[str]:
    actions = parser_of_command(command)._actions  # pyright: ignore[reportPrivateUsage]
    return {flag for action in actions for flag in action.option_strings if flag.startswith("--")}


def test_every_exit_status_is_described() -> None:
    statuses = [value for name, value in vars(exits).items() if name.isupper() and name[0] != "_"]

    assert statuses
    for status in statuses:
        assert f"\n| {status} | " in text_of("docs/cli.md")


@pytest.mark.parametrize("tool", [spec.name for spec in specs.ALL])
def test_every_tool_is_described(tool: str) -> None:
    assert f"| `{tool}` |" in text_of("README.md")


@pytest.mark.parametrize("name", holdfast_storage.__all__)
def test_every_public_name_is_in_the_docs(name: str) -> None:
    assert f"`{name}`" in all_docs()


@pytest.mark.parametrize(
    "method",
    [(kind, name) for kind in (Workspace, Caller, Task) for name in public_methods(kind)],
    ids=lambda method: f"{method[0].__name__}.{method[1]}",
)
def test_every_method_is_in_its_section(method: tuple[type, str]) -> None:
    kind, name = method
    section = sections_of(text_of("docs/python.md"))[f"`{kind.__name__}`"]

    assert re.search(rf"`(?:{kind.__name__}\.|caller\.)?{name}[`(]", section)


@pytest.mark.parametrize(
    "method",
    [
        (kind, name)
        for kind in (Workspace, Caller)
        for name in public_methods(kind)
        if callable(getattr(kind, name)) and name != "open"
    ],
    ids=lambda method: f"{method[0].__name__}.{method[1]}",
)
def test_every_argument_is_in_the_signature_that_users_read(method: tuple[type, str]) -> None:
    kind, name = method
    section = sections_of(text_of("docs/python.md"))[f"`{kind.__name__}`"]
    found = re.search(rf"`{name}\((.*?)\)`", section)
    assert found
    told = set(re.findall(r"[a-z_]+(?=[,=)]|$)", found[1].replace("*", "")))

    # `by` is said once for all of them.
    assert set(inspect.signature(getattr(kind, name)).parameters) - {"self", "by"} <= told


@pytest.mark.parametrize("key", [*OWN_KEYS, *EDITABLE_KEYS])
def test_every_key_of_the_view_is_described(key: str) -> None:
    section = sections_of(text_of("docs/format.md"))["`state.json`"]

    assert re.search(rf"^\| (?:`[^|]*`, )?`{re.escape(key)}`", section, re.MULTILINE)


def sections_of(page: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# --- examples are true ------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    content: str


def blocks_of(page: str) -> list[Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    return [
        Block(page, text_of(page)[: each.start()].count("\n") + 2, each[1], each[2])
        for each in found
    ]


def test_every_journal_line_in_the_format_is_one_that_holdfast_believes() -> None:
    blocks = [block for block in blocks_of("docs/format.md") if block.language == "jsonl"]
    lines = [line for block in blocks for line in block.content.splitlines()]

    entries = [decode_line(line.encode(), Place(1, 0, len(line))) for line in lines]

    believed = [entry for entry in entries if isinstance(entry, Record)]
    assert len(believed) == len(lines)
    assert {entry.op for entry in believed} == OPS


def test_the_view_in_the_format_is_sealed() -> None:
    views = [block for block in blocks_of("docs/format.md") if '"digest"' in block.content]

    sealed = [is_sealed(view.content.encode()) for view in views if view.language == "json"]

    assert sealed == [True]


def test_json_in_the_docs_parses() -> None:
    pages = ["docs/format.md", "README.md"]
    for block in (block for page in pages for block in blocks_of(page)):
        if block.language == "json":
            json.loads(block.content)


async def run_block(block: Block, names: dict[str, Any]) -> None:
    """Run a block as if its page were one long asynchronous program."""
    # Line numbers in a traceback are those of the page.
    source = "\n" * (block.line - 1) + block.content
    code = compile(source, ROOT / block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    run = types.FunctionType(code, names)
    if "asyncio.run(" in block.content:
        # A whole program, with an event loop of its own.
        await asyncio.to_thread(run)
    elif code.co_flags & inspect.CO_COROUTINE:
        await run()
    else:
        run()


@pytest.mark.parametrize("page", RUN)
async def test_the_examples_of_a_page_run_one_after_the_other(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [block for block in blocks_of(page) if block.language == "python"]
    assert blocks
    monkeypatch.chdir(tmp_path)

    async with Workspace.open(tmp_path / "workspace") as workspace:
        names: dict[str, Any] = {"__name__": "__main__", "workspace": workspace}
        for block in blocks:
            await run_block(block, names)


@pytest.mark.parametrize(
    "example", sorted((ROOT / "client_examples" / "frameworks").glob("*_agent.py"))
)
def test_an_agent_of_a_framework_is_on_the_page_as_it_runs(example: Path) -> None:
    agent = example.read_text().partition("async def send_invoices")[2].split("\n\n\n")[0]

    page = example.stem.removesuffix("_agent").replace("_", "-")
    assert f"async def send_invoices{agent}\n```" in text_of(f"docs/frameworks/{page}.md")
    assert f"(frameworks/{page}.md)" in text_of("docs/frameworks.md")
    assert f"]({example.name})" in text_of("client_examples/README.md").replace("frameworks/", "")


# --- links lead somewhere ---------------------------------------------------------------------


def pages() -> list[str]:
    found = (page.relative_to(ROOT) for page in ROOT.glob("**/*.md"))
    hidden = (".", "node_modules", "build", "dist")
    return sorted(str(page) for page in found if not page.parts[0].startswith(hidden))


def without_code(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def anchors_of(page: str) -> set[str]:
    """Name the headings of a page as GitHub does."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages())
def test_every_relative_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (ROOT / page).parent / path if path else ROOT / page
        assert linked.exists(), target
        assert not anchor or anchor in anchors_of(str(linked.resolve().relative_to(ROOT))), target
