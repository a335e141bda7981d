"""A real Chromium on the real page: `holdfast ui` in a process of its own, agents beside it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from holdfast_storage import Workspace

CHROMIUM = shutil.which("chromium")
# No sandbox: a container's root has none. The rest keeps it from talking to anybody else.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 30_000


class Site:
    """A workspace and the page on it."""

    def __init__(self, root: Path, browser: Browser) -> None:
        self.root, self._browser = root, browser
        self.tokens = root.parent / "tokens.json"
        self.address = ""
        self.errors: list[str] = []
        self._process: asyncio.subprocess.Process | None = None

    async def serve(self, port: int = 0) -> None:
        program = [sys.executable, "-m", "holdfast_server", "ui", "--no-browser"]
        told = ["--workspace", str(self.root), "--tokens", str(self.tokens), "--port", str(port)]
        self._process = await asyncio.create_subprocess_exec(
            *program, *told, stdout=asyncio.subprocess.PIPE, env={**os.environ}
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        self.address = line.rpartition(" ")[2].strip().rstrip("/")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    async def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    async def open(self, path: str = "/", width: int = 1100, theme: str = "light") -> Page:
        """Open a page in a window of its own; an error in its scripts fails the test."""
        context = await self._browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if theme == "dark" else "light",
        )
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        await page.goto(self.address + path)
        return page

    async def close(self) -> None:
        for context in self._browser.contexts:
            await context.close()
        if self._process is not None and self._process.returncode is None:
            await self.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncGenerator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def site(chromium: Browser, tmp_path: Path) -> AsyncGenerator[Site]:
    site = Site(tmp_path / "project" / ".holdfast", chromium)
    site.root.parent.mkdir()
    await site.serve()
    yield site
    await site.close()
    assert site.errors == []


@pytest_asyncio.fixture(loop_scope="session")
async def workspace(site: Site) -> AsyncGenerator[Workspace]:
    """Give the agents' own door to the same folder."""
    async with Workspace.open(site.root, by="program") as opened:
        yield opened
