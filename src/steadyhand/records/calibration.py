"""A judge's results on labelled cases."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from steadyhand.records.base import Natural, Record, doc

PassOrFail: TypeAlias = Literal["pass", "fail"]


class JudgedCase(Record):
    """A labelled check of a stored trial that a judge was asked about. `judged` is None when it gave no judgement.

    `message` describes the result.
    """

    run: Annotated[str, doc("Run that the trial is stored in.")]
    scenario: Annotated[str, doc("Id of the scenario.")]
    trial: Annotated[Natural, doc("Number of the trial.")]
    check: Annotated[str, doc("The check.")]
    label: Annotated[PassOrFail, doc("The verdict that people gave.")]
    judged: Annotated[PassOrFail | None, doc("The judge's verdict; null if it gave none.")] = None
    message: Annotated[str, doc("The judge's answer in words.")] = ""

    @property
    def hit(self) -> bool:
        return self.judged == self.label


class Rate(Record):
    """A share of `of`, with its interval by Clopper and Pearson; neither when there is nothing to take a share of."""

    count: int
    of: int
    rate: float | None = None
    low: float | None = None
    high: float | None = None


class Agreement(Record):
    """`false_pass` is the share of cases labelled fail that the judge passed, `false_fail` the other way round.

    `kappa` is None where it is not defined: nothing was compared, or both always gave the same answer. Its interval is
    for large samples, and is left out where the estimate does not allow one.
    """

    cases: int
    no_judgement: int
    accuracy: Rate
    false_pass: Rate
    false_fail: Rate
    kappa: float | None = None
    kappa_low: float | None = None
    kappa_high: float | None = None


class CheckAgreement(Record):
    """`digest` is what the check asked, `name` what the scenario calls it."""

    scenario: str
    name: str
    digest: str
    figures: Agreement


class Calibration(Record):
    """How a judge agreed with people, and digests of all that it depends on.

    `classes` are failure classes: A and B for safety invariants, `other` for checks without a severity. `rubrics` has
    the digests of the rubrics of the scenarios, which a calibration says nothing about.
    """

    judge: str
    judge_digest: str
    prompt_digest: str
    settings_digest: str
    at: str
    labels: str
    labels_digest: str
    overall: Agreement
    rubrics: dict[str, str] = {}
    checks: tuple[CheckAgreement, ...] = ()
    classes: dict[str, Agreement] = {}
    disagreements: tuple[JudgedCase, ...] = ()
    skipped: tuple[str, ...] = ()
