"""Prices, and the tokens and cost counted from model calls. Nothing is estimated."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from steadyhand.records.base import Record
from steadyhand.records.chat import Purpose, SpoiledBy
from steadyhand.records.config import Price
from steadyhand.records.event import AnyEvent, ModelCalled
from steadyhand.records.run import RunHeader, Spent, TrialRecord, sum_of

PRICES_AS_OF = "2026-03"
# In US dollars per million tokens, without discounts for cached input, batches or volume.
LIST_PRICES: Mapping[str, Price] = {
    "anthropic/claude-3-haiku": Price(input=0.25, output=1.25),
    "anthropic/claude-3-5-haiku": Price(input=0.8, output=4.0),
    "anthropic/claude-haiku-4-5": Price(input=1.0, output=5.0),
    "anthropic/claude-sonnet-4": Price(input=3.0, output=15.0),
    "anthropic/claude-sonnet-4-5": Price(input=3.0, output=15.0),
    "anthropic/claude-sonnet-4-6": Price(input=3.0, output=15.0),
    "anthropic/claude-opus-4-1": Price(input=15.0, output=75.0),
    "anthropic/claude-opus-4-5": Price(input=5.0, output=25.0),
    "anthropic/claude-opus-4-6": Price(input=5.0, output=25.0),
    "openai/gpt-4.1": Price(input=2.0, output=8.0),
    "openai/gpt-4.1-mini": Price(input=0.4, output=1.6),
    "openai/gpt-4.1-nano": Price(input=0.1, output=0.4),
    "openai/gpt-4o": Price(input=2.5, output=10.0),
    "openai/gpt-4o-2024-05-13": Price(input=5.0, output=15.0),
    "openai/gpt-4o-mini": Price(input=0.15, output=0.6),
    "openai/gpt-5": Price(input=1.25, output=10.0),
    "openai/gpt-5-mini": Price(input=0.25, output=2.0),
    "openai/gpt-5-nano": Price(input=0.05, output=0.4),
    "openai/o3": Price(input=2.0, output=8.0),
    "openai/o4-mini": Price(input=1.1, output=4.4),
    "openai/text-embedding-3-large": Price(input=0.13, output=0.0),
    "openai/text-embedding-3-small": Price(input=0.02, output=0.0),
}
_MILLION = 1_000_000
_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)\Z")
_FREE = Price(input=0.0, output=0.0)
K = TypeVar("K")


class CostSummary(Record):
    """What was spent in total, by purpose and by model.

    `list_prices` means that part of the cost was computed with the built-in table, which may be out of date.
    """

    total: Spent = Spent()
    by_purpose: dict[Purpose, Spent] = {}
    by_model: dict[str, Spent] = {}
    list_prices: bool = False

    @property
    def complete(self) -> bool:
        """Whether every token was counted and every call has a price."""
        return self.total.cost_known

    @property
    def _is_single(self) -> bool:
        """Whether all that was spent was spent for one purpose and on one model."""
        return (
            len(self.by_purpose) == len(self.by_model) == 1
            and self.total is next(iter(self.by_purpose.values()))
            and self.total is next(iter(self.by_model.values()))
        )

    def plus(self, other: CostSummary) -> CostSummary:
        total = self.total.plus(other.total)
        # In most runs there is one purpose and one model, so that all sums are one: a third of the additions (3 us).
        if self._is_single and other._is_single and _same_keys(self, other):
            return CostSummary(
                total=total,
                by_purpose=dict.fromkeys(self.by_purpose, total),
                by_model=dict.fromkeys(self.by_model, total),
                list_prices=self.list_prices or other.list_prices,
            )
        return CostSummary(
            total=total,
            by_purpose=_merged(self.by_purpose, other.by_purpose),
            by_model=_merged(self.by_model, other.by_model),
            list_prices=self.list_prices or other.list_prices,
        )


def _same_keys(one: CostSummary, other: CostSummary) -> bool:
    return one.by_purpose.keys() == other.by_purpose.keys() and one.by_model.keys() == other.by_model.keys()


def _merged(one: dict[K, Spent], other: dict[K, Spent]) -> dict[K, Spent]:
    merged = dict(one)
    for key, spent in other.items():
        known = merged.get(key)
        merged[key] = spent if known is None else known.plus(spent)
    return merged


class Prices:
    """Finds a model's price, if it is known.

    `configured` comes first. The list prices do not apply to providers in `elsewhere`: behind another base URL the same
    name may be a different model at a different price. Calls to those in `free` cost nothing.
    """

    def __init__(
        self,
        configured: Mapping[str, Price] | None = None,
        *,
        elsewhere: Collection[str] = (),
        free: Collection[str] = (),
    ) -> None:
        self._configured: Mapping[str, Price] = configured or {}
        self._elsewhere: frozenset[str] = frozenset(elsewhere)
        self._free: frozenset[str] = frozenset(free)
        self._found: dict[str, Price | None] = {}

    @classmethod
    def of_run(cls, header: RunHeader) -> Prices:
        """The prices that applied when the run was made."""
        return cls(header.prices, elsewhere=header.own_servers, free=header.free_providers)

    def of(self, model: str) -> Price | None:
        """The price of `provider/model`, with or without the date of its version."""
        if model not in self._found:
            found = _look_up(self._configured, model)
            if found is None and self.from_table(model):
                found = _look_up(LIST_PRICES, model)
            elif found is None and _provider(model) in self._free:
                found = _FREE
            self._found[model] = found
        return self._found[model]

    def from_table(self, model: str) -> bool:
        """Whether the price is a list price, as of `PRICES_AS_OF`."""
        if _provider(model) in self._elsewhere or _look_up(self._configured, model) is not None:
            return False
        return _look_up(LIST_PRICES, model) is not None


def _look_up(table: Mapping[str, Price], model: str) -> Price | None:
    return table.get(model) or table.get(_DATED.sub("", model))


def _provider(model: str) -> str:
    return model.partition("/")[0]


def spent_on(call: ModelCalled, prices: Prices) -> Spent:
    """What one finished call used, successful or not."""
    not_live = any(each.kind is SpoiledBy.NOT_LIVE for each in call.timing.spoiled)
    uncounted = 0 if not_live else may_cost_more(call)
    usage = call.usage
    if usage is None or not usage.countable:
        answered = call.error is None
        return Spent(calls=1, uncounted=uncounted + int(answered), not_live=int(not_live))
    price = prices.of(call.model)
    cost = 0.0 if price is None or not_live else price_of_call(call, price) or 0.0
    return Spent(
        calls=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=cost,
        uncounted=uncounted,
        unpriced=int(price is None and not not_live),
        not_live=int(not_live),
    )


def price_of_call(call: ModelCalled, price: Price) -> float | None:
    """What its tokens cost, or would have cost if the answer had not come from a recording; None without a count."""
    usage = call.usage
    if usage is None or not usage.countable:
        return None
    return (usage.input_tokens * price.input + usage.output_tokens * price.output) / _MILLION


def may_cost_more(call: ModelCalled) -> int:
    """The number of its failed attempts that got far enough for the server to charge for them. A refusal is free."""
    failed = [attempt for attempt in call.timing.attempts if attempt.error is not None]
    return sum(attempt.sent_ms is not None and attempt.status in (None, 200) for attempt in failed)


def cost_of(events: Iterable[AnyEvent], prices: Prices) -> CostSummary:
    """The sum over the model calls among `events`."""
    calls = [event for event in events if type(event) is ModelCalled]
    if not calls:
        return CostSummary()
    if len(calls) == 1:  # as in most decisions; takes half as long as what follows
        (call,) = calls
        spent = spent_on(call, prices)
        listed = spent.cost > 0 and prices.from_table(call.model)
        return CostSummary(
            total=spent, by_purpose={call.purpose: spent}, by_model={call.model: spent}, list_prices=listed
        )
    found: list[Spent] = []
    by_purpose: dict[Purpose, list[Spent]] = {}
    by_model: dict[str, list[Spent]] = {}
    for call in calls:
        spent = spent_on(call, prices)
        found.append(spent)
        by_purpose.setdefault(call.purpose, []).append(spent)
        by_model.setdefault(call.model, []).append(spent)
    paid = [model for model, spent in by_model.items() if any(each.cost > 0 for each in spent)]
    return CostSummary(
        total=sum_of(found),
        by_purpose={purpose: sum_of(each) for purpose, each in by_purpose.items()},
        by_model={model: sum_of(each) for model, each in by_model.items()},
        list_prices=any(map(prices.from_table, paid)),
    )


def cost_of_trial(trial: TrialRecord, prices: Prices) -> CostSummary:
    """The cost of a trial, including repeated measurements and what a resume replaced: they were paid for, too."""
    summary = cost_of(trial.paid, prices)
    for earlier in (*trial.earlier, *trial.replaced):
        summary = summary.plus(cost_of_trial(earlier, prices))
    return summary
