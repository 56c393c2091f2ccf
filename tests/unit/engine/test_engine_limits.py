"""A budget lets no new trial start once it is used up, or if it cannot be enforced."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.engine.limits import SpendingLimit, Stalls
from steadyhand.errors import SetupError
from steadyhand.records.chat import Spoiled, SpoiledBy
from steadyhand.records.event import Thought
from support.model_calls import PRICES, call


def test_without_limits_it_never_ends():
    budget = SpendingLimit(PRICES)
    for event in (call(), call(None), call(model="other/model"), Thought(at_ms=0, text="hm")):
        budget.emit(event)
    assert budget.may_start()
    assert budget.spent.calls == 3


def test_tokens_run_out():
    budget = SpendingLimit(PRICES, max_tokens=2200)
    budget.emit(call())
    assert budget.may_start()
    budget.emit(call())
    assert not budget.may_start()
    assert budget.exhausted == "--max-tokens reached: 2200 of 2200 tokens"


def test_money_runs_out():
    budget = SpendingLimit(PRICES, max_cost=0.005)
    budget.emit(call())
    assert budget.exhausted is None
    budget.emit(call(purpose="judge"))
    assert budget.exhausted == "--max-cost reached: 0.0060 of 0.005"


def test_a_recording_costs_nothing():
    budget = SpendingLimit(PRICES, max_cost=0.001, max_tokens=1)
    budget.emit(call(spoiled=(Spoiled(kind=SpoiledBy.NOT_LIVE, detail="from a cassette"),)))
    assert budget.may_start()


def test_a_limit_that_cannot_be_kept_ends_the_run():
    budget = SpendingLimit(PRICES, max_tokens=1000)
    budget.emit(call(None))
    assert budget.exhausted == (
        "--max-tokens cannot be enforced: the server of some/model does not report how many tokens a call used; "
        "run without the limit"
    )
    budget = SpendingLimit(PRICES, max_cost=1.0)
    budget.emit(call(model="other/model"))
    assert budget.exhausted == (
        "--max-cost cannot be enforced: the price of other/model is unknown; run without the limit"
    )


def test_a_failed_call_without_counts_does_not_end_the_run():
    budget = SpendingLimit(PRICES, max_tokens=1000)
    budget.emit(call(None, error="refused"))
    assert budget.may_start()


def test_a_cost_limit_needs_prices_before_anything_runs():
    SpendingLimit(PRICES, max_tokens=5).check(["other/model"])
    SpendingLimit(PRICES, max_cost=5).check(["some/model", "scripted/x.yaml"])
    with pytest.raises(SetupError) as error:
        SpendingLimit(PRICES, max_cost=5).check(["some/model", "other/model"])
    assert str(error.value) == (
        "--max-cost needs the price of other/model: add it to steadyhand.toml, as in "
        '[prices."other/model"] with input and output per million tokens'
    )


PAUSES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 50)), max_size=400)
"""How long the loop ran, and how long it was then stuck."""


def noted(pauses, stalls):
    now, found = 0.0, []
    for ran, stood in pauses:
        due, now = now + ran, now + ran + stood
        stalls.note(due, now)
        found.append((due, now))
    return found


@given(PAUSES, st.integers(-10, 9000), st.integers(0, 9000))
def test_spans_are_answered_as_by_looking_at_every_stall(pauses, start, length):
    stalls = Stalls()
    end = start + length
    found = noted(pauses, stalls)
    parts = [max(0.0, min(woken, end) - max(due, start)) for due, woken in found]
    assert stalls.longest(start, end) == max(parts, default=0.0)
    assert stalls.total(start, end) == sum(parts)
    assert stalls.first_after(start) == next((due for due, woken in found if woken >= start), None)


@given(PAUSES, st.integers(0, 9000), st.integers(0, 9000))
def test_a_time_that_is_no_longer_kept_is_not_taken_for_a_responsive_loop(pauses, start, length):
    stalls = Stalls(kept=64)
    end = start + length
    found = noted(pauses, stalls)
    parts = [max(0.0, min(woken, end) - max(due, start)) for due, woken in found]
    assert len(stalls) <= 128
    assert stalls.longest(start, end) >= max(parts, default=0.0)
    assert stalls.total(start, end) in (sum(parts), math.inf)
    assert stalls.first_after(start) in (next((due for due, woken in found if woken >= start), None), -math.inf)
