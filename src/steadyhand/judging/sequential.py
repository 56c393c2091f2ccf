"""Stopping when it is known: a test of a pass rate that may be asked after every trial, and its interval."""

from __future__ import annotations

import enum
import math

from steadyhand.judging.statistics import Bounds, beta_cdf, crossing, log_beta


class Decision(enum.StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


class SequentialTest:
    """Is the pass rate at least `required`? May be asked after every trial: peeking does not cost validity.

    Two mixture likelihood-ratio martingales over independent trials, one per direction, with uniform weight on the
    rates on its side of `required`. Whatever the stopping rule, the chance of ever saying PASSED of a rate below
    `required` is at most `alpha`, and likewise of ever saying FAILED of one that reaches it (Ville's inequality).

    Outcomes must come in the planned order: by completion, slow failures would come last. None is a trial without a
    verdict; it counts as failed towards PASSED and as passed towards FAILED. A decision stays. With `required` 1 one
    failure is FAILED, and PASSED needs `ceiling` trials that all passed; otherwise the ceiling decides nothing.
    """

    def __init__(self, required: float, *, ceiling: int, alpha: float = 0.05) -> None:
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
        if self.required == 1 and self.passed == self.ceiling:
            self.decision = Decision.PASSED
        else:
            self.decision = decide(
                self.required,
                self.alpha,
                passed=self.passed,
                failed=self.failed,
                without_verdict=self.without_verdict,
            )
        return self.decision


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
