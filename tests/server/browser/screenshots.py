"""Make the pictures of the page that the README shows, from a story that is played anew each time."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.async_api import Page, async_playwright
from tests.server.browser.conftest import ARGUMENTS, CHROMIUM, Site
from tests.server.browser.scene import INGEST, REPORT, played

_WIDTH = 1100
# What each picture shows, and how much of it from the top.
_PICTURES = {
    "board": ("/", 700),
    "task": (f"/task/{INGEST}", 900),
    "diff": (f"/diff/{REPORT}?a=1&b=2", 830),
}


async def make(folder: Path) -> None:
    """Play the story, open each page in both themes, and take the pictures."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="holdfast-") as name:
        root = Path(name) / "contracts" / ".holdfast"
        async with async_playwright() as playwright, played(root):
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            site = Site(root, browser)
            await site.serve()
            try:
                for theme in ("light", "dark"):
                    for picture, (path, height) in _PICTURES.items():
                        page = await site.open(path, width=_WIDTH, theme=theme)
                        await _settle(page, height)
                        file = folder / f"{picture}-{theme}.png"
                        await page.screenshot(path=file, animations="disabled")
                        print(f"{file}  {(await asyncio.to_thread(file.stat)).st_size:,} bytes")
            finally:
                await site.close()
                await browser.close()


async def _settle(page: Page, height: int) -> None:
    await page.set_viewport_size({"width": _WIDTH, "height": height})
    # The folder is a different one each time.
    await page.locator(".place").evaluate(
        "(place) => (place.textContent = '~/contracts/.holdfast')"
    )
    if await page.locator("body").get_attribute("data-live"):
        await page.get_by_text("Live", exact=True).wait_for()


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
