"""A scenario that was tried several times: how often it passed, and what that makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from holdfast.errors import ExitCode
from holdfast.judging.run import summarise
from holdfast.judging.statistics import wilson_interval
from holdfast.records.base import Record
from holdfast.records.verdict import Verdict


class ScenarioRate(Record):
    """The trials of one scenario. `required` is the share that must pass; None means every one."""

    scenario_id: str
    planned: int
    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    error: int = 0
    required: float | None = None

    @property
    def not_run(self) -> int:
        return max(self.planned - self.passed - self.failed - self.inconclusive - self.error, 0)

    @property
    def total(self) -> int:
        """What the share is of: everything planned, so that a trial that is missing or in error is not left out."""
        return max(self.planned, self.passed + self.failed + self.inconclusive + self.error)

    @property
    def verdict(self) -> Verdict:
        """Passed or failed only when no undecided trial could change it; passed only when every trial was run."""
        if not self.total:
            return Verdict.INCONCLUSIVE
        needed = 1.0 if self.required is None else self.required
        if self.passed / self.total >= needed:
            return Verdict.INCONCLUSIVE if self.not_run else Verdict.PASSED
        if (self.total - self.failed) / self.total < needed:
            return Verdict.FAILED
        return Verdict.ERROR if self.error and not self.inconclusive and not self.not_run else Verdict.INCONCLUSIVE

    @property
    def reason(self) -> str:
        """Such as `8 of 10 trials passed, 90% required; 1 failed, 1 error`."""
        others = {
            "failed": self.failed,
            "inconclusive": self.inconclusive,
            "error": self.error,
            "not run": self.not_run,
        }
        told = ", ".join(f"{count} {name}" for name, count in others.items() if count)
        trials = "1 trial" if self.total == 1 else f"{self.total} trials"
        return f"{self.passed} of {trials} passed, {percent(self.required)} required" + (f"; {told}" if told else "")

    @property
    def share(self) -> float | None:
        """Passed of those that were decided; None when none was."""
        decided = self.passed + self.failed
        return self.passed / decided if decided else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the true share lies with 95 % confidence, by Wilson's score."""
        return wilson_interval(self.passed, self.passed + self.failed)


def scenario_rates(
    counts: Mapping[tuple[str, Verdict], int],
    *,
    planned: Mapping[str, int],
    required: Mapping[str, float] | None = None,
    required_of_all: float | None = None,
) -> list[ScenarioRate]:
    """One entry per scenario, in the order of `planned`, then whatever else has a verdict.

    `counts` is how many trials of a scenario came to a verdict. `required_of_all` is what the user asked of every
    scenario; it goes before a scenario's own `required`.
    """
    by_scenario: dict[str, Counter[Verdict]] = {scenario_id: Counter() for scenario_id in planned}
    for (scenario_id, verdict), count in counts.items():
        by_scenario.setdefault(scenario_id, Counter())[verdict] += count
    own = required or {}
    return [
        ScenarioRate(
            scenario_id=scenario_id,
            planned=planned.get(scenario_id, found.total()),
            passed=found[Verdict.PASSED],
            failed=found[Verdict.FAILED],
            inconclusive=found[Verdict.INCONCLUSIVE],
            error=found[Verdict.ERROR],
            required=required_of_all if required_of_all is not None else own.get(scenario_id),
        )
        for scenario_id, found in by_scenario.items()
    ]


def rates_exit_code(rates: Iterable[ScenarioRate]) -> ExitCode:
    """As for trials, over the verdicts of scenarios."""
    return summarise(Counter(rate.verdict for rate in rates)).exit_code


def percent(required: float | None) -> str:
    """The share that must pass, as it was written: 0.995 is not shown as 100%."""
    return "all" if required is None else f"{required * 100:.6g}%"
