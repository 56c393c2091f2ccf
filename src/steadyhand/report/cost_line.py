"""What was spent, in a line."""

from __future__ import annotations

from steadyhand.judging.cost import PRICES_AS_OF
from steadyhand.records.cost import CostSummary, Spent


def cost_line(summary: CostSummary) -> str:
    """Such as `4 model calls: 1200 tokens (agent 1000, judge 200), cost 0.0031`. What is unknown is said."""
    total = summary.total
    if not total.calls:
        return "no model calls"
    calls = "1 model call" if total.calls == 1 else f"{total.calls} model calls"
    parts = [f"{calls}: {_tokens(summary)}", _cost(total)]
    if summary.list_prices:
        parts.append(f"by list prices of {PRICES_AS_OF}")
    if total.not_live:
        parts.append(f"{total.not_live} not live and free")
    return ", ".join(parts)


def _tokens(summary: CostSummary) -> str:
    total = summary.total
    at_least = "" if total.tokens_known else "at least "
    purposes = ", ".join(f"{purpose} {spent.tokens}" for purpose, spent in summary.by_purpose.items() if spent.tokens)
    told = f"{at_least}{total.tokens} tokens" + (f" ({purposes})" if len(summary.by_purpose) > 1 and purposes else "")
    return told + (f" ({total.uncounted} not counted by the server)" if total.uncounted else "")


def _cost(total: Spent) -> str:
    if total.cost_known:
        return f"cost {total.cost:.4f}"
    return f"cost at least {total.cost:.4f}" if total.cost else "cost unknown"
