"""Whether an agent decides the same for every variant that must not matter, and otherwise for every one that must.

The trials of a variant are paired by number, and so by seed, with those of its original. Pairs in which a trial neither
passed nor failed are left out of the figures, and stand against whatever would be concluded without them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from msgspec.structs import replace

from steadyhand.judging.comparison import holm
from steadyhand.judging.rates import Overruled, ScenarioRate, ScenarioVerdicts
from steadyhand.judging.statistics import Bounds, crossing, normal_quantile, wilson_interval
from steadyhand.records.base import Record, counted, doc
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import Target
from steadyhand.records.scenario import VariantOrigin

ALPHA = 0.05
POWER = 0.8
_MOST_PAIRS = 1_000_000
Invariance = Literal["invariant", "not_invariant", "cannot_tell"]
Sensitivity = Literal["followed", "not_followed", "cannot_tell"]


class VariantPairs(Record):
    """A variant of one scenario, pair by pair. `lost` are those that only the original passed, `won` those that only
    the variant passed."""

    scenario: Annotated[str, doc("Id of the original.")]
    variant: Annotated[str, doc("Id of the variant.")]
    both: Annotated[int, doc("Pairs in which both passed.")]
    lost: Annotated[int, doc("Pairs in which only the original passed.")]
    won: Annotated[int, doc("Pairs in which only the variant passed.")]
    neither: Annotated[int, doc("Pairs in which neither passed.")]
    missing: Annotated[int, doc("Pairs in which a trial neither passed nor failed, or is missing.")]
    flips: Annotated[float | None, doc("Chance that two trials of the original differ; null with less than two.")]
    differing: Annotated[tuple[int, ...], doc("Numbers of the trials that differ: the lost first, then the won.")]

    @property
    def count(self) -> int:
        return self.both + self.lost + self.won + self.neither


class InvarianceFinding(Record):
    """A variant that must not change the decision, over all scenarios that have it.

    The interval is corrected for the number of such variants in the run, and so is the p-value.
    """

    name: Annotated[str, doc("Name of the variant, with the value if it has several.")]
    target: Annotated[str, doc("What was under test.")]
    answer: Annotated[Invariance, doc("What the figures show.")]
    margin: Annotated[float, doc("Difference in pass rate that does not matter.")]
    pairs: Annotated[int, doc("Number of pairs in which both trials passed or failed.")]
    missing: Annotated[int, doc("Number of other pairs.")]
    difference: Annotated[float | None, doc("Pass rate of the variant minus that of the original; null without pairs.")]
    interval: Annotated[Bounds | None, doc("Interval of the difference.")]
    confidence: Annotated[float, doc("Confidence of the interval.")]
    p_value: Annotated[float | None, doc("p-value of a difference.")]
    flipped: Annotated[float | None, doc("Share of the pairs that differ.")]
    floor: Annotated[float | None, doc("Chance that two trials of the original differ; null if it is not known.")]
    trials_needed: Annotated[int | None, doc("Trials of a scenario that would tell; null if it is told, or unknown.")]
    scenarios: Annotated[tuple[VariantPairs, ...], doc("The pairs, scenario by scenario.")]


class SensitivityFinding(Record):
    """A variant that must change the decision, over all scenarios that have it. `chances` are the pairs in which the
    original was right: only there can a decision follow."""

    name: Annotated[str, doc("Name of the variant, with the value if it has several.")]
    target: Annotated[str, doc("What was under test.")]
    answer: Annotated[Sensitivity, doc("Whether the decision followed, as often as the scenario requires.")]
    chances: Annotated[int, doc("Number of pairs in which the original was right.")]
    followed: Annotated[int, doc("Number of them in which the variant was right as well.")]
    interval: Annotated[Bounds | None, doc("95% interval of the share that followed.")]
    scenarios: Annotated[tuple[VariantPairs, ...], doc("The pairs, scenario by scenario.")]


class VariantFindings(Record):
    """What the variants of a run show. Invariance and sensitivity are never combined."""

    same: Annotated[tuple[InvarianceFinding, ...], doc("Variants that must not change the decision.")]
    changes: Annotated[tuple[SensitivityFinding, ...], doc("Variants that must change it.")]


_Key = tuple[str, str, str, float]


def find_variants(
    origins: Mapping[str, VariantOrigin],
    targets: Mapping[str, Target],
    verdicts: ScenarioVerdicts,
    rates: Sequence[ScenarioRate],
) -> VariantFindings:
    """`origins` are the variants of the run by their id."""
    groups: dict[_Key, list[VariantPairs]] = {}
    planned = {rate.scenario_id: rate.total for rate in rates}
    for variant_id, origin in origins.items():
        target = targets[variant_id].name if variant_id in targets else ""
        pairs = _paired(variant_id, origin, verdicts, planned.get(variant_id, 0))
        groups.setdefault((origin.kind, origin.shown, target, origin.margin), []).append(pairs)
    same = {key: pairs for key, pairs in groups.items() if key[0] == "same"}
    own = {rate.scenario_id: rate.own_verdict for rate in rates}
    tested = [_p_value(pairs) for pairs in same.values()]
    corrected = iter(holm([p for p in tested if p is not None]))
    return VariantFindings(
        same=tuple(
            _invariance(key, pairs, None if p is None else next(corrected), len(same))
            for (key, pairs), p in zip(same.items(), tested, strict=True)
        ),
        changes=tuple(_sensitivity(key, pairs, own) for key, pairs in groups.items() if key[0] == "changes"),
    )


def _paired(variant_id: str, origin: VariantOrigin, verdicts: ScenarioVerdicts, planned: int) -> VariantPairs:
    ours, theirs = verdicts.get(origin.original, {}), verdicts.get(variant_id, {})
    sides = {number: (ours.get(number), theirs.get(number)) for number in sorted({*ours, *theirs})}
    passed, failed = Verdict.PASSED, Verdict.FAILED
    lost = [number for number, pair in sides.items() if pair == (passed, failed)]
    won = [number for number, pair in sides.items() if pair == (failed, passed)]
    both = sum(pair == (passed, passed) for pair in sides.values())
    neither = sum(pair == (failed, failed) for pair in sides.values())
    return VariantPairs(
        scenario=origin.original,
        variant=variant_id,
        both=both,
        lost=len(lost),
        won=len(won),
        neither=neither,
        missing=max(planned, len(sides)) - both - neither - len(lost) - len(won),
        flips=_flip_rate(ours.values()),
        differing=(*lost, *won),
    )


def _flip_rate(verdicts: Iterable[Verdict]) -> float | None:
    """The chance that two trials differ, without bias."""
    known = list(verdicts)
    passed, failed = known.count(Verdict.PASSED), known.count(Verdict.FAILED)
    decided = passed + failed
    return None if decided < 2 else 2 * passed * failed / (decided * (decided - 1))


# What must not change the decision


def _invariance(key: _Key, pairs: Sequence[VariantPairs], p_value: float | None, variants: int) -> InvarianceFinding:
    _, name, target, margin = key
    count, lost, won = sum(p.count for p in pairs), sum(p.lost for p in pairs), sum(p.won for p in pairs)
    known = [p for p in pairs if p.flips is not None and p.count]
    weight = sum(p.count for p in known)
    floor = sum((p.flips or 0.0) * p.count for p in known) / weight if weight else None
    confidence = 1 - ALPHA / variants
    missing = sum(p.missing for p in pairs)
    answer: Invariance = "cannot_tell"
    if count and p_value is not None:
        alike = all(
            _within(lost + against, won + missing - against, count + missing, margin, confidence)
            for against in {0, missing}
        )
        moved = p_value <= ALPHA and any(_moved(each, len(pairs) * variants, margin, confidence) for each in pairs)
        if alike and not moved and (lost + won) / count <= (floor or 0.0) + margin:
            answer = "invariant"
        elif moved or (p_value <= ALPHA and not _within(lost, won, count, margin, confidence)):
            answer = "not_invariant"
    needed = None
    if count and answer == "cannot_tell":
        shrunk = (lost + 0.5) / (count + 1), (won + 0.5) / (count + 1)
        needed = trials_to_tell(*shrunk, margin=margin, variants=variants, scenarios=len(pairs))
        if missing and needed is not None and needed * len(pairs) <= count:
            needed = None  # it is for what is missing that it cannot be told
    return InvarianceFinding(
        name=name,
        target=target,
        answer=answer,
        margin=margin,
        pairs=count,
        missing=missing,
        difference=(won - lost) / count if count else None,
        interval=paired_interval(lost, won, count, confidence) if count else None,
        confidence=confidence,
        p_value=p_value,
        flipped=(lost + won) / count if count else None,
        floor=floor,
        trials_needed=needed,
        scenarios=tuple(pairs),
    )


def _within(lost: int, won: int, count: int, margin: float, confidence: float) -> bool:
    low, high = paired_interval(lost, won, count, confidence)
    return -margin < low and high < margin


def _moved(pairs: VariantPairs, tests: int, margin: float, confidence: float) -> bool:
    """Whether this scenario moved by more than may be, whatever the others did."""
    if 2 * tests * _mcnemar(pairs) > ALPHA:
        return False
    return not _within(pairs.lost, pairs.won, pairs.count, margin, confidence)


def _p_value(pairs: Sequence[VariantPairs]) -> float | None:
    """That nothing moved: neither all scenarios together nor, of several, one by one."""
    if not sum(each.count for each in pairs):
        return None
    together = mcnemar_p(sum(each.lost for each in pairs), sum(each.won for each in pairs))
    if len(pairs) == 1:
        return together
    return min(1.0, 2 * together, 2 * len(pairs) * min(map(_mcnemar, pairs)))


def _mcnemar(pairs: VariantPairs) -> float:
    return mcnemar_p(pairs.lost, pairs.won)


def mcnemar_p(lost: int, won: int) -> float:
    """Two-sided and exact: whether pairs that differ do so more often in one direction than a coin would."""
    differing = lost + won
    tail = sum(math.comb(differing, k) for k in range(min(lost, won) + 1))
    return min(1.0, math.ldexp(2 * tail, -differing)) if differing < 1000 else _large_p(lost, won)


def _large_p(lost: int, won: int) -> float:
    z = (abs(won - lost) - 1) / math.sqrt(lost + won)
    return min(1.0, math.erfc(z / math.sqrt(2))) if z > 0 else 1.0


def paired_interval(lost: int, won: int, count: int, confidence: float) -> Bounds:
    """Bounds of the difference of two paired rates, by Tango's score; also correct where no pair differs."""
    z = normal_quantile(0.5 + confidence / 2)

    def score(difference: float) -> float:
        """The standardised distance of what was seen from this difference, falling as it rises."""
        b = -won - lost + (2 * count - won + lost) * difference
        c = -lost * difference * (1 - difference)
        only_original = (math.sqrt(max(b * b - 8 * count * c, 0.0)) - b) / (4 * count)
        variance = count * (2 * only_original + difference * (1 - difference))
        away = won - lost - count * difference
        return away / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, away) if away else 0.0

    seen = (won - lost) / count
    low = -1.0 if seen <= -1 else crossing(lambda difference: z - score(difference), -1.0, seen)
    high = 1.0 if seen >= 1 else crossing(lambda difference: -z - score(difference), seen, 1.0)
    return low, high


