"""The library's decisions tried on answers written beforehand: what passes, what fails, what is not decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import yaml

from steadyhand.compose.scenarios import ScenarioRegistries, build_registry, load_scenarios
from steadyhand.engine.context import RunningTrial, TrialParts
from steadyhand.engine.evaluation import Evaluation
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.ports.agent import Judge
from steadyhand.records.chat import Message
from steadyhand.records.config import Selection
from steadyhand.records.evaluation import EvaluationResult, Verdict
from steadyhand.records.result import ExecutionResult
from steadyhand.records.run import TrialKey
from steadyhand.records.scenario import Scenario, evaluation_specs
from support.judges import ScriptedJudge

Half = Literal["tuned", "held_out", "blind", "fresh", "steps", "subtle", "mixed", "last"]
"""Of the last six, docs/library.md says when they were written."""
JudgeKind = Literal["none", "knowing", "agreeing"]
_FOLDER = Path(__file__).parent / "library_answers"


class Answer(NamedTuple):
    """`kind` is the style of a good answer, or what is wrong with a bad one."""

    scenario_id: str
    good: bool
    kind: str
    text: str

    def judge(self, kind: JudgeKind) -> Judge | None:
        """One that knows whether this answer is good, or one that agrees with everything."""
        if kind == "none":
            return None
        agrees = kind == "agreeing" or self.good
        return ScriptedJudge(lambda _: ("yes", 1.0) if agrees else ("no", 0.0))


def answers(half: Half) -> list[Answer]:
    written = yaml.safe_load((_FOLDER / f"{half}.yaml").read_text(encoding="utf-8"))
    return [
        Answer(scenario_id, side == "good", kind, text)
        for scenario_id, sides in written.items()
        for side, rows in sides.items()
        for kind, text in rows
    ]


class Library:
    """The decisions that the paths name, loaded once."""

    def __init__(self, *paths: str) -> None:
        self._registries = ScenarioRegistries(build_registry())
        loaded = load_scenarios(Selection(paths=paths or ("@clinical", "@robotic")), self._registries)
        self.scenarios: dict[str, Scenario] = {each.id: each for each in loaded if each.constraint is not None}

    async def results(self, answer: Answer, judge: JudgeKind = "none") -> list[EvaluationResult]:
        """What every check but the latency's says of an answer."""
        scenario = self.scenarios[answer.scenario_id]
        registry = self._registries.registry(scenario)
        parts = TrialParts(
            scenario=scenario,
            key=TrialKey(scenario_id=scenario.id),
            environment=registry.environment("local")(EnvironmentSettings(root=Path("unused"), trial_id="library")),
            evaluator=registry.evaluator,
            judge=answer.judge(judge),
        )
        evaluation = Evaluation(RunningTrial(parts))
        said = (Message(role="assistant", content=answer.text),)
        result = ExecutionResult(reply=answer.text, stdout=answer.text, messages=said)
        for spec in evaluation_specs(scenario):
            if spec.severity is not None:
                await evaluation.check(spec, result, stage="step", step=0)
        return evaluation.results

    async def verdict(self, answer: Answer, judge: JudgeKind = "none") -> Verdict:
        """As `all_pass` has it."""
        found = {result.verdict for result in await self.results(answer, judge)}
        worst = (Verdict.ERROR, Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.PASSED)
        return next(verdict for verdict in worst if verdict in found)


class Confusion(NamedTuple):
    """How often each (good, kind) got each verdict."""

    counts: Counter[tuple[bool, str, Verdict]]

    @classmethod
    async def of(cls, library: Library, tried: Iterable[Answer], judge: JudgeKind) -> Confusion:
        return cls(Counter([(each.good, each.kind, await library.verdict(each, judge)) for each in tried]))

    def number(self, good: bool, *verdicts: Verdict, kind: str | None = None) -> int:
        return sum(
            count
            for (is_good, its_kind, verdict), count in self.counts.items()
            if is_good is good and (not verdicts or verdict in verdicts) and kind in (None, its_kind)
        )

    def kinds(self, good: bool) -> list[str]:
        return list(dict.fromkeys(kind for is_good, kind, _ in self.counts if is_good is good))
