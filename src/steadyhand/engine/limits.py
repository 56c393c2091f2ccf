"""How much a run may use up: when it is gone, no new trial starts."""

from __future__ import annotations

from collections.abc import Iterable

from steadyhand.errors import SetupError
from steadyhand.judging.cost import Prices, spent_on
from steadyhand.records.cost import Spent
from steadyhand.records.event import AnyEvent, ModelCalled
from steadyhand.records.run import TrialRecord


class Budget:
    """A `ports.sink.EventSink` that is shared by the trials of a run, and asked before each starts.

    Calls that were answered from a recording or a cache do not count. An answer whose use is not known ends the run as
    well: a limit that cannot be kept must not look as if it were.
    """

    def __init__(self, prices: Prices, *, max_cost: float | None = None, max_tokens: int | None = None) -> None:
        self._prices: Prices = prices
        self._max_cost: float | None = max_cost
        self._max_tokens: int | None = max_tokens
        self._blind: str | None = None
        self.spent: Spent = Spent()

    @property
    def limited(self) -> bool:
        return self._max_cost is not None or self._max_tokens is not None

    def check(self, models: Iterable[str]) -> None:
        """Raises `SetupError` when the cost is limited and a model's price is not known."""
        if self._max_cost is None:
            return
        unknown = sorted({model for model in models if self._prices.of(model) is None})
        if unknown:
            raise SetupError(
                f"--max-cost needs the price of {', '.join(unknown)}: add it to steadyhand.toml, as in "
                f'[prices."{unknown[0]}"] with input and output per million tokens'
            )

    def carry_on(self, trials: Iterable[TrialRecord]) -> None:
        """Count what the run has spent already, before it was cut short."""
        for trial in trials:
            for event in trial.events:
                self.emit(event)
            self.carry_on((*trial.earlier, *trial.replaced))

    def emit(self, event: AnyEvent) -> None:
        if not isinstance(event, ModelCalled):
            return
        spent = spent_on(event, self._prices)
        if spent.not_live:
            return
        self.spent = self.spent.plus(spent)
        if event.error is None and event.usage is None:
            self._blind = f"the server of {event.model} does not say how many tokens a call took"
        elif spent.unpriced and self._max_cost is not None:
            self._blind = f"the price of {event.model} is not known"

    @property
    def exhausted(self) -> str | None:
        """Why no new trial may start, or None while some may."""
        cost, tokens = self._max_cost, self._max_tokens
        if cost is None and tokens is None:
            return None
        if tokens is not None and self.spent.tokens >= tokens:
            return f"--max-tokens is used up: {self.spent.tokens} of {tokens} tokens"
        if cost is not None and self.spent.cost >= cost:
            return f"--max-cost is used up: {self.spent.cost:.4f} of {cost:g}"
        if self._blind is not None:
            option = "--max-tokens" if tokens is not None else "--max-cost"
            return f"{option} cannot be kept: {self._blind}; run without the limit"
        return None

    def may_start(self) -> bool:
        return self.exhausted is None
