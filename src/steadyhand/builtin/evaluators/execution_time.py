"""`execution_time`: how long the agent took."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from pydantic import model_validator

from steadyhand.builtin.evaluators.parameters import Milliseconds
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.result import ExecutionResult
from steadyhand.records.timing import Spoiled, SpoiledBy


class ExecutionTimeParams(EvaluationParams):
    max_duration_ms: Milliseconds | None = None
    min_duration_ms: Milliseconds | None = None
    target_duration_ms: Milliseconds | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        low, high = self.min_duration_ms, self.max_duration_ms
        if not low and high is None:
            target = "; target_duration_ms is reported and never fails" if self.target_duration_ms is not None else ""
            raise ValueError(f"needs at least one of max_duration_ms and a min_duration_ms above 0{target}")
        if low is not None and high is not None and low > high:
            raise ValueError(f"min_duration_ms ({low:g}) is above max_duration_ms ({high:g})")
        return self


class ExecutionTime:
    type: ClassVar[str] = "execution_time"
    params: ClassVar[type[EvaluationParams]] = ExecutionTimeParams

    async def evaluate(
        self, params: ExecutionTimeParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """Bounds are inclusive. The target is reported and never fails."""
        took = result.duration_ms
        if not math.isfinite(took):
            return inconclusive("the agent's time was not measured")
        not_live = [str(each) for each in _spoiled(result) if each.kind is SpoiledBy.NOT_LIVE]
        if not_live:
            return inconclusive(f"the agent's time says nothing about a live run: {'; '.join(not_live)}")
        figures: dict[str, Any] = {"duration_ms": took}
        note = ""
        if params.target_duration_ms is not None:
            within = took <= params.target_duration_ms
            figures |= {"target_duration_ms": params.target_duration_ms, "within_target": within}
            note = f" (target {params.target_duration_ms:g} ms {'met' if within else 'missed'})"
        low, high = params.min_duration_ms, params.max_duration_ms
        evidence = Evidence(expected=_expected(low, high), found=f"{took:.1f} ms", where="the agent's own time")
        broken = _broken(took, low, high)
        if broken is not None:
            return failed(f"took {took:.1f} ms, {broken}{note}", evidence=evidence, figures=figures)
        return passed(f"took {took:.1f} ms{note}", evidence=evidence, figures=figures)


def _broken(took: float, low: float | None, high: float | None) -> str | None:
    if high is not None and took > high:
        return f"above the maximum of {high:g} ms"
    if low is not None and took < low:
        return f"below the minimum of {low:g} ms"
    return None


def _spoiled(result: ExecutionResult) -> tuple[Spoiled, ...]:
    return () if result.latency is None else result.latency.spoiled


def _expected(low: float | None, high: float | None) -> str:
    bounds = [f"at least {low:g} ms"] if low is not None else []
    bounds += [f"at most {high:g} ms"] if high is not None else []
    return " and ".join(bounds)
