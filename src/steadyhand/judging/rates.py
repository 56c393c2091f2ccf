"""A scenario with several trials: its pass rate, and the resulting verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from steadyhand.errors import ExitCode
from steadyhand.judging.sequential import (
    Decision,
    Decisions,
    SequentialTest,
    anytime_interval,
    tries_in_order,
)
from steadyhand.judging.statistics import Bounds, Tries, wilson_interval
from steadyhand.judging.trial import Alarm
from steadyhand.records.base import Natural, Record, counted, doc
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunHeader, RunMatrix, TrialKey


class Tally(Record):
    """Counts by verdict. `not_run` were planned but have none."""

    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    error: int = 0
    not_run: int = 0

    @classmethod
    def of(cls, counts: Mapping[Verdict, int], *, planned: int = 0, **more: Any) -> Self:
        """`planned` is the expected number; 0 if unknown."""
        found = {verdict.value: counts.get(verdict, 0) for verdict in Verdict}
        return cls(**found, not_run=max(planned - sum(found.values()), 0), **more)

    @property
    def by_verdict(self) -> dict[Verdict, int]:
        """Every verdict is there, in the order in which they are listed everywhere."""
        return {verdict: getattr(self, verdict.value) for verdict in Verdict}

    @property
    def finished(self) -> int:
        return self.passed + self.failed + self.inconclusive + self.error

    @property
    def total(self) -> int:
        return self.finished + self.not_run

    @property
    def decided(self) -> int:
        return self.passed + self.failed

    @property
    def exit_code(self) -> ExitCode:
        """0 all passed; 1 something failed; 3 nothing failed, but something is undecided or there is nothing at all."""
        if self.failed:
            return ExitCode.FAILED
        return ExitCode.PASSED if self.passed and self.passed == self.total else ExitCode.UNDECIDED


class RunSummary(Tally):
    """The trials of a run. The alarms are among the failed; `saved` are those that `--until decided` skipped."""

    saved: int = 0
    missed_alarms: int = 0
    false_alarms: int = 0


def summarise(
    counts: Mapping[Verdict, int], *, planned: int = 0, saved: int = 0, alarms: Mapping[Alarm, int] | None = None
) -> RunSummary:
    """`planned` is the expected number of trials, without those `saved`; 0 if unknown."""
    alarms = alarms or {}
    return RunSummary.of(
        counts,
        planned=planned - saved,
        saved=saved,
        missed_alarms=alarms.get("missed", 0),
        false_alarms=alarms.get("false", 0),
    )


class UntilDecided(Record):
    """The sequential test of a scenario: its decision, the number of trials, and the trials used for the interval."""

    decision: Annotated[Decision, doc("What it decided; undecided if the trials ran out first.")]
    alpha: Annotated[float, doc("The chance of a wrong decision, in either direction.")]
    trials: Annotated[Natural, doc("Number of trials that entered it, in planned order.")]
    tries: Tries


class Overruled(Record):
    """The verdict of a scenario that its own trials alone do not decide, and what they add up to with others."""

    verdict: Verdict
    why: str


class ScenarioRate(Tally):
    """The trials of one scenario. `required` is the share that must pass; None means every one.

    The share is of everything planned: a trial that is missing or in error is not left out. If trials ran only until it
    was decided, `until` has the test, which decides instead, and `saved` are the skipped trials. `variant` decides
    instead where it is a variant that is held against its original.
    """

    scenario_id: str
    required: float | None = None
    until: UntilDecided | None = None
    saved: int = 0
    variant: Overruled | None = None

    @property
    def verdict(self) -> Verdict:
        return self.own_verdict if self.variant is None else self.variant.verdict

    @property
    def own_verdict(self) -> Verdict:
        """Passed or failed only if no undecided trial could change it; passed only if every trial was run.

        With a test, its decision. An undecided test is inconclusive, unless only errors prevented a decision.
        """
        if not self.total:
            return Verdict.INCONCLUSIVE
        if self.until is not None and self.until.decision is not Decision.UNDECIDED:
            return Verdict.PASSED if self.until.decision is Decision.PASSED else Verdict.FAILED
        if self.until is not None and self.required not in (None, 1.0):
            only_errors = self.error == self.total
            return Verdict.ERROR if only_errors else Verdict.INCONCLUSIVE
        needed = 1.0 if self.required is None else self.required
        if self.passed / self.total >= needed:
            return Verdict.INCONCLUSIVE if self.not_run else Verdict.PASSED
        if (self.total - self.failed) / self.total < needed:
            return Verdict.FAILED
        return Verdict.ERROR if self.error and not self.inconclusive and not self.not_run else Verdict.INCONCLUSIVE

    @property
    def reason(self) -> str:
        """Such as `8 of 10 trials passed, 90% required; 1 failed, 1 error`."""
        others = {**self.by_verdict, "not run": self.not_run}
        del others[Verdict.PASSED]
        rest = ", ".join(f"{count} {name}" for name, count in others.items() if count)
        trials = counted(self.total, "trial")
        reason = f"{self.passed} of {trials} passed, {percent(self.required)} required" + (f"; {rest}" if rest else "")
        reason += f"; {self._told_until()}" if self.until is not None else ""
        return f"{self.variant.why}; {reason}" if self.variant is not None else reason

    def _told_until(self) -> str:
        """Such as `decided after 44 trials at alpha 0.05, 56 of 100 saved`."""
        assert self.until is not None
        at = f"at alpha {self.until.alpha:g}"
        if self.until.decision is Decision.UNDECIDED:
            return f"undecided {at}"
        saved = f", {self.saved} of {self.total + self.saved} saved" if self.saved else ""
        return f"decided after {counted(self.until.trials, 'trial')} {at}{saved}"

    @property
    def tries(self) -> Tries:
        """The trials used for the estimate: those that passed or failed; with a test, in planned order."""
        return (self.passed, self.decided) if self.until is None else self.until.tries

    @property
    def share(self) -> float | None:
        """The share of decided trials that passed; None if none was decided."""
        passed, decided = self.tries
        return passed / decided if decided else None

    @property
    def interval(self) -> Bounds | None:
        """The 95% interval of the true share, by Wilson's score; with a test, an interval that is valid at any stopping
        time."""
        passed, decided = self.tries
        if self.until is not None and decided:
            return anytime_interval(passed, decided)
        return wilson_interval(passed, decided)


ScenarioVerdicts = Mapping[str, Mapping[int, Verdict]]
"""By scenario and number of the trial."""


def until_decided(
    header: RunHeader, planned: Mapping[str, int], verdicts: ScenarioVerdicts
) -> dict[str, UntilDecided] | None:
    """The tests of the recorded trials, in planned order; None for a run in which all trials run."""
    if header.until is None:
        return None
    tests = sequential_tests(header, planned)
    decisions = Decisions(tests)
    for scenario_id, found in verdicts.items():
        for index in sorted(found):
            decisions.add(TrialKey(scenario_id=scenario_id, index=index), found[index])
    return {
        scenario_id: UntilDecided(
            decision=test.decision,
            alpha=test.alpha,
            trials=test.trials,
            tries=tries_in_order(verdicts.get(scenario_id, {})),
        )
        for scenario_id, test in tests.items()
    }


def sequential_tests(header: RunHeader, planned: Mapping[str, int]) -> dict[str, SequentialTest]:
    """A new test for each scenario, with its planned trials as the ceiling."""
    return {
        scenario_id: SequentialTest(required_of(header, scenario_id) or 1.0, ceiling=ceiling, alpha=header.alpha)
        for scenario_id, ceiling in planned.items()
    }


def required_of(header: RunHeader, scenario_id: str) -> float | None:
    """The share of its trials that must pass; None means every one."""
    return header.pass_rate if header.pass_rate is not None else header.pass_rates.get(scenario_id)


def scenario_rates(
    counts: Mapping[tuple[str, Verdict], int],
    *,
    planned: Mapping[str, int],
    required: Mapping[str, float] | None = None,
    required_of_all: float | None = None,
    until: Mapping[str, UntilDecided] | None = None,
) -> list[ScenarioRate]:
    """One entry per scenario, in the order of `planned`, then whatever else has a verdict.

    `counts` is how many trials of a scenario came to a verdict. `required_of_all` is the user's rate for every
    scenario; it overrides a scenario's own `required`. `until` has the tests of a run that stops when it is decided.
    """
    by_scenario: dict[str, Counter[Verdict]] = {scenario_id: Counter() for scenario_id in planned}
    for (scenario_id, verdict), count in counts.items():
        by_scenario.setdefault(scenario_id, Counter())[verdict] += count
    own = required or {}
    rates: list[ScenarioRate] = []
    for scenario_id, found in by_scenario.items():
        test = until.get(scenario_id) if until is not None else None
        ceiling = planned.get(scenario_id, 0)
        spared = test is not None and test.decision is not Decision.UNDECIDED
        rate = ScenarioRate.of(
            found,
            planned=0 if spared else ceiling,
            scenario_id=scenario_id,
            required=required_of_all if required_of_all is not None else own.get(scenario_id),
            until=test,
            saved=max(ceiling - found.total(), 0) if spared else 0,
        )
        rates.append(rate)
    return rates


def percent(required: float | None) -> str:
    """The share that must pass, as it was written: 0.995 is not shown as 100%."""
    return "all" if required is None else f"{required * 100:.6g}%"


class ValueRate(Record):
    """One value of one axis: the verdicts of the combinations that have it, and those of their trials."""

    parameter: str
    value: Any
    combinations: Tally
    trials: Tally


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
    return Tally.of(Counter(rate.verdict for rate in rates))


def tally_trials(rates: Iterable[ScenarioRate]) -> Tally:
    """Of all their trials together."""
    total: Counter[str] = Counter()
    for rate in rates:
        for name in Tally.__struct_fields__:
            total[name] += getattr(rate, name)
    return Tally(**total)