def trials_to_tell(
    lost: float, won: float, *, margin: float, variants: int, scenarios: int = 1, power: float = POWER
) -> int | None:
    """The trials of each scenario after which a variant is told with this chance: that it differs, or does not matter.

    `lost` and `won` are the shares of pairs that differ in either direction. By normal approximation, with the
    discreteness of the exact test added. None where no number would do, or none that anybody would run.
    """
    z = normal_quantile(1 - ALPHA / (2 * variants))
    gap, differing = abs(won - lost), lost + won
    spread = differing - gap * gap
    needed = math.inf
    if gap < margin:
        reach = z + normal_quantile(0.5 + power / 2)
        needed = max(spread * (reach / (margin - gap)) ** 2, z * z * (1 - margin) / margin)
    if gap > 0 and scenarios > 1:  # then the test looks twice
        z = normal_quantile(1 - ALPHA / (4 * variants))
    if gap > 0:
        reach = z * math.sqrt(differing) + normal_quantile(power) * math.sqrt(max(spread, 0.0))
        needed = min(needed, (reach / gap) ** 2 + 2 / gap)
    return None if needed > _MOST_PAIRS else max(1, math.ceil(needed / scenarios))


# What must change it


def _sensitivity(key: _Key, pairs: Sequence[VariantPairs], own: Mapping[str, Verdict]) -> SensitivityFinding:
    _, name, target, _ = key
    chances, followed = sum(each.both + each.lost for each in pairs), sum(each.both for each in pairs)
    verdicts = [own.get(each.variant, Verdict.INCONCLUSIVE) for each in pairs]
    answer: Sensitivity = "cannot_tell"
    if Verdict.FAILED in verdicts:
        answer = "not_followed"
    elif all(verdict is Verdict.PASSED and each.both for verdict, each in zip(verdicts, pairs, strict=True)):
        answer = "followed"
    return SensitivityFinding(
        name=name,
        target=target,
        answer=answer,
        chances=chances,
        followed=followed,
        interval=wilson_interval(followed, chances),
        scenarios=tuple(pairs),
    )


