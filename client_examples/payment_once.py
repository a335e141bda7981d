"""Payments that must not happen twice: killed between the payment and its confirmation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared.over_mcp import connected
from shared.stage import Stage, play, tell

TASK = "pay-invoices"
INVOICES = {f"invoice-{number}": number * 100 for number in range(1, 6)}


# --- the agent --------------------------------------------------------------------------------


async def pay_all(folder: Path) -> None:
    bank = Bank(folder / "bank.jsonl")
    async with connected(folder, agent="clerk") as holdfast:
        brief = await holdfast("load_checkpoint", task=TASK)
        if not brief["found"]:
            await holdfast("save_checkpoint", task=TASK, goal="Pay all.", plan=list(INVOICES))
        for invoice in brief["in_doubt"]:
            # Begun, and never confirmed: the answer has a new claim, and the key of the first try.
            doubt = await holdfast("begin_step", task=TASK, step=invoice)
            claim, key = doubt["claim"], doubt["idempotency_key"]
            if not bank.has(key):
                tell(f"not paid yet: {invoice}")
                await holdfast("begin_step", task=TASK, step=invoice, claim=claim, retry=True)
                bank.pay(key, INVOICES[invoice])
            else:
                tell(f"paid already: {invoice}")
            await holdfast("mark_step_done", task=TASK, step=invoice, claim=claim, result=key)
        while (begun := await holdfast("begin_step", task=TASK))["go"]:
            # From here on a crash leaves a doubt, and not a second payment.
            invoice, key = begun["step"], begun["idempotency_key"]
            tell(f"begun: {invoice}")
            bank.pay(key, INVOICES[invoice])
            tell(f"paid: {invoice}")
            await holdfast("mark_step_done", task=TASK, step=invoice, result=key)
        await holdfast("finish_task", task=TASK, summary="All invoices are paid.")


class Bank:
    """Stands in for a service outside: it can be asked whether a payment was made."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger

    def pay(self, key: str, amount: int) -> None:
        with self._ledger.open("a") as ledger:
            ledger.write(json.dumps({"key": key, "amount": amount}) + "\n")

    def has(self, key: str) -> bool:
        return any(payment["key"] == key for payment in self.payments())

    def payments(self) -> list[dict[str, Any]]:
        lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
        return [json.loads(line) for line in lines]


# --- the story --------------------------------------------------------------------------------


def story(stage: Stage) -> str:
    stage.run("clerk", kill_at="paid: invoice-2")
    second = stage.run("clerk", kill_at="begun: invoice-4")
    third = stage.run("clerk")

    stage.check("payment 2 was found at the bank", holds=second[0] == "paid already: invoice-2")
    stage.check("payment 4 was not, and made then", holds=third[0] == "not paid yet: invoice-4")
    amounts = [payment["amount"] for payment in Bank(stage.folder / "bank.jsonl").payments()]
    stage.check("each was paid once", holds=sorted(amounts) == list(INVOICES.values()))
    stage.check("each is confirmed", holds=sorted(stage.results(TASK)) == sorted(INVOICES))
    return (
        "killed at invoice-2 after and invoice-4 before its payment, resumed at the doubt, "
        "effects done once (5 payments)"
    )


if __name__ == "__main__":
    play({"clerk": pay_all}, story)
