"""What a trial or a run used up: tokens as the servers counted them, and money where prices are known."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from steadyhand.records.base import Record
from steadyhand.records.chat import Purpose

K = TypeVar("K")


class Spent(Record):
    """Sums over model calls. Nothing in them is estimated, so they are lower bounds where something is unknown.

    `uncounted` are attempts that may have been charged for though no server said how many tokens they took; `unpriced`
    are calls with counted tokens and no known price. `not_live` calls were answered from a recording or a cache: their
    tokens are counted, and they cost nothing.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    uncounted: int = 0
    unpriced: int = 0
    not_live: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def tokens_known(self) -> bool:
        return not self.uncounted

    @property
    def cost_known(self) -> bool:
        """Whether `cost` is all of it."""
        return not self.uncounted and not self.unpriced

    def plus(self, other: Spent) -> Spent:
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class CostSummary(Record):
    """What was spent, in all, for each purpose and on each model.

    `list_prices` tells that some of the cost was computed with the built-in table, which is as old as its date.
    """

    total: Spent = Spent()
    by_purpose: dict[Purpose, Spent] = {}
    by_model: dict[str, Spent] = {}
    list_prices: bool = False

    @property
    def complete(self) -> bool:
        """Whether every token was counted and every call has a price."""
        return self.total.cost_known

    def plus(self, other: CostSummary) -> CostSummary:
        return msgspec.structs.replace(
            self,
            total=self.total.plus(other.total),
            by_purpose=_merged(self.by_purpose, other.by_purpose),
            by_model=_merged(self.by_model, other.by_model),
            list_prices=self.list_prices or other.list_prices,
        )


def _merged(one: dict[K, Spent], other: dict[K, Spent]) -> dict[K, Spent]:
    return {**one, **{key: one.get(key, Spent()).plus(spent) for key, spent in other.items()}}
