"""Five stories from agents' lives, as transcripts that a reviewer can read and price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.server.conftest import Mode, connected, process
from tests.server.stories.transcript import Transcript

from holdfast_storage import Workspace

DOCUMENTS = [f"doc-{number:03d}" for number in range(1, 201)]


async def test_a_batch_of_200_killed_at_47(root: Path, mode: Mode) -> None:
    story = Transcript("batch-killed-at-47")
    task: dict[str, Any] = {"task": "ingest-200-docs"}

    async with process(root, mode, agent="reader") as agent:
        await story.call(agent, "load_checkpoint", **task)
        goal = "Summarise all 200 contracts; finished when every file has a row."
        await story.call(agent, "save_checkpoint", **task, goal=goal, plan=DOCUMENTS)
        for document in DOCUMENTS[:46]:
            await agent.call("mark_step_done", **task, step=document, result={"pages": 4})
        story.note("46 documents are marked done in the same way")
        step = {"step": DOCUMENTS[46], "result": {"pages": 5}, "state": {"totals": {"pages": 189}}}
        await story.call(agent, "mark_step_done", **task, **step)
    story.note("the process is killed before doc-048 is marked; a new one is started")

    async with process(root, mode, agent="reader") as agent:
        brief = await story.call(agent, "load_checkpoint", **task)
        assert brief["progress"]["done"] == 47
        assert brief["remaining"][0] == "doc-048"
        assert brief["state"] == {"totals": {"pages": 189}}
        again = await story.call(agent, "mark_step_done", **task, step=DOCUMENTS[46])
        assert (again["already_done"], again["result"]) == (True, {"pages": 5})
        refused = await story.refused(agent, "finish_task", **task)
        assert refused.code == "unfinished"
        for document in DOCUMENTS[47:]:
            await agent.call("mark_step_done", **task, step=document, result={"pages": 4})
        story.note("the other 153 are marked done in the same way")
        finished = await story.call(agent, "finish_task", **task, summary="200 rows")
        assert finished["status"] == "done"

    # Resuming costs a few hundred tokens, however long the batch is.
    assert story.tokens[3] < 400
    story.check()


async def test_a_context_is_compacted_and_the_task_id_forgotten(root: Path, mode: Mode) -> None:
    story = Transcript("context-compacted")
    async with process(root, mode, agent="researcher") as agent:
        await story.call(
            agent,
            "save_checkpoint",
            task="compare-vendors",
            goal="Recommend one of three vendors.",
            plan=["acme", "bolt", "crux", "compare"],
            state={"criteria": ["price", "support"], "scores": {}},
            next="Read the offer of acme.",
        )
        await story.call(
            agent,
            "mark_step_done",
            task="compare-vendors",
            step="acme",
            result={"price": 12, "support": "office hours"},
            state={"scores": {"acme": 7}},
            next="bolt; its price is on page 9",
        )
        story.note("the client compacts the context: the agent knows no task id any more")

        brief = await story.call(agent, "load_checkpoint")
        assert brief["task"] == "compare-vendors"
        assert brief["chosen_because"] == "the task you last touched"
        assert brief["next"] == "bolt; its price is on page 9"

    story.note("the client itself is started again: nobody has touched anything yet")
    async with process(root, mode, agent="researcher") as agent:
        brief = await story.call(agent, "load_checkpoint")
        assert brief["chosen_because"] == "the only task that is not finished"
        steps = await story.call(
            agent, "list_checkpoints", task=brief["task"], show="steps", limit=1
        )
        assert steps["steps"][0]["result"]["price"] == 12
        await story.call(agent, "save_checkpoint", task="another", goal="Something else.")

    story.note("and again, now with two tasks open")
    async with process(root, mode, agent="researcher") as agent:
        brief = await story.call(agent, "load_checkpoint")
        assert not brief["found"]
        assert {line["task"] for line in brief["tasks"]} == {"compare-vendors", "another"}
        await story.call(agent, "load_checkpoint", task="compare-vendor")
    story.check()


async def test_a_mail_is_sent_and_the_crash_comes_before_confirming(root: Path, mode: Mode) -> None:
    story = Transcript("mail-in-doubt")
    task: dict[str, Any] = {"task": "invoices"}
    async with process(root, mode, agent="mailer") as agent:
        await story.call(agent, "save_checkpoint", **task, plan=["mail-ann", "mail-bob", "mail-cy"])
        ann = await story.call(agent, "begin_step", **task, step="mail-ann")
        assert ann["go"]
        bob = await agent.call("begin_step", **task, step="mail-bob")
    story.note("both mails are on their way when the process is killed; a new one is started")

    async with process(root, mode, agent="mailer") as agent:
        brief = await story.call(agent, "load_checkpoint", **task)
        assert brief["in_doubt"] == ["mail-ann", "mail-bob"]
        assert brief["remaining"] == ["mail-cy"]

        doubt = await story.call(agent, "begin_step", **task, step="mail-ann")
        assert (doubt["go"], doubt["status"]) == (False, "in_doubt")
        assert doubt["idempotency_key"] == ann["idempotency_key"]
        assert doubt["claim"] != ann["claim"]
        story.note("the outbox shows that Ann's mail was sent")
        old = await story.refused(
            agent, "mark_step_done", **task, step="mail-ann", claim=ann["claim"]
        )
        assert old.code == "claim_replaced"
        done = await story.call(
            agent, "mark_step_done", **task, step="mail-ann", claim=doubt["claim"], result="sent"
        )
        assert done["outcome"] == "done"

        doubt = await agent.call("begin_step", **task, step="mail-bob")
        story.note("the outbox shows that Bob's was not")
        retried = await story.call(
            agent, "begin_step", **task, step="mail-bob", claim=doubt["claim"], retry=True
        )
        assert retried["go"]
        assert retried["idempotency_key"] == bob["idempotency_key"]
        await story.call(agent, "mark_step_done", **task, step="mail-bob", claim=retried["claim"])

        never_again = await story.call(agent, "begin_step", **task, step="mail-ann")
        assert (never_again["go"], never_again["status"]) == (False, "done")
        free = await story.call(agent, "begin_step", **task)
        assert (free["go"], free["step"]) == (True, "mail-cy")
    story.check()


def edit(root: Path, task: str, **values: Any) -> None:
    """Change values of the state as a person does, in the file."""
    file = root / "tasks" / task / "state.json"
    document = json.loads(file.read_text())
    document["state"] |= values
    file.write_text(json.dumps(document, indent=2))


async def test_a_person_corrects_a_fact_while_the_agent_works(root: Path, mode: Mode) -> None:
    story = Transcript("person-corrects-a-fact")
    task: dict[str, Any] = {"task": "profile"}
    async with (
        Workspace.open(root) as workspace,
        connected(workspace, mode, agent="writer") as agent,
    ):
        state = {"ceo": "Ann", "founded": 1999}
        await story.call(agent, "save_checkpoint", **task, state=state, plan=["intro", "history"])
        await workspace.render("profile")

        edit(root, "profile", ceo="Bea")
        story.note("a person opens state.json and corrects the name of the CEO to Bea")
        marked = await story.call(agent, "mark_step_done", **task, step="intro")
        [change] = marked["changes"]
        assert change == {"by": "human", "path": "/state/ceo", "from": "Ann", "to": "Bea"}

        # The agent has not understood and sends its old value again.
        saved = await story.call(agent, "save_checkpoint", **task, state={"ceo": "Ann", "pages": 3})
        [conflict] = saved["conflicts"]
        assert (conflict["yours"], conflict["current"]) == ("Ann", "Bea")

        brief = await story.call(agent, "load_checkpoint", **task)
        assert brief["state"] == {"ceo": "Bea", "founded": 1999, "pages": 3}
        saved = await story.call(agent, "save_checkpoint", **task, state={"pages": 4})
        assert (saved["changes"], saved["conflicts"]) == ([], [])
    story.check()
    assert json.loads((root / "tasks/profile/state.json").read_text())["state"]["ceo"] == "Bea"


async def test_two_agents_on_one_task_and_a_third_that_takes_over(root: Path, mode: Mode) -> None:
    story = Transcript("two-agents-and-a-third")
    task: dict[str, Any] = {"task": "translate"}
    async with process(root, mode, agent="ann") as ann, process(root, mode, agent="bob") as bob:
        plan = ["chapter-1", "chapter-2", "chapter-3", "chapter-4"]
        state = {"glossary": {"anchor": "Anker"}}
        await story.call(ann, "save_checkpoint", **task, plan=plan, state=state)
        story.note("bob comes to help")
        await story.call(bob, "load_checkpoint", **task)

        first = await story.call(ann, "begin_step", **task)
        second = await story.call(bob, "begin_step", **task)
        assert (first["step"], second["step"]) == ("chapter-1", "chapter-2")
        held = await story.call(bob, "begin_step", **task, step="chapter-1")
        assert (held["go"], held["held_by"]) == (False, "ann")

        await story.call(
            bob,
            "mark_step_done",
            **task,
            step="chapter-2",
            claim=second["claim"],
            state={"glossary": {"rope": "Seil"}},
        )
        marked = await story.call(
            ann,
            "mark_step_done",
            **task,
            step="chapter-1",
            claim=first["claim"],
            state={"glossary": {"sail": "Segel"}},
        )
        # Nothing of either is lost, and ann hears what bob did.
        assert marked["next_step"] == "chapter-3"
        assert [(each["by"], each["path"]) for each in marked["changes"]] == [
            ("bob", "/state/glossary/rope")
        ]
        await story.call(bob, "begin_step", **task, step="chapter-3")
    story.note("both are gone, bob in the middle of chapter-3; cy takes over")

    async with process(root, mode, agent="cy") as cy:
        brief = await story.call(cy, "load_checkpoint", **task)
        assert brief["state"]["glossary"] == {"anchor": "Anker", "rope": "Seil", "sail": "Segel"}
        assert (brief["in_doubt"], brief["remaining"]) == (["chapter-3"], ["chapter-4"])
        doubt = await story.call(cy, "begin_step", **task, step="chapter-3")
        await story.call(
            cy, "begin_step", **task, step="chapter-3", claim=doubt["claim"], retry=True
        )
        await story.call(cy, "mark_step_done", **task, step="chapter-3")
        await story.call(cy, "mark_step_done", **task, step="chapter-4")
        finished = await story.call(cy, "finish_task", **task)
        assert finished["status"] == "done"
    story.check()
