"""A check on what an agent said and did."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from holdfast.ports.agent import TrialContext
from holdfast.ports.environment import EnvironmentProvider
from holdfast.records.evaluation import EvaluationResult, EvaluationSpec
from holdfast.records.execution import ExecutionResult
from holdfast.records.scenario import Scenario


class EvaluationParams(BaseModel):
    """Base of an evaluator's parameters as they stand in the file: strict, and unknown keys are errors.

    `type`, `description` and `weight` are taken off before; a subclass declares its own fields only.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class EvaluationContext:
    """What a check may look at beside the result it judges."""

    def __init__(self, *, trial: TrialContext, spec: EvaluationSpec) -> None:
        self.trial: TrialContext = trial
        self.spec: EvaluationSpec = spec

    @property
    def scenario(self) -> Scenario:
        return self.trial.scenario

    @property
    def environment(self) -> EnvironmentProvider:
        return self.trial.environment


class Evaluator(Protocol):
    """One kind of check, named by `type` in the file. Stateless: one instance serves every trial."""

    type: ClassVar[str]
    params: ClassVar[type[EvaluationParams]]

    async def evaluate(self, params: Any, result: ExecutionResult, context: EvaluationContext) -> EvaluationResult:
        """Check `result`. `params` is an instance of `self.params`.

        Answer with `passed`, `failed` or `inconclusive`. An exception makes the evaluation an *error*, never a
        failure of the agent.
        """
        ...
