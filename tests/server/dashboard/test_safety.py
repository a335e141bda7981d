"""Who may come in and what may be sent: tokens, cookies, origins, headers, and text that stays text."""

from __future__ import annotations

import html

import pytest
from starlette.responses import Response
from tests.server.dashboard.conftest import HOST, SITE, Page, Person, browser
from tests.server.dashboard.test_task import VIEWS, story

from holdfast_server.dashboard.app import FOR_STRANGERS
from holdfast_server.dashboard.pages import address
from holdfast_server.http.sessions import Sessions
from holdfast_server.http.tokens import Tokens
from holdfast_storage import Workspace

EVERYWHERE = ["/", "/live", "/schema.json", *(f"/{view}/report" for view in VIEWS)]


# --- log in -----------------------------------------------------------------------------------


@pytest.mark.parametrize("address", EVERYWHERE)
async def test_where_tokens_are_set_a_stranger_sees_only_the_log_in(
    person: Person, tokens: Tokens, address: str
) -> None:
    await story(person.workspace)
    tokens.add("maria")

    answer = await person.client.get(address)

    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/login?next=%2F")
    assert "report" not in answer.text


async def test_a_stranger_changes_nothing(person: Person, tokens: Tokens) -> None:
    await story(person.workspace)
    form = (await person.see("/task/report")).form("pause")
    tokens.add("maria")

    assert (await person.send(form)).status == 401
    assert (await person.client.put("/edit/report", content=b"{}")).status_code == 401


async def test_a_token_lets_in_and_leads_to_what_was_wanted(person: Person, tokens: Tokens) -> None:
    await story(person.workspace)
    token = tokens.add("maria")
    login = await person.see("/steps/report?status=done", follow_redirects=True)

    page = await person.send(login.forms[0], token=f" {token} ")

    assert page.response.url == f"{SITE}/steps/report?status=done"
    assert "maria" in page.text


async def test_a_wrong_token_is_refused_in_words(person: Person, tokens: Tokens) -> None:
    tokens.add("maria")

    page = await person.send((await person.see("/login")).forms[0], token="hf_guess")

    assert page.status == 403
    assert "not a token that counts" in page.text
    assert (await person.client.get("/")).status_code == 303


@pytest.mark.parametrize(
    "wanted", ["http://evil.example/", "//evil.example", "/\\evil.example", "javascript:1", "/\n/x"]
)
async def test_the_log_in_leads_to_no_other_site(
    person: Person, tokens: Tokens, wanted: str
) -> None:
    token = tokens.add("maria")
    form = (await person.see("/login")).forms[0]

    answer = await person.client.post(
        "/login", data={**form.fields, "next": wanted, "token": token}, headers={"origin": SITE}
    )

    assert answer.headers["location"] == "/"


async def test_a_removed_token_counts_no_longer_in_a_session(
    person: Person, tokens: Tokens
) -> None:
    token = tokens.add("maria")
    tokens.add("other")
    await person.send((await person.see("/login")).forms[0], token=token)
    assert (await person.client.get("/")).status_code == 200

    tokens.remove("maria")

    assert (await person.client.get("/")).status_code == 303


async def test_logging_out_ends_the_session(person: Person, tokens: Tokens) -> None:
    token = tokens.add("maria")
    page = await person.send((await person.see("/login")).forms[0], token=token)
    cookies = dict(person.client.cookies)

    await person.send(next(form for form in page.forms if form.action == "/logout"))

    person.client.cookies.update(cookies)
    assert (await person.client.get("/")).status_code == 303


def test_a_session_ends_by_itself(tokens: Tokens) -> None:
    now = 0.0
    sessions = Sessions(tokens, 1, clock=lambda: now)
    session = sessions.begin(Response(), tokens.add("maria"))
    assert sessions.name_of(session) == "maria"

    now = 12 * 3600

    assert sessions.name_of(session) == ""


async def test_the_cookie_is_no_token_and_no_script_or_other_site_gets_it(
    person: Person, tokens: Tokens
) -> None:
    token = tokens.add("maria")
    form = (await person.see("/login")).forms[0]

    answer = await person.client.post(
        "/login", data={**form.fields, "token": token}, headers={"origin": SITE}
    )

    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in cookie


async def test_a_bearer_token_does_not_make_an_agent_a_person(
    person: Person, tokens: Tokens
) -> None:
    token = tokens.add("agent")

    answer = await person.client.get("/", headers={"authorization": f"Bearer {token}"})

    assert answer.status_code == 303


# --- other sites ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost:8765.evil"]
)
async def test_another_host_is_refused_everywhere(person: Person, host: str) -> None:
    for place in EVERYWHERE:
        answer = await person.client.get(place, headers={"host": host})
        assert answer.status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"ftp://{HOST}", f"{SITE}.evil"])
