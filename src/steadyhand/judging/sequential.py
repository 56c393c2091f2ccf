"""Early stopping: a test of a pass rate that can be checked after every trial, and its interval."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

from steadyhand.judging.statistics import Bounds, Tries, beta_cdf, crossing, log_beta
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import DEFAULT_ALPHA, TrialKey

_LEAST_EVIDENCE = -600.0


class Decision(enum.StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


class SequentialTest:
    """Tests whether the pass rate is at least `required`. It can be checked after every trial without losing validity.

    Two mixture likelihood-ratio martingales over independent trials, one per direction, with uniform weight on the
    rates on its side of `required`. Whatever the stopping rule, the chance of ever saying PASSED of a rate below
    `required` is at most `alpha`, and likewise of ever saying FAILED of one that reaches it (Ville's inequality).

    Outcomes must come in the planned order: by completion, slow failures would come last. None is a trial without a
    verdict; it counts as failed towards PASSED and as passed towards FAILED. A decision stays. With `required` 1 one
    failure is FAILED, and PASSED needs `ceiling` trials that all passed; otherwise the ceiling decides nothing.
    """

    def __init__(self, required: float, *, ceiling: int, alpha: float = DEFAULT_ALPHA) -> None:
        if not 0 < required <= 1:
            raise ValueError(f"expected a required rate above 0 and at most 1, got {required}")
        if not 0 < alpha < 1:
            raise ValueError(f"expected an alpha between 0 and 1, got {alpha}")
        if ceiling < 1:
            raise ValueError(f"expected a ceiling of at least one trial, got {ceiling}")
        self.required = required
        self.alpha = alpha
        self.ceiling = ceiling
        self.passed = 0
        self.failed = 0
        self.without_verdict = 0
        self.decision = Decision.UNDECIDED
        self._ask_at_failed = 0
        self._ask_at_passed = 0

    @property
    def trials(self) -> int:
        return self.passed + self.failed + self.without_verdict

    @property
    def finished(self) -> bool:
        """No further trial is wanted."""
        return self.decision is not Decision.UNDECIDED or self.trials >= self.ceiling

    @property
    def saved(self) -> int:
        """How many trials of the ceiling need not run."""
        return self.ceiling - self.trials if self.finished else 0

    def add(self, outcome: bool | None) -> Decision:
        """Take the next trial of the plan. Raises ValueError when the test has finished."""
        if self.finished:
            raise ValueError(f"the test ended after {self.trials} trials: {self.decision}")
        if outcome is None:
            self.without_verdict += 1
        elif outcome:
            self.passed += 1
        else:
            self.failed += 1
        if self.required == 1:
            if self.failed:
                self.decision = Decision.FAILED
            elif self.passed == self.ceiling:
                self.decision = Decision.PASSED
        elif self.failed >= self._ask_at_failed or self.passed >= self._ask_at_passed:
            self._ask()
        return self.decision

    def _ask(self) -> None:
        """Decide, or calculate how many more passes or failures are needed before the next check is worthwhile.

        A failure multiplies the evidence for FAILED by at most 1 / (1 - required), a pass that for PASSED by at most 1
        / required, and nothing else raises either.
        """
        passed, failed, neither, rate = self.passed, self.failed, self.without_verdict, self.required
        self.decision = decide(rate, self.alpha, passed=passed, failed=failed, without_verdict=neither)
        bar = -math.log(self.alpha)
        short = bar - max(log_evidence_below(passed + neither, failed, rate), _LEAST_EVIDENCE)
        self._ask_at_failed = failed + max(1, math.floor(short / -math.log1p(-rate)))
        short = bar - max(log_evidence_below(failed + neither, passed, 1 - rate), _LEAST_EVIDENCE)
        self._ask_at_passed = passed + max(1, math.floor(short / -math.log(rate)))


class Decisions:
    """The tests of a run's scenarios. Trials are added as they finish, and enter their test in the planned order."""

    def __init__(self, tests: Mapping[str, SequentialTest]) -> None:
        self._tests = tests
        self._waiting: dict[str, dict[int, bool | None]] = {}

    def add(self, key: TrialKey, verdict: Verdict) -> None:
        """An error or an inconclusive trial has no verdict to count. Trials past the end of a test are ignored."""
        test = self._tests.get(key.scenario_id)
        if test is None or test.finished:
            return
        waiting = self._waiting.setdefault(key.scenario_id, {})
        waiting[key.index] = outcome_of(verdict)
        while not test.finished and test.trials in waiting:
            test.add(waiting.pop(test.trials))

    def wants(self, key: TrialKey) -> bool:
        """Whether the trial may still be needed."""
        test = self._tests.get(key.scenario_id)
        return test is None or not test.finished


def outcome_of(verdict: Verdict) -> bool | None:
    return {Verdict.PASSED: True, Verdict.FAILED: False}.get(verdict)


def in_planned_order(verdicts: Mapping[int, Verdict]) -> Iterable[Verdict]:
    """From the first planned trial up to the first that has no verdict yet. What finished after a gap is left out: the
    quick ones are there first."""
    for index in range(len(verdicts)):
        if index not in verdicts:
            return
        yield verdicts[index]


def tries_in_order(verdicts: Mapping[int, Verdict]) -> Tries:
    """The trials that an interval that is valid at every stopping time may use."""
    outcomes = [outcome_of(verdict) for verdict in in_planned_order(verdicts)]
    return outcomes.count(True), len(outcomes) - outcomes.count(None)


@lru_cache(maxsize=256)
def fewest_passes(required: float, alpha: float) -> int | None:
    """How many trials, all of them passed, it takes to say PASSED; None where that is the ceiling, whatever it is."""
    if required == 1:
        return None

    def enough(trials: int) -> bool:
        return decide(required, alpha, passed=trials, failed=0) is Decision.PASSED

    most = 1
    while not enough(most):
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def decide(required: float, alpha: float, *, passed: int, failed: int, without_verdict: int = 0) -> Decision:
    """What `SequentialTest` says before its ceiling, from counts alone."""
    if required == 1:
        return Decision.FAILED if failed else Decision.UNDECIDED
    bar = -math.log(alpha)
    if log_evidence_below(passed + without_verdict, failed, required) >= bar:
        return Decision.FAILED
    # A rate of at least r is a failure rate of at most 1 - r: the same evidence with the roles swapped.
    if log_evidence_below(failed + without_verdict, passed, 1 - required) >= bar:
        return Decision.PASSED
    return Decision.UNDECIDED


def log_evidence_below(passed: int, failed: int, rate: float) -> float:
    """Log of the mixture likelihood of all pass rates below `rate` over the likelihood of `rate`, 0 < rate < 1.

    A supermartingale that starts at 0 (in logs) whenever the true rate is `rate` or more.
    """
    share = beta_cdf(rate, passed + 1, failed + 1)
    if share <= 0:
        return -math.inf
    mixture = log_beta(passed + 1, failed + 1) + math.log(share) - math.log(rate)
    return mixture - passed * math.log(rate) - failed * math.log1p(-rate)


def anytime_interval(passed: int, decided: int, confidence: float = 0.95) -> Bounds:
    """Bounds of a pass rate that hold at every stopping time at once: what to show of a test that stopped early.

    The rates that a Beta(1/2, 1/2) mixture martingale has not refuted (Robbins). After optional stopping Wilson's
    interval covers less than it says.
    """
    if not 0 <= passed <= decided:
        raise ValueError(f"expected a part of the trials, got {passed} of {decided}")
    failed = decided - passed
    mixture = log_beta(passed + 0.5, failed + 0.5) - log_beta(0.5, 0.5) + math.log(1 - confidence)

    def refuted(rate: float) -> float:
        likelihood = (passed * math.log(rate) if passed else 0.0) + (failed * math.log1p(-rate) if failed else 0.0)
        return likelihood - mixture

    tiny = 1e-12
    share = passed / decided if decided else 0.5
    low = crossing(refuted, tiny, share) if passed else 0.0
    high = 1 - crossing(lambda rate: refuted(1 - rate), tiny, 1 - share) if failed else 1.0
    return low, high
