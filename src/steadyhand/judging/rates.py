"""What the trials of a run add up to: verdict counts, pass rates by scenario and matrix value, and the exit code."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from steadyhand.errors import ExitCode
from steadyhand.judging.severity import Alarm
from steadyhand.records.base import Record
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunMatrix

_Z95 = 1.959963984540054


class Tally(Record):
    """How many came to each verdict. `not_run` is what was planned and has none; a combination always has one."""

    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    error: int = 0
    not_run: int = 0

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.inconclusive + self.error + self.not_run


class RunSummary(Tally):
    """The trials of a run. The alarms, of `judging.severity.alarm_of`, are among the failed."""

    missed_alarms: int = 0
    false_alarms: int = 0

    @property
    def total(self) -> int:
        """The trials that ran."""
        return super().total - self.not_run

    @property
    def exit_code(self) -> ExitCode:
        """0 all passed; 1 something failed; 3 nothing failed, but something is undecided or there are no trials."""
        if self.failed:
            return ExitCode.FAILED
        if self.inconclusive or self.error or self.not_run or not self.passed:
            return ExitCode.UNDECIDED
        return ExitCode.PASSED


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
        """Everything planned, so that a missing or broken trial counts against the share."""
        return max(self.planned, self.passed + self.failed + self.inconclusive + self.error)

    @property
    def verdict(self) -> Verdict:
        """Passed or failed only if no undecided trial could change that; passed only if every trial ran."""
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
        rest = ", ".join(f"{count} {name}" for name, count in others.items() if count)
        trials = "1 trial" if self.total == 1 else f"{self.total} trials"
        return f"{self.passed} of {trials} passed, {percent(self.required)} required" + (f"; {rest}" if rest else "")

    @property
    def share(self) -> float | None:
        """The share of decided trials that passed; None when none was decided."""
        decided = self.passed + self.failed
        return self.passed / decided if decided else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the share, by Wilson's score."""
        return wilson_interval(self.passed, self.passed + self.failed)


class ValueRate(Record):
    """One value of one axis: the verdicts of the combinations that have it, and those of their trials."""

    parameter: str
    value: Any
    combinations: Tally
    trials: Tally


def summarise(
    counts: Mapping[Verdict, int], *, planned: int = 0, alarms: Mapping[Alarm, int] | None = None
) -> RunSummary:
    """`planned` is how many trials there should be; 0 if unknown."""
    alarms = alarms or {}
    return RunSummary(
        passed=counts.get(Verdict.PASSED, 0),
        failed=counts.get(Verdict.FAILED, 0),
        inconclusive=counts.get(Verdict.INCONCLUSIVE, 0),
        error=counts.get(Verdict.ERROR, 0),
        not_run=max(planned - sum(counts.values()), 0),
        missed_alarms=alarms.get("missed", 0),
        false_alarms=alarms.get("false", 0),
    )


def scenario_rates(
    counts: Mapping[tuple[str, Verdict], int],
    *,
    planned: Mapping[str, int],
    required: Mapping[str, float] | None = None,
    required_of_all: float | None = None,
) -> list[ScenarioRate]:
    """One entry per scenario, in the order of `planned`, then whatever else has a verdict.

    `counts` is how many trials of a scenario came to each verdict. `required_of_all` applies to every scenario and
    overrides its own `required`.
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
    """The exit code over the verdicts of scenarios."""
    return summarise(Counter(rate.verdict for rate in rates)).exit_code


def value_rates(matrix: RunMatrix, rates: Mapping[str, ScenarioRate]) -> list[ValueRate]:
    """Axis by axis, value by value, in the order of the file."""
    having: dict[tuple[int, int], list[ScenarioRate]] = {}
    for scenario_id, numbers in matrix.combinations.items():
        for at, number in enumerate(numbers):
            having.setdefault((at, number), []).append(rates[scenario_id])
    return [
        ValueRate(
            parameter=axis.parameter,
            value=value,
            combinations=tally_scenarios(having[at, number]),
            trials=tally_trials(having[at, number]),
        )
        for at, axis in enumerate(matrix.axes)
        for number, value in enumerate(axis.values)
    ]


def tally_scenarios(rates: Iterable[ScenarioRate]) -> Tally:
    counts = Counter(rate.verdict for rate in rates)
    return Tally(**{verdict.value: counts[verdict] for verdict in Verdict})


def tally_trials(rates: Iterable[ScenarioRate]) -> Tally:
    """Of all their trials together."""
    total: Counter[str] = Counter()
    for rate in rates:
        for name in Tally.__struct_fields__:
            total[name] += getattr(rate, name)
    return Tally(**total)


def percent(required: float | None) -> str:
    """The share that must pass, as it was written: 0.995 is not shown as 100%."""
    return "all" if required is None else f"{required * 100:.6g}%"


def wilson_interval(passed: int, decided: int, z: float = _Z95) -> tuple[float, float] | None:
    """The confidence interval of `passed` out of `decided`, valid also at 0 and 1; None when `decided` is 0."""
    if decided <= 0:
        return None
    share = passed / decided
    scale = 1 + z * z / decided
    centre = (share + z * z / (2 * decided)) / scale
    reach = z * math.sqrt(share * (1 - share) / decided + z * z / (4 * decided * decided)) / scale
    return max(0.0, centre - reach), min(1.0, centre + reach)


def pass_hat_k(passed: int, decided: int, k: int) -> float | None:
    """pass^k: the unbiased estimate of the chance that `k` trials all pass; None when `decided` is below `k`."""
    if k < 1 or decided < k:
        return None
    return math.comb(passed, k) / math.comb(decided, k)
