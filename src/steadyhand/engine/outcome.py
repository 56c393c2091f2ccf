"""What a step left behind."""

from __future__ import annotations

from steadyhand.errors import LimitExceeded
from steadyhand.records.result import ExecutionResult
from steadyhand.records.scenario import Step


class StepResult:
    """`limit` is set when the step was cut short for taking too long: it has failed."""

    def __init__(self, step: Step, result: ExecutionResult, limit: LimitExceeded | None = None) -> None:
        self.step: Step = step
        self.result: ExecutionResult = result
        self.limit: LimitExceeded | None = limit
