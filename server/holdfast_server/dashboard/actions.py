"""What people do about a task: each a form, each one call of the workspace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast_server.dashboard.pages import Pages, address, number_in, task_of
from holdfast_server.observe import event

_Form = Mapping[str, str]


class Actions:
    """Carries out what a form asks for, and goes back to where it can be seen."""

    def __init__(self, pages: Pages) -> None:
        self._pages, self._workspace = pages, pages.workspace
        self._deeds: dict[str, Callable[[str, _Form, str], Awaitable[str]]] = {
            "answer": self._answer,
            "resolve": self._resolve,
            "release": self._release,
            "reopen": self._reopen,
            "acknowledge": self._acknowledge,
            "accept": self._accept,
            "pause": self._pause,
            "go_on": self._go_on,
            "rewind": self._rewind,
            "fork": self._fork,
            "pin": self._pin,
            "prune": self._prune,
        }

    async def act(self, request: Request) -> Response:
        """Do what the form says; what is refused says why."""
        form = await self._pages.form(request)
        did = form.get("do", "")
        deed = self._deeds.get(did)
        if deed is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such action")
        task, by = task_of(request), self._pages.author_of(request)
        back = await deed(task, form, by)
        event("person", did=did, task=task, by=by or "human")
        return RedirectResponse(back, HTTPStatus.SEE_OTHER)

    # --- what an agent waits for --------------------------------------------------------------

    async def _answer(self, task: str, form: _Form, by: str) -> str:
        # A button gives one of the options, the field beside it anything else.
        answer = form.get("option") or form.get("answer", "").strip()
        await self._workspace.answer(task, answer or None, form.get("question", ""), by=by)
        return _overview(task, "answer")

    async def _resolve(self, task: str, form: _Form, by: str) -> str:
        happened = _yes_or_no(form, "happened")
        await self._workspace.resolve(task, form.get("step", ""), happened=happened, by=by)
        return _overview(task, "resolve")

    async def _release(self, task: str, form: _Form, by: str) -> str:
        await self._workspace.release(task, form.get("step", ""), by=by)
        return _overview(task, "release")

    async def _reopen(self, task: str, form: _Form, by: str) -> str:
        await self._workspace.reopen(task, form.get("step", ""), by=by)
        return _overview(task, "reopen")

    async def _acknowledge(self, task: str, form: _Form, by: str) -> str:
        await self._workspace.acknowledge(task, form.get("conflict", ""), by=by)
        return _overview(task, "acknowledge")

    async def _accept(self, task: str, _: _Form, by: str) -> str:
        await self._workspace.acknowledge(task, damage=True, by=by)
        return _overview(task, "accept")

    async def _pause(self, task: str, _: _Form, by: str) -> str:
        await self._workspace.pause(task, by=by)
        return _overview(task, "pause")

    async def _go_on(self, task: str, _: _Form, by: str) -> str:
        await self._workspace.go_on(task, by=by)
        return _overview(task, "go_on")

    # --- checkpoints --------------------------------------------------------------------------

    async def _rewind(self, task: str, form: _Form, by: str) -> str:
        await self._workspace.rewind(task, number_in(form, "checkpoint"), by=by)
        return _overview(task, "rewind")

    async def _fork(self, task: str, form: _Form, by: str) -> str:
        new = form.get("new", "").strip()
        await self._workspace.fork(task, number_in(form, "checkpoint"), new, by=by)
        return _overview(new, "fork")

    async def _pin(self, task: str, form: _Form, by: str) -> str:
        pinned = _yes_or_no(form, "pinned")
        await self._workspace.pin(task, number_in(form, "checkpoint"), pinned=pinned, by=by)
        return address("checkpoints", task)

    async def _prune(self, task: str, form: _Form, by: str) -> str:
        keep_last, hours = number_in(form, "keep_last"), number_in(form, "hours")
        await self._workspace.prune(task, keep_last, hours, by=by)
        return _overview(task, "prune")


def _overview(task: str, did: str) -> str:
    return address("task", task, did=did)


def _yes_or_no(form: _Form, name: str) -> bool:
    said = {"yes": True, "no": False}.get(form.get(name, ""))
    if said is None:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"{name} must be yes or no")
    return said
