"""What is found out about a trial beside its checks: when its answer was safe, and how a rubric scores it."""

from __future__ import annotations

from collections.abc import Sequence

from steadyhand.engine.context import ScoreRubric, Trial
from steadyhand.engine.evaluation import Evaluation
from steadyhand.engine.outcome import StepResult
from steadyhand.engine.safety_timeline import safety_timeline
from steadyhand.judging.material import materials_of
from steadyhand.judging.rubric import NO_JUDGE, NOT_REACHED
from steadyhand.judging.trial import latency_tier
from steadyhand.records.evaluation import RubricScore
from steadyhand.records.result import Latency
from steadyhand.records.timing import SafetyTimeline


class Assessment:
    """Filled by `make`; what it has not come to stays None."""

    def __init__(self, trial: Trial, evaluation: Evaluation, steps: Sequence[StepResult]) -> None:
        self._trial: Trial = trial
        self._evaluation: Evaluation = evaluation
        self._steps: Sequence[StepResult] = steps
        self.timeline: SafetyTimeline | None = None
        rubric = trial.scenario.rubric
        self.rubric: RubricScore | None = RubricScore(name=rubric, reason=NOT_REACHED) if rubric else None

    @property
    def latency(self) -> Latency | None:
        """That of the last step which has one."""
        return next((done.result.latency for done in reversed(self._steps) if done.result.latency), None)

    async def make(self) -> None:
        trial = self._trial
        self.timeline = await safety_timeline(trial, self._steps, self._evaluation.results)
        if trial.scenario.rubric and trial.parts.score_rubric is None:
            self.rubric = RubricScore(name=trial.scenario.rubric, reason=NO_JUDGE)
        elif trial.parts.score_rubric is not None and len(self._steps) == len(trial.scenario.steps):
            self.rubric = await self._score(trial.parts.score_rubric)

    async def _score(self, score: ScoreRubric) -> RubricScore:
        """A rubric stands beside the verdict, so what goes wrong in scoring it is told there and breaks no trial."""
        trial = self._trial
        tier = latency_tier(self._evaluation.results, self.latency)
        materials = materials_of(self._steps[-1].result, trial.scenario.setup.virtual_fs)
        try:
            return await score(materials, tier, trial)
        except Exception as error:  # noqa: BLE001 - see above
            reason = f"not scored: {type(error).__name__}: {error}"
            return RubricScore(name=trial.scenario.rubric or "rubric", reason=reason)
