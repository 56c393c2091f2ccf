"""What was used up, as the JSON report tells it."""

from __future__ import annotations

from typing import Any

from steadyhand.records.cost import CostSummary, Spent


def cost_json(summary: CostSummary) -> dict[str, Any]:
    """`complete` is false when a call was not counted or has no known price: then the figures are lower bounds."""
    return {
        **_spent(summary.total),
        "complete": summary.complete,
        "list_prices": summary.list_prices,
        "by_purpose": {purpose: _spent(spent) for purpose, spent in summary.by_purpose.items()},
        "by_model": {model: _spent(spent) for model, spent in summary.by_model.items()},
    }


def _spent(spent: Spent) -> dict[str, Any]:
    return {
        "calls": spent.calls,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost": spent.cost,
    }
