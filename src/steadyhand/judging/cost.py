"""Tokens and cost, counted from the model calls of a trial. Nothing is estimated."""

from __future__ import annotations

from collections.abc import Iterable

from steadyhand.records.cost import CostSummary, Spent
from steadyhand.records.event import AnyEvent, ModelCalled
from steadyhand.records.price import Prices
from steadyhand.records.run import TrialRecord
from steadyhand.records.timing import Attempt, SpoiledBy

_MILLION = 1_000_000


def spent_on(call: ModelCalled, prices: Prices) -> Spent:
    """What one finished call, successful or not, used up."""
    not_live = any(each.kind is SpoiledBy.NOT_LIVE for each in call.timing.spoiled)
    uncounted = 0 if not_live else sum(1 for attempt in call.timing.attempts if _may_be_charged(attempt))
    usage = call.usage
    if usage is None:
        answered = call.error is None
        return Spent(calls=1, uncounted=uncounted + int(answered), not_live=int(not_live))
    price = prices.of(call.model)
    cost = 0.0
    if price is not None and not not_live:
        cost = (usage.input_tokens * price.input + usage.output_tokens * price.output) / _MILLION
    return Spent(
        calls=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=cost,
        uncounted=uncounted,
        unpriced=int(price is None and not not_live),
        not_live=int(not_live),
    )


def cost_of(events: Iterable[AnyEvent], prices: Prices) -> CostSummary:
    """The sum over the model calls among `events`."""
    summary = CostSummary()
    for event in events:
        if isinstance(event, ModelCalled):
            spent = spent_on(event, prices)
            summary = summary.plus(
                CostSummary(
                    total=spent,
                    by_purpose={event.purpose: spent},
                    by_model={event.model: spent},
                    list_prices=spent.cost > 0 and prices.from_table(event.model),
                )
            )
    return summary


def cost_of_trial(trial: TrialRecord, prices: Prices) -> CostSummary:
    """What the trial used up, with the measurements that were repeated and what a resume replaced: they were paid for
    too."""
    summary = cost_of(trial.events, prices)
    for earlier in (*trial.earlier, *trial.replaced):
        summary = summary.plus(cost_of_trial(earlier, prices))
    return summary


def cost_of_run(trials: Iterable[TrialRecord], prices: Prices) -> CostSummary:
    summary = CostSummary()
    for trial in trials:
        summary = summary.plus(cost_of_trial(trial, prices))
    return summary


def _may_be_charged(attempt: Attempt) -> bool:
    """Whether a failed attempt got so far that a server may have worked on it. A refusal is free."""
    return attempt.error is not None and attempt.sent_ms is not None and attempt.status in (None, 200)
