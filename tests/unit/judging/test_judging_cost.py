"""Tokens and cost are counted, and what is unknown stays unknown."""

import msgspec
import pytest

from steadyhand.judging.cost import LIST_PRICES, CostSummary, Prices, cost_of, cost_of_trial, spent_on
from steadyhand.records.chat import Attempt, Spoiled, SpoiledBy
from steadyhand.records.config import Price
from steadyhand.records.event import Thought
from steadyhand.records.run import Spent
from support.model_calls import GOOD, PRICES, call
from support.sample_trials import typical


def test_cost_by_purpose_and_model_and_in_all():
    events = [call(), Thought(at_ms=0, text="hm"), call(purpose="judge"), call((10, 0), model="scripted/a.yaml")]
    found = cost_of(events, PRICES)
    one = Spent(calls=1, input_tokens=1000, output_tokens=100, cost=0.003)
    free = Spent(calls=1, input_tokens=10)
    assert found == CostSummary(
        total=Spent(calls=3, input_tokens=2010, output_tokens=200, cost=0.006),
        by_purpose={"agent": one.plus(free), "judge": one},
        by_model={"some/model": one.plus(one), "scripted/a.yaml": free},
    )
    assert found.complete


def test_an_answer_without_counts_is_unknown_and_not_zero():
    found = cost_of([call(None), call()], PRICES)
    assert (found.total.uncounted, found.total.tokens, found.complete) == (1, 1100, False)


def test_an_unknown_price_leaves_the_cost_open_and_the_tokens_counted():
    found = cost_of([call(model="other/model"), call()], PRICES)
    assert (found.total.unpriced, found.total.tokens, found.total.cost) == (1, 2200, 0.003)
    assert (found.total.tokens_known, found.complete) == (True, False)


@pytest.mark.parametrize(
    ("attempt", "uncounted"),
    [
        (Attempt(started_ms=0, error="no connection"), 0),
        (Attempt(started_ms=0, sent_ms=1, status=429, error="rate"), 0),
        (Attempt(started_ms=0, sent_ms=1, status=500, error="down"), 0),
        (Attempt(started_ms=0, sent_ms=1, error="no answer in time"), 1),
        (Attempt(started_ms=0, sent_ms=1, status=200, error="cut short"), 1),
    ],
)
def test_a_failed_attempt_counts_only_when_the_server_may_have_worked_on_it(attempt, uncounted):
    assert spent_on(call(None, attempts=(attempt,), error="gone"), PRICES).uncounted == uncounted
    assert spent_on(call(attempts=(attempt, GOOD)), PRICES).uncounted == uncounted


@pytest.mark.parametrize("source", ["cached", "replayed"])
def test_what_was_not_live_costs_nothing(source):
    spent = spent_on(call(spoiled=(Spoiled(kind=SpoiledBy.NOT_LIVE, detail=source),), model="other/model"), PRICES)
    assert spent == Spent(calls=1, input_tokens=1000, output_tokens=100, not_live=1)


def test_repeated_measurements_were_paid_for_too():
    trial = msgspec.structs.replace(typical(1), events=(call(),))
    measured = msgspec.structs.replace(trial, earlier=(trial, trial))
    spent = cost_of_trial(measured, PRICES).total
    assert (spent.calls, spent.cost) == (3, pytest.approx(0.009))


def test_prices_are_the_users_own_first_then_the_tables_then_unknown():
    prices = Prices({"openai/gpt-4o": Price(input=1.0, output=2.0)})
    assert prices.of("openai/gpt-4o") == Price(input=1.0, output=2.0)
    assert prices.of("openai/gpt-4o-2024-08-06") == Price(input=1.0, output=2.0)
    assert not prices.from_table("openai/gpt-4o")
    assert prices.of("openai/gpt-4o-mini") == LIST_PRICES["openai/gpt-4o-mini"]
    assert prices.of("anthropic/claude-sonnet-4-5-20250929") == LIST_PRICES["anthropic/claude-sonnet-4-5"]
    assert prices.from_table("anthropic/claude-sonnet-4-5-20250929")
    assert prices.of("openai/gpt-4o-audio-preview") is None
    assert prices.of("nobody/x") is None


def test_a_version_with_a_price_of_its_own_keeps_it():
    assert Prices().of("openai/gpt-4o-2024-05-13") == Price(input=5.0, output=15.0)


def test_the_table_is_not_used_behind_another_base_url():
    assert Prices(elsewhere=["openai"]).of("openai/gpt-4o") is None
    assert not Prices(elsewhere=["openai"]).from_table("openai/gpt-4o")
    assert cost_of([call(model="openai/gpt-4o")], Prices()).list_prices
