"""Finished model calls for the tests of cost and budgets."""

from steadyhand.judging.cost import Prices
from steadyhand.records.chat import Attempt, CallTiming, Usage
from steadyhand.records.config import Price
from steadyhand.records.event import ModelCalled

PRICES = Prices({"some/model": Price(input=2.0, output=10.0)}, free=["scripted"])
GOOD = Attempt(started_ms=0, sent_ms=1, last_byte_ms=5, status=200)


def call(usage=(1000, 100), *, model="some/model", purpose="agent", attempts=(GOOD,), error=None, spoiled=()):
    return ModelCalled(
        at_ms=0,
        model=model,
        purpose=purpose,
        timing=CallTiming(attempts=attempts, spoiled=spoiled),
        usage=Usage(input_tokens=usage[0], output_tokens=usage[1]) if usage else None,
        error=error,
    )
