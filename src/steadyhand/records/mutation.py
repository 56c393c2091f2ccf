"""What a suite's checks noticed of answers that were made bad on purpose. This record is the JSON report."""

from __future__ import annotations

from typing import Literal

from steadyhand.records.base import Record

MutantStatus = Literal["failed", "inconclusive", "survived", "needs_judge", "not_applicable", "equivalent"]
KILLED: frozenset[MutantStatus] = frozenset({"failed", "inconclusive"})


class MutantResult(Record):
    """A mutant and what became of it. It is not applicable if nothing noticed it, but the trial also had checks on what
    a record does not have, such as files. `killed_by` are the checks that noticed: that held on the original and no
    longer hold, or could not tell there and fail now.

    `original` is the answer it was made from, and `origin` where that comes from. `hash` identifies the text in
    `mutants.yaml`. `severity` is the highest of the checks that held on the original.
    """

    operator: str
    text: str
    killed_by: tuple[str, ...]
    status: MutantStatus
    hash: str
    origin: str
    original: str
    severity: float | None = None
    reason: str | None = None
    """Why a person marked it as equivalent."""


class CheckTally(Record):
    """What one check noticed. It is not applicable to a mutant if it did not hold on the original."""

    name: str
    killed: int
    survived: int
    not_applicable: int
    severity: float | None = None


class ScenarioMutants(Record):
    """The mutants of one scenario; `originals` is the number of answers they were made from."""

    id: str
    originals: int
    killed: int
    survived: int
    equivalent: int
    needs_judge: int
    not_applicable: int
    checks: tuple[CheckTally, ...]
    mutants: tuple[MutantResult, ...]

    @property
    def share(self) -> float | None:
        counted = self.killed + self.survived
        return self.killed / counted if counted else None


class MutationReport(Record):
    """`killed` is the share of the mutants that count: neither equivalent nor left to a judge or to the
    trial's own files. None without any."""

    killed: float | None
    scenarios: tuple[ScenarioMutants, ...]
    unused: tuple[str, ...]
    """Entries of `mutants.yaml` that no mutant has."""
    unsigned: tuple[str, ...] = ()
    """The scenarios of answers in `mutants.yaml` that nobody signed, and that were not tried."""

    def enough(self, least: float) -> bool:
        """Whether at least this share was killed, and every scenario had an answer to make mutants of."""
        return self.killed is not None and self.killed >= least and all(each.originals for each in self.scenarios)