async def test_a_form_of_another_site_is_refused(person: Person, origin: str) -> None:
    await story(person.workspace)
    form = (await person.see("/task/report")).form("pause")

    answer = await person.client.post(form.action, data=form.fields, headers={"origin": origin})

    assert answer.status_code == 403
    assert (await person.workspace.standing("report")).status == "waiting"


@pytest.mark.parametrize("proof", [None, "", "0" * 64])
async def test_a_form_without_the_sessions_proof_is_refused(
    person: Person, proof: str | None
) -> None:
    await story(person.workspace)
    fields = (await person.see("/task/report")).form("pause").fields
    fields = {**fields, "proof": proof} if proof is not None else {"do": "pause"}

    answer = await person.client.post("/act/report", data=fields, headers={"origin": SITE})

    assert answer.status_code == 403
    assert (await person.workspace.standing("report")).status == "waiting"


async def test_the_proof_of_one_session_is_none_in_another(
    person: Person, workspace: Workspace, tokens: Tokens
) -> None:
    await story(person.workspace)
    form = (await person.see("/task/report")).form("pause")
    person.client.cookies.clear()
    await person.see("/")

    assert (await person.send(form)).status == 403


async def test_a_form_without_an_origin_is_refused(person: Person) -> None:
    await story(person.workspace)
    form = (await person.see("/task/report")).form("pause")

    assert (await person.client.post(form.action, data=form.fields)).status_code == 403


async def test_a_form_larger_than_any_form_is_refused(person: Person) -> None:
    answer = await person.client.post(
        "/act/report", content=b"a=" + b"x" * 300_000, headers={"origin": SITE}
    )

    assert answer.status_code == 413


# --- what every answer carries ----------------------------------------------------------------


@pytest.mark.parametrize(
    "address", [*EVERYWHERE[:1], *EVERYWHERE[2:], "/login", "/nowhere", *sorted(FOR_STRANGERS)]
)
async def test_every_answer_forbids_scripts_frames_and_guessing(
    person: Person, address: str
) -> None:
    await story(person.workspace)

    answer = await person.client.get(address)

    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == (
        "no-cache" if address.startswith("/static/") else "no-store"
    )


@pytest.mark.parametrize("address", ["/", *(f"/{view}/report" for view in VIEWS), "/login", "/x"])
async def test_no_page_has_script_style_or_resources_of_others(
    person: Person, address: str
) -> None:
    await story(person.workspace)

    page = await person.see(address)

    for tag, given in page.tags:
        assert "style" not in given
        assert not any(name.startswith("on") for name in given)
        assert tag not in ("style", "iframe", "object", "embed", "base")
        for name in ("src", "href", "action"):
            assert given.get(name, "/").startswith(("/", "#")), given
    assert all("src" in given for tag, given in page.tags if tag == "script")


async def test_stored_text_is_only_ever_text(person: Person) -> None:
    payload = "<img src=x onerror=alert(1)>\"'><script>alert(1)</script>"
    agent = person.workspace.caller(f"agent {payload}")
    await agent.save(
        payload,
        {payload: [payload, {payload: payload}]},
        goal=payload,
        next=payload,
        plan=[payload],
        label=payload,
        refs=[payload],
    )
    await agent.mark(payload, f"done {payload}", {payload: payload}, refs=[payload])
    await agent.ask(payload, payload, [payload], step=payload)
    tags: set[str] = set()

    for view in ["", *VIEWS]:
        page = await person.see(address(view, payload, a=1, b=0) if view else "/")
        assert page.status == 200
        assert payload in html.unescape(page.response.text)
        tags |= {tag for tag, _ in page.tags}
        assert not any("onerror" in given for _, given in page.tags)
        assert [given for tag, given in page.tags if tag == "script" and "src" not in given] == []

    assert "img" not in tags


async def test_nothing_outside_the_static_files_is_served(person: Person) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/"):
        assert (await person.client.get(path)).status_code == 404


async def test_too_many_guesses_are_slowed_down(workspace: Workspace, tokens: Tokens) -> None:
    tokens.add("maria")
    async with browser(workspace, tokens, burst=3) as client:
        statuses = [(await client.get("/login")).status_code for _ in range(4)]

    assert statuses == [200, 200, 200, 429]


def test_what_a_stranger_may_have_is_the_form_and_its_looks() -> None:
    looks = {"page.css", "page.js", "json.js", "edit.js", "mark.svg"}

    assert {"/login", *(f"/static/{name}" for name in looks)} == FOR_STRANGERS


async def test_a_page_that_is_not_there_is_said_so(person: Person) -> None:
    page: Page = await person.see("/nowhere")

    assert page.status == 404
    assert "Not Found" in page.text
