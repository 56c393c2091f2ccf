"""`max_tokens` and `cost_below`: how much the answer took, as counted by the servers. Nothing is estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from steadyhand.builtin.evaluators.text import final_reply
from steadyhand.judging.cost import may_cost_more, price_of_call
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.base import counted
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.event import ModelCalled, Visible
from steadyhand.records.result import ExecutionResult

_MODEL_CALLS: frozenset[Visible] = frozenset({"model_calls"})
Dollars = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SpendingCheck:
    reads: ClassVar[frozenset[Visible]] = _MODEL_CALLS
    fails_for_good: ClassVar[bool] = True
    only_forbids: ClassVar[bool] = True


class MaxTokensParams(EvaluationParams):
    on_invariant: ClassVar[bool] = True

    value: int = Field(ge=1, description="The most tokens that the model may have written for the reply")


class MaxTokens(SpendingCheck):
    """Of the call that the reply comes from, with its thoughts, which servers count together."""

    type: ClassVar[str] = "max_tokens"
    params: ClassVar[type[EvaluationParams]] = MaxTokensParams

    async def evaluate(
        self, params: MaxTokensParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        expected = f"at most {counted(params.value, 'token')}"
        # The model call whose text is the reply, thoughts aside.
        last = result.calls[-1] if result.calls else None
        said = final_reply(result).strip()
        call = last if last is not None and last.error is None and said and said in (last.text or "") else None
        if call is None or call.usage is None or not call.usage.countable:
            why = "the reply is not that of a model call" if call is None else f"{call.model} did not count its tokens"
            evidence = Evidence(expected=expected, found="no count", where="model calls")
            return inconclusive(f"the tokens of the reply are not known: {why}", evidence=evidence)
        tokens = call.usage.output_tokens
        evidence = Evidence(expected=expected, found=f"{tokens}", where=f"the answer of {call.model}")
        message, figures = f"the reply took {counted(tokens, 'token')}", {"tokens": tokens}
        if tokens > params.value:
            return failed(f"{message}; expected {expected}", evidence=evidence, figures=figures, rests_on="presence")
        return passed(message, evidence=evidence, figures=figures)


class CostBelowParams(EvaluationParams):
    on_invariant: ClassVar[bool] = True

    value: Dollars = Field(description="US dollars that the agent's model calls must cost less than")


class CostBelow(SpendingCheck):
    type: ClassVar[str] = "cost_below"
    params: ClassVar[type[EvaluationParams]] = CostBelowParams

    async def evaluate(
        self, params: CostBelowParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        cost, unknown = _cost(result.calls, context)
        least = "at least " if unknown else ""
        expected, where = f"less than ${params.value:g}", f"model calls of this {context.span}"
        evidence = Evidence(expected=expected, found=f"{least}${cost:.6g}", where=where)
        message = f"{counted(len(result.calls), 'model call')} cost {least}${cost:.6g}"
        figures = {"cost": cost, "calls": len(result.calls)}
        if cost >= params.value:
            return failed(f"{message}; expected {expected}", evidence=evidence, figures=figures, rests_on="presence")
        if unknown:
            return inconclusive(f"{message}; {unknown}", evidence=evidence, figures=figures)
        return passed(message, evidence=evidence, figures=figures)


def _cost(calls: Sequence[ModelCalled], context: EvaluationContext) -> tuple[float, str | None]:
    """What is known of the cost, and why there may be more."""
    cost, unknown = 0.0, None if calls else "no model call was seen, so nothing is known of what the answer cost"
    for call in calls:
        price = context.trial.price_of(call.model)
        known = None if price is None else price_of_call(call, price)
        cost += known or 0.0
        if price is None:
            table = f'[prices."{call.model}"]'
            unknown = f"the price of {call.model} is not known; give it in steadyhand.toml under {table}"
        elif known is None and (call.error is None or call.usage is not None):
            unknown = unknown or f"{call.model} did not count its tokens"
        elif may_cost_more(call):
            unknown = unknown or f"a failed attempt of {call.model} may have been charged"
    return cost, unknown