# What it means for the verdict


def with_variants(rates: Sequence[ScenarioRate], found: VariantFindings) -> list[ScenarioRate]:
    """The rates with the verdicts of variants. What a scenario demands of every trial, it demands in variants too."""
    ruled: dict[str, Overruled] = {}
    of = {rate.scenario_id: rate for rate in rates}
    for finding in found.same:
        for pairs in finding.scenarios:
            if pairs.variant in of:
                ruled[pairs.variant] = _of_same(finding, pairs, of[pairs.variant])
    for change in found.changes:
        for pairs in change.scenarios:
            own = of[pairs.variant].own_verdict if pairs.variant in of else None
            if own is Verdict.PASSED and not pairs.both:
                why = "the original was never right, so no decision could follow"
                ruled[pairs.variant] = Overruled(verdict=Verdict.INCONCLUSIVE, why=why)
    return [replace(each, variant=ruled.get(each.scenario_id)) if ruled else each for each in rates]


def _of_same(finding: InvarianceFinding, pairs: VariantPairs, rate: ScenarioRate) -> Overruled:
    own, why = rate.own_verdict, in_words(finding)
    if own is Verdict.FAILED and rate.required in (None, 1.0):
        return Overruled(verdict=own, why=why)
    if finding.answer == "not_invariant":
        return Overruled(verdict=Verdict.FAILED if pairs.differing else Verdict.INCONCLUSIVE, why=why)
    if finding.answer == "cannot_tell" or own is Verdict.FAILED:
        return Overruled(verdict=Verdict.ERROR if own is Verdict.ERROR else Verdict.INCONCLUSIVE, why=why)
    return Overruled(verdict=own, why=why)


def in_words(finding: InvarianceFinding) -> str:
    """Such as `invariant: -1 points (-6 to +4), within 10`."""
    answer = finding.answer.replace("_", " ")
    if finding.difference is None or finding.interval is None:
        return f"{answer}: no pair of trials in which both passed or failed"
    low, high = (f"{100 * bound:+.1f}" for bound in finding.interval)
    told = f"{answer}: {100 * finding.difference:+.1f} points ({low} to {high}), margin {100 * finding.margin:g}"
    told += f"; {counted(finding.missing, 'pair')} missing" if finding.missing else ""
    needed = finding.trials_needed
    return told + (f"; {needed} trials of each scenario would tell" if needed is not None else "")
