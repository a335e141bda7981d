"""What a person sees and does in a real browser while real agents work."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.server.browser.conftest import PATIENCE_MS, Site
from tests.server.browser.payloads import PAYLOADS
from tests.server.browser.scene import INGEST, MAILS, REPORT, played

from holdfast_server.dashboard.pages import address
from holdfast_server.http.tokens import Tokens
from holdfast_storage import Workspace

pytestmark = pytest.mark.asyncio(loop_scope="session")
expect.set_options(timeout=PATIENCE_MS)

VIEWS = ["task", "timeline", "steps", "state", "checkpoints", "diff", "prune", "edit"]


async def mark(page: Page) -> None:
    """Leave something that a reload would take away."""
    await page.evaluate("window.sameAsBefore = true")


async def assert_not_reloaded(page: Page) -> None:
    assert await page.evaluate("window.sameAsBefore === true")


async def is_live(page: Page) -> None:
    await expect(page.locator("#live")).to_have_text("Live")


# --- live -------------------------------------------------------------------------------------


async def test_a_step_arrives_on_the_board_without_reloading(
    site: Site, workspace: Workspace
) -> None:
    agent = workspace.caller("claude@laptop")
    await agent.save("ingest", plan=["doc-1", "doc-2"], next="doc-1")
    page = await site.open()
    await is_live(page)
    await mark(page)

    await agent.mark("ingest", "doc-1")
    await agent.begin("ingest", "doc-2")

    await expect(page.locator(".task .figures")).to_have_text("1 of 2")
    await expect(page.locator(".runs")).to_have_text("Running doc-2 by claude@laptop")
    await agent.save("another", {"a": 1})
    await expect(page.locator(".task")).to_have_count(2)
    await assert_not_reloaded(page)


async def test_a_step_arrives_on_the_task_and_what_was_unfolded_and_typed_stays(
    site: Site, workspace: Workspace
) -> None:
    agent = workspace.caller("claude@laptop")
    await agent.save("ingest", {"totals": {str(number): number for number in range(20)}})
    await agent.ask("ingest", "Go on?")
    page = await site.open("/task/ingest")
    await is_live(page)
    await mark(page)
    await page.locator("details", has_text="totals").last.locator("summary").click()
    answer = page.get_by_label("Your answer")
    await answer.fill("half an answ")

    await agent.mark("ingest", "doc-1")

    await expect(page.locator(".timeline")).to_contain_text("claude@laptop did doc-1")
    await expect(page.get_by_text("19", exact=True).last).to_be_visible()
    await expect(answer).to_have_value("half an answ")
    await expect(answer).to_be_focused()
    await assert_not_reloaded(page)


async def test_a_page_finds_its_server_again(site: Site, workspace: Workspace) -> None:
    await workspace.task("ingest").done("doc-1")
    page = await site.open()
    await is_live(page)
    await mark(page)

    port = site.port
    assert await site.stop() == 0
    await expect(page.locator("#live")).to_have_text("Not connected")
    await workspace.task("ingest").done("doc-2")
    await site.serve(port)

    await is_live(page)
    await expect(page.locator(".task .figures")).to_have_text("2 of 2")
    await assert_not_reloaded(page)


async def test_a_page_that_was_turned_away_tries_again(site: Site, workspace: Workspace) -> None:
    await workspace.task("ingest").done("doc-1")
    page = await site.open()
    await is_live(page)

    # A browser gives up by itself after an answer that is no stream.
    await page.route("**/live", lambda route: route.fulfill(status=503))
    await page.reload()
    await expect(page.locator("#live")).to_have_text("Not connected")
    await page.unroute("**/live")

    await is_live(page)


# --- putting things right ---------------------------------------------------------------------


async def test_an_edit_is_merged_with_what_an_agent_saved_meanwhile(
    site: Site, workspace: Workspace
) -> None:
    agent = workspace.caller("claude@laptop")
    await agent.save("report", {"ceo": "Ann", "pages": 1})
    page = await site.open("/edit/report")
    text = page.get_by_label("The JSON of report")
    await text.fill((await text.input_value()).replace('"Ann"', '"Bea"'))
    await agent.save("report", {"pages": 2})

    await page.keyboard.press("Control+s")

    await expect(page.locator("#meanwhile")).to_contain_text("claude@laptop saved checkpoint 2")
    assert await workspace.state_at("report", 0) == {"ceo": "Ann", "pages": 2}
    await page.get_by_role("button", name="Merge and save").click()
    await expect(page.locator("#saved")).to_contain_text("Saved as revision 3")
    assert await workspace.state_at("report", 0) == {"ceo": "Bea", "pages": 2}
    assert json.loads(await text.input_value())["state"] == {"ceo": "Bea", "pages": 2}
    listed = await agent.list_checkpoints("report", show="events", limit=1)
    assert (listed.events[0].op, listed.events[0].by) == ("edit", "human")


async def test_what_is_wrong_is_said_while_one_types(site: Site, workspace: Workspace) -> None:
    await workspace.task("report").save({"a": 1}, plan=["x"])
    page = await site.open("/edit/report")
    text, problems = page.get_by_label("The JSON of report"), page.locator("#problems")
    good = await text.input_value()
    await expect(problems).to_have_text("Valid JSON that fits the schema.")

    await text.fill(good.replace('"a": 1', '"a": 1,'))
    await expect(problems).to_contain_text("a comma too many")
    line = good[: good.index('"a": 1')].count("\n") + 1
    await expect(problems.get_by_role("button")).to_have_text(f"line {line}, column 11")
    await expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()

    await text.fill(good.replace('"x": "pending"', '"x": "perhaps"'))
    await expect(problems).to_contain_text("plan/x must be one of pending")
    await problems.get_by_role("button").click()
    await expect(text).to_be_focused()

    await text.fill(good.replace('"status": "active"', '"status": "paused"'))
    await expect(problems).to_have_text("Valid JSON that fits the schema.")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.locator("#saved")).to_contain_text("Saved as revision 2")
    assert (await workspace.standing("report")).paused_by_person


async def test_answering_a_question_lets_the_agent_go_on(site: Site, workspace: Workspace) -> None:
    agent = workspace.caller("claude@laptop")
    await agent.save("report", {"a": 1})
    page = await site.open("/task/report")
    await is_live(page)
    waiting = await agent.ask("report", "doc-031 is unreadable: skip it?", ["skip", "stop"])
    assert waiting.status == "waiting"

    # It appears by itself, and is answered with one press.
    await page.get_by_role("button", name="skip").click()

    await expect(page.locator(".did")).to_contain_text("Answered.")
    told = await agent.ask("report", "doc-031 is unreadable: skip it?", ["skip", "stop"])
    assert (told.status, told.answer) == ("answered", "skip")


async def test_a_doubt_is_resolved(site: Site) -> None:
    async with Workspace.open(site.root) as crashing:
        await crashing.task("mails").begin("ann")
    page = await site.open("/?show=needs-you")

    await page.get_by_role("link", name="1 in doubt").click()
    await page.get_by_role("button", name="It happened").click()

    await expect(page.locator(".did")).to_contain_text("Settled.")
    await expect(page.locator("#doubts")).to_have_count(0)
    async with Workspace.open(site.root) as after:
        assert (await after.standing("mails")).progress.done == 1


async def test_a_token_is_asked_for_once_and_names_the_person(
    site: Site, workspace: Workspace
) -> None:
    token = Tokens(site.tokens).add("maria")
    await workspace.task("report").save({"a": 1})
    page = await site.open("/task/report")

    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Log in").click()
    await is_live(page)
    await page.get_by_role("button", name="Pause").click()

    await expect(page.locator("#recent")).to_contain_text("human:maria paused it")


# --- for everybody ----------------------------------------------------------------------------


async def focused(page: Page) -> str:
    said: str = await page.evaluate(
        "(document.activeElement.textContent || document.activeElement.ariaLabel || '').trim()"
    )
    return " ".join(said.split())


async def tab_to(page: Page, text: str) -> None:
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await focused(page) == text:
            outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"nobody sees that {text} has the focus"
            return
    pytest.fail(f"{text} cannot be reached with the keyboard")


async def test_everything_can_be_done_with_the_keyboard_alone(
    site: Site, workspace: Workspace
) -> None:
    agent = workspace.caller("claude@laptop")
    await agent.save("report", {"a": 1})
    await agent.ask("report", "Which colour?", ["red", "blue"])
    page = await site.open()

    await page.keyboard.press("Tab")
    assert await focused(page) == "Skip to the content"
    await page.keyboard.press("Enter")
    await tab_to(page, "report")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="A question for you")).to_be_visible()
    await tab_to(page, "blue")
    await page.keyboard.press("Enter")

    await expect(page.locator(".did")).to_contain_text("Answered.")
    assert (await workspace.standing("report")).questions[0].answer == "blue"
    await tab_to(page, "Checkpoints")
    await page.keyboard.press("Enter")
    await expect(page.locator("#checkpoints")).to_be_visible()
    await tab_to(page, "Rewind, fork, pin checkpoint 1")
    await page.keyboard.press("Space")
    await tab_to(page, "Rewind to 1")
    await page.keyboard.press("Enter")
    await expect(page.locator(".did")).to_contain_text("Rewound.")


# Of every text that is seen: the contrast of its colour with what lies behind it (WCAG 2).
CONTRAST = """() => {
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const [r, g, b, a = 1] = parts(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility({ visibilityProperty: true })) continue;
    if (node.closest(".sr, .skip, svg, script, noscript") || node.closest(":disabled")) continue;
    const [a, b] = [light(parts(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.push(`${ratio.toFixed(2)} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return faint;
}"""

# What a screen reader would have no word for, and what it would be told twice.
NAMELESS = """() => {
  const found = [];
  const named = (node) => node.ariaLabel || node.labels?.length || node.textContent.trim()
    || node.getAttribute("aria-labelledby");
  for (const node of document.querySelectorAll("a, button, summary, input:not([type=hidden]), textarea, progress, nav, svg[role=img]"))
    if (!named(node)) found.push(node.outerHTML.slice(0, 120));
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) found.push(`twice: ${id}`);
  for (const node of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
    for (const name of ["aria-labelledby", "aria-describedby"])
      for (const id of (node.getAttribute(name) || "").split(" ").filter(Boolean))
        if (!document.getElementById(id)) found.push(`nobody: ${id}`);
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  for (const landmark of ["header", "main", "footer"])
    if (document.querySelectorAll(`body > ${landmark}`).length !== 1) found.push(`not one ${landmark}`);
  return found;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_fits_a_phone_and_can_be_read_by_everybody(site: Site, theme: str) -> None:
    async with played(site.root):
        page = await site.open("/", width=360, theme=theme)
        addresses = ["/", "/nowhere", "/login", *(f"/{view}/{REPORT}" for view in VIEWS)]
        for path in [*addresses, f"/task/{MAILS}", f"/task/{INGEST}", f"/diff/{REPORT}?a=1&b=2"]:
            await page.goto(site.address + path)
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, f"{path} is {width} px wide"
            assert await page.evaluate(CONTRAST) == [], path
            assert await page.evaluate(NAMELESS) == [], path


# --- stored text ------------------------------------------------------------------------------


async def exposed(page: Page, ran: list[str]) -> None:
    """Give the page the function that payloads call."""
    bare: Any = page
    await bare.expose_function("hfRan", lambda: ran.append(page.url))


async def poisoned(workspace: Workspace) -> None:
    """Put every payload into every field that is stored."""
    hostile = workspace.caller(f"agent {PAYLOADS[0]}")
    await hostile.save(
        "everything",
        {payload: [payload, {payload: payload}] for payload in PAYLOADS},
        plan=[f"planned {payload}" for payload in PAYLOADS],
        refs=PAYLOADS,
    )
    for payload in PAYLOADS:
        await hostile.mark("everything", payload, {payload: payload}, refs=[payload])
    for payload in PAYLOADS:
        await hostile.ask("everything", payload, [payload, f"or {payload}"], step=payload)
    await hostile.begin("everything", f"planned {PAYLOADS[1]}")
    for payload in PAYLOADS:
        agent = workspace.caller(payload)
        await agent.save(payload, {"a": payload}, goal=payload, next=payload, label=payload)
        other = workspace.caller(f"other {payload}")
        await other.load(payload)
        await agent.save(payload, {"a": f"{payload} 2"}, milestone=True, label=payload)
        # A conflict, an edit with a key of one's own, an end with a summary.
        await other.save(payload, {"a": "lost"})
        view = (await workspace.view(payload)).replace(
            b'"reopen"', json.dumps(payload).encode() + b': 1, "reopen"'
        )
        await workspace.edit(payload, view)
        await workspace.pause(payload, by=f"human:{payload}")


async def test_fifty_payloads_in_every_stored_field_run_nothing(
    site: Site, workspace: Workspace
) -> None:
    page = await site.open()
    ran: list[str] = []
    violations: list[str] = []
    page.on("dialog", lambda dialog: ran.append(dialog.message))
    page.on("console", lambda said: violations.append(said.text))
    await exposed(page, ran)
    await page.reload()
    await is_live(page)

    # First everything arrives live, through the scripts; then page by page, through the templates.
    await poisoned(workspace)
    await expect(page.locator(".task")).to_have_count(50)
    places = [
        "/?page=2",
        "/?show=needs-you",
        *(address(view, "everything", a=1, b=0) for view in VIEWS),
    ]
    places += [
        address("steps", "everything", cursor="50"),
        address("timeline", "everything", cursor="52"),
    ]
    places += [address("task", payload) for payload in PAYLOADS]
    places += [address("diff", PAYLOADS[0], a=1, b=2), address("edit", PAYLOADS[0])]
    for place in places:
        answer = await page.goto(site.address + place)
        assert answer is not None
        assert answer.status == 200, place
        strange = await page.evaluate(
            "document.querySelectorAll('img, iframe, object, embed, video, audio, math, base, style, "
            "script:not([src]), [onerror], [onload], [onfocus], [ontoggle]').length"
        )
        assert strange == 0, place
    # What somebody would press is pressed.
    await page.goto(site.address + address("task", "everything"))
    await page.locator("#questions button[name=option]").first.click()
    await expect(page.locator(".did")).to_contain_text("Answered.")

    assert ran == []
    assert violations == []


async def test_a_script_that_did_get_in_would_still_not_run(
    site: Site, workspace: Workspace
) -> None:
    """The second wall: the policy stops what the first, escaping, let through."""
    page = await site.open()
    ran: list[str] = []
    await exposed(page, ran)
    await page.reload()

    stopped = await page.evaluate(
        """() => {
          const stopped = [];
          document.addEventListener("securitypolicyviolation", (event) => stopped.push(event.effectiveDirective));
          try { document.body.innerHTML = "<img src=x onerror=hfRan()>"; } catch { stopped.push("innerHTML"); }
          const script = document.createElement("script");
          try { script.textContent = "hfRan()"; document.body.append(script); } catch { stopped.push("script"); }
          return new Promise((resolve) => setTimeout(() => resolve(stopped), 300));
        }"""
    )

    assert "innerHTML" in stopped
    assert "script" in stopped
    assert ran == []
