"""A plugin in one file: a service, two actions on it, a check, and a reason to end a conversation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from steadyhand.plugin import (
    ActionContext,
    ConversationTurn,
    EvaluationContext,
    EvaluationParams,
    EvaluationResult,
    Evaluator,
    Evidence,
    ExecutionResult,
    Plugin,
    ServiceFault,
    TrialContext,
    action,
    failed,
    inconclusive,
    passed,
)


class Orders:
    """The service. Each trial gets its own, made from the `config` that the scenario gives the plugin."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._orders: dict[str, dict[str, Any]] = {key: dict(order) for key, order in config["orders"].items()}

    async def find(self, order_id: str) -> dict[str, Any]:
        if order_id not in self._orders:
            raise ServiceFault(f"there is no order {order_id!r}", code="NOT_FOUND", status=404)
        return self._orders[order_id]

    async def refund(self, order_id: str) -> dict[str, Any]:
        order = await self.find(order_id)
        order["refunded"] = True
        return order


@action(description="Look up an order: its total, and whether it was refunded.")
async def look_up_order(order_id: str, context: ActionContext) -> dict[str, Any]:
    order: dict[str, Any] = await context.get_service("orders").find(order_id)
    return order


@action(description="Refund an order and say why.")
async def refund_order(order_id: str, reason: str, context: ActionContext) -> dict[str, Any]:
    order = await context.get_service("orders").refund(order_id)
    return {**order, "reason": reason}


class AmountQuotedParams(EvaluationParams):
    order_id: str


class AmountQuoted(Evaluator[AmountQuotedParams]):
    """Passes if the reply quotes the order total from the service."""

    type = "amount_quoted"

    async def evaluate(
        self, params: AmountQuotedParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        found = [
            call.result["total"]
            for call in result.service_calls
            if call.service == "orders" and call.error is None and params.order_id in call.args
        ]
        if not found:
            return inconclusive(f"order {params.order_id} was never looked up in this step")
        amount = f"{found[-1]:.2f}"
        evidence = Evidence(expected=amount, found=result.reply)
        # 42.50, 42,50 and 42.5, but neither 142.50 nor 42.505.
        whole, cents = amount.split(".")
        if re.search(rf"(?<![\d.,]){whole}[.,](?:{cents}|{cents.rstrip('0') or cents})(?![.,]?\d)", result.reply):
            return passed(f"the reply quotes {amount}", evidence=evidence)
        return failed(f"the reply does not quote {amount}", evidence=evidence)


def order_settled(turns: tuple[ConversationTurn, ...], trial: TrialContext) -> str:
    """Ends the conversation once a refund went through; the text is the reason that the record shows."""
    settled = any(
        step.type == "action" and step.name == "refund_order" and step.status == "success"
        for step in turns[-1].trajectory
    )
    return "the order was refunded" if settled else ""


plugin = Plugin(
    name="orders",
    version="1.0.0",
    services={"orders": Orders},
    actions={"look_up_order": look_up_order, "refund_order": refund_order},
    evaluators={"amount_quoted": AmountQuoted},
    terminations={"order_settled": order_settled},
)
