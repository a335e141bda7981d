"""Two agents on one folder over stdio and a third over HTTP: nothing is lost between them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.server.transports.programs import Message, Pipes, Starter, call
from tests.server.transports.test_http import post

from holdfast_server.http.tokens import Tokens

TASK = "ingest"
STEPS = [f"doc-{number:02d}" for number in range(60)]


class Far:
    """An agent over HTTP, with a token of its own."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token

    def told(self, tool: str, **arguments: Any) -> Message:
        message = call(1, tool, True, **arguments)
        status, _, said = post(self._port, message, authorization=f"Bearer {self._token}")
        assert status == 200
        assert not said["result"].get("isError"), said
        structured: Message = said["result"]["structuredContent"]
        return structured


def three(starter: Starter) -> tuple[Pipes, Pipes, Far]:
    token = Tokens(starter.tokens).add("cleo")
    _, port = starter.http()
    ann, ben = starter.stdio("--agent", "ann"), starter.stdio("--agent", "ben")
    ann.hello()
    ben.hello()
    return ann, ben, Far(port, token)


def test_work_is_handed_over_and_each_sees_what_the_others_did(starter: Starter) -> None:
    ann, ben, cleo = three(starter)

    ann.told("save_checkpoint", task=TASK, goal="all", plan=STEPS[:6], state={"model": "small"})
    ann.told("mark_step_done", task=TASK, step="doc-00", result={"pages": 3})
    seen_by_ben = ben.told("load_checkpoint", task=TASK)
    ben.told("mark_step_done", task=TASK, step="doc-01", state={"model": "large"})
    again = ben.told("mark_step_done", task=TASK, step="doc-00", result={"pages": 99})
    seen_by_cleo = cleo.told("load_checkpoint", task=TASK)
    cleo.told("mark_step_done", task=TASK, step="doc-02", next="doc-03")
    seen_by_ann = ann.told("mark_step_done", task=TASK, step="doc-03")

    assert seen_by_ben["progress"]["last_done"] == "doc-00"
    assert (again["already_done"], again["result"]) == (True, {"pages": 3})
    assert seen_by_cleo["state"] == {"model": "large"}
    assert seen_by_cleo["saved_by"] == "ann"
    assert {(each["by"], each["path"]) for each in seen_by_ann["changes"]} >= {
        ("ben", "/state/model")
    }
    listed = cleo.told("list_checkpoints", task=TASK, show="steps")["steps"]
    done = {each["step"]: each["by"] for each in listed if each["status"] == "done"}
    assert done == {"doc-00": "ann", "doc-01": "ben", "doc-02": "cleo", "doc-03": "ann"}


def test_nothing_is_lost_when_all_work_at_once(starter: Starter) -> None:
    ann, ben, cleo = three(starter)
    ann.told("save_checkpoint", task=TASK, goal="all", plan=STEPS)
    agents: dict[str, Pipes | Far] = {"ann": ann, "ben": ben, "cleo": cleo}
    for agent in agents.values():
        agent.told("load_checkpoint", task=TASK)

    def work(name: str) -> None:
        mine = STEPS[list(agents).index(name) :: 3]
        for step in mine:
            agents[name].told("mark_step_done", task=TASK, step=step, append={"seen": [step]})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, agents))

    brief = ben.told("load_checkpoint", task=TASK, max_tokens=10_000)
    assert brief["progress"]["done"] == len(STEPS)
    assert sorted(brief["state"]["seen"]) == STEPS


def test_only_one_of_them_gets_a_step(starter: Starter) -> None:
    ann, ben, cleo = three(starter)
    ann.told("save_checkpoint", task=TASK, goal="mail", plan=["send"])
    agents: list[Pipes | Far] = [ann, ben, cleo]

    def begin(agent: Pipes | Far) -> Message:
        return agent.told("begin_step", task=TASK, step="send")

    with ThreadPoolExecutor(3) as pool:
        begun = list(pool.map(begin, agents))

    assert sorted(each["go"] for each in begun) == [False, False, True]
    [winner] = [each for each in begun if each["go"]]
    assert {each["held_by"] for each in begun if not each["go"]} <= {"ann", "ben", "cleo"}
    ann.told("mark_step_done", task=TASK, step="send", claim=winner["claim"])
    assert cleo.told("begin_step", task=TASK, step="send")["status"] == "done"
