"""A recorded run: its trials, what they add up to, whether the record is whole, and the exit code."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast, get_args, get_origin, runtime_checkable

import msgspec

from steadyhand.errors import ExitCode
from steadyhand.judging.comparison_side import Sample, Times
from steadyhand.judging.cost import CostSummary, Prices, cost_of_trial
from steadyhand.judging.figures import RunFigures
from steadyhand.judging.invariance import VariantFindings, find_variants, with_variants
from steadyhand.judging.rates import (
    RunSummary,
    ScenarioRate,
    Tally,
    scenario_rates,
    summarise,
    tally_scenarios,
    tally_trials,
    until_decided,
)
from steadyhand.reading.samples import TrialSamples
from steadyhand.reading.totals import Totals, TotalsFold, TrialTimes
from steadyhand.records.evaluation import WORST_FIRST, Outcome, Verdict
from steadyhand.records.run import RunHeader, RunMatrix, Target, TrialKey, TrialRecord
from steadyhand.store.reader import RunReader, TrialSums

LONG = 20_000
"""The number of planned trials from which on a record keeps what its trials add up to."""
T = TypeVar("T")
_MISFIT = "its summary does not fit its trials; `steadyhand resume` makes a new one"
_DECIDED = (Verdict.PASSED, Verdict.FAILED)
_ANSWERED = (*_DECIDED, Verdict.INCONCLUSIVE)


class Gathering(Protocol):
    """What an output keeps of each trial while all of them are read."""

    def add(self, trial: TrialRecord) -> None: ...


G = TypeVar("G", bound=Gathering)


@runtime_checkable
class Keepable(Gathering, Protocol):
    """One whose findings can be kept in the record."""

    found: msgspec.Struct


def _name(key: tuple[Any, ...]) -> str:
    kind, *options = key
    return f"{kind.__name__}{options}"


def _kept_as(value: Any) -> Any:
    """Encodes what MessagePack does not know. Raises `NotImplementedError` for anything else."""
    if isinstance(value, array):
        numbers = cast("Times", value)
        return numbers.typecode.encode() + numbers.tobytes()
    raise NotImplementedError


def _was_kept(kind: Any, value: Any) -> Any:
    """Decodes what MessagePack knows as a plain map or as bytes. Raises `NotImplementedError` for anything else."""
    if get_origin(kind) is Counter:
        return Counter(msgspec.convert(value, dict[get_args(kind)[0], int], strict=False))
    if kind is array:
        found: Any = array("q") if value[:1] == b"q" else array("d")
        found.frombytes(value[1:])
        return found
    raise NotImplementedError(kind)


def _fit(samples: Iterable[Sample], sums: Mapping[tuple[str, Verdict], TrialSums]) -> bool:
    """Whether samples have as many trials that passed and failed as the rows, with the same numbers, and times."""
    decided: dict[tuple[str, Verdict], tuple[int, int]] = {}
    times: dict[str, tuple[int, float]] = {}
    for sample in samples:
        of = sample.recorded_id
        for verdict, numbers in zip(_DECIDED, (sample.passed, sample.failed), strict=True):
            trials, total = decided.get((of, verdict), (0, 0))
            decided[of, verdict] = trials + len(numbers), total + sum(numbers)
        timed, latency_ms = times.get(of, (0, 0.0))
        timed += len(sample.latencies) + sample.latencies_left_out
        times[of] = timed, latency_ms + sum(sample.latencies) + sample.left_out_ms
    if any(decided.get(key, (0, 0)) != found[:2] for key, found in sums.items() if key[1] in _DECIDED):
        return False
    if any(trials and key not in sums for key, (trials, _) in decided.items()):
        return False
    for of, (timed, latency_ms) in times.items():
        answered = [found for verdict in _ANSWERED if (found := sums.get((of, verdict)))]
        total = math.fsum(found.latency_ms for found in answered)
        if math.isnan(latency_ms):  # such a latency is in no row
            continue
        if timed != sum(found.timed for found in answered) or not math.isclose(latency_ms, total, rel_tol=1e-9):
            return False
    return True


def sound(code: ExitCode, *readings: Reading | None) -> ExitCode:
    """The exit code of what was concluded from these records: nothing passes unless they are whole, and nothing is
    concluded from one that was finished and has lost some of its trials. What failed before a run was stopped failed.
    """
    flawed = [reading for reading in readings if reading is not None and reading.flaw is not None]
    if any(code is not ExitCode.FAILED or reading.reader.finished for reading in flawed):
        return ExitCode.UNDECIDED
    return code


class Reading:
    """A run as it was when it was read. Raises `StoreError` wherever the record cannot be read.

    Trials are decoded in a pass over the record. What outputs gather is named before (`want`), so that one pass
    suffices for all of them; a further one is made for what was not.
    """

    def __init__(self, reader: RunReader) -> None:
        self.reader: RunReader = reader
        self._wanted: dict[tuple[Any, ...], Gathering] = {}
        self._gathered: dict[tuple[Any, ...], Gathering] = {}
        self._from_summary: bool = False
        self.watch: Callable[[Iterator[TrialRecord]], Iterable[TrialRecord]] = iter
        """Passes trials on as they are read."""
        self._last_cost: tuple[TrialRecord | None, CostSummary] = (None, CostSummary())

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises `StoreError` when there is no run record at the path."""
        return cls(RunReader.open(path))

    @property
    def header(self) -> RunHeader:
        return self.reader.header

    @property
    def path(self) -> Path:
        return self.reader.path

    @cached_property
    def status(self) -> str:
        return self.reader.status

    @cached_property
    def prices(self) -> Prices:
        """Those that applied when the run was made."""
        return Prices.of_run(self.header)

    # Trials

    def trial(self, key: TrialKey) -> TrialRecord | None:
        """One trial, or None if the record does not have it."""
        return self.reader.trial(key)

    def source(self, file: str) -> str | None:
        """The text of a scenario file as it was when the run started; None if the record does not have it."""
        return self.reader.source(file)

    def cost(self, trial: TrialRecord) -> CostSummary:
        """What a trial cost. Of the one that is being read, several outputs want to know."""
        if self._last_cost[0] is not trial:
            self._last_cost = trial, cost_of_trial(trial, self.prices)
        return self._last_cost[1]

    def read(self) -> Iterator[TrialRecord]:
        """Every trial, in planned order, once everything wanted has taken it in."""
        trials = self._feed(self._wanted)
        self._wanted = {}
        try:
            yield from trials
        finally:
            for _ in trials:  # whoever reads has given up; the others need the rest
                pass

    def want(self, kind: Callable[..., Gathering], *options: Any) -> None:
        """Have `kind(reading, *options)` gather in the next pass."""
        key = (kind, *options)
        if key not in self._gathered and key not in self._wanted:
            self._wanted[key] = kind(self, *options)

    def gathered(self, kind: Callable[..., G], *options: Any) -> G:
        """What it gathered; makes a pass if there was none since it was wanted."""
        key = (kind, *options)
        if key not in self._gathered:
            self.want(kind, *options)
            gathering = self._wanted[key]
            if isinstance(gathering, Keepable) and (known := self._kept(_name(key), type(gathering.found))):
                gathering.found = known
                self._gathered[key] = self._wanted.pop(key)
            else:
                for _ in self.read():
                    pass
        return cast("G", self._gathered[key])

    @property
    def takers(self) -> list[Callable[[TrialRecord], None]]:
        """What takes in a trial for each output that is wanted."""
        return [each.add for each in self._wanted.values()]

    def has_gathered(self, reader: RunReader) -> None:
        """Everything wanted has taken in all trials of the record, which `reader` has just opened."""
        self.reader = reader
        self._gathered |= self._wanted
        self._wanted = {}

    # What is kept in the record of a long run

    @property
    def is_long(self) -> bool:
        """Whether reading the run takes so long that what it adds up to is kept in its record."""
        return self.header.planned >= LONG

    @property
    def is_quick(self) -> bool:
        """Whether totals and table are known without reading the trials, or after reading few."""
        return not self.is_long or self._kept_rates is not None

    def keep(self) -> None:
        """Keep what was gathered in the record, so that later commands need not read the trials. Raises `StoreError`
        if that cannot be written."""
        results: dict[str, Any] = {
            "rates": self.rates,
            "figures": self.figures,
            "samples": self.samples,
        }
        for key, gathering in self._gathered.items():
            if isinstance(gathering, Keepable):
                results[_name(key)] = gathering.found
        self.reader.keep({name: msgspec.msgpack.encode(result, enc_hook=_kept_as) for name, result in results.items()})

    def _kept(self, name: str, kind: type[T]) -> T | None:
        data = self.reader.kept(name) if self.is_long else None
        try:
            found = None if data is None else msgspec.msgpack.decode(data, type=kind, dec_hook=_was_kept)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
            return None
        self._from_summary |= found is not None
        return found

    def _feed(self, wanted: dict[tuple[Any, ...], Gathering]) -> Iterator[TrialRecord]:
        takers = [each.add for each in wanted.values()]
        for trial in self.watch(self.reader.trials()):
            for take in takers:
                take(trial)
            yield trial
        self._gathered |= wanted

    # What they add up to

    @property
    def totals(self) -> Totals:
        return self.gathered(TotalsFold).found

    @cached_property
    def planned(self) -> dict[str, int]:
        """The number of planned trials of each scenario, in the order of the plan."""
        return self.reader.planned_per_scenario()

    @cached_property
    def expected(self) -> Mapping[str, int]:
        """The number of trials of each scenario, planned or found: as `total` and `saved` of its rate."""
        if (rates := self._kept_rates) is not None:
            return {rate.scenario_id: rate.total + rate.saved for rate in rates}
        found = dict(self.planned)
        for scenario_id, count in self.reader.found_per_scenario().items():
            found[scenario_id] = max(found.get(scenario_id, 0), count)
        return found

    @cached_property
    def _kept_rates(self) -> list[ScenarioRate] | None:
        return self._kept("rates", list[ScenarioRate])

    @cached_property
    def rates(self) -> list[ScenarioRate]:
        """The results of the scenarios, in planned order."""
        return self._rates_of_trials() if self._kept_rates is None else self._kept_rates

    @cached_property
    def _sums(self) -> Mapping[tuple[str, Verdict, Outcome | None], TrialSums]:
        return self.reader.sums_per_scenario()

    def _trials_by_verdict(self) -> dict[tuple[str, Verdict], TrialSums]:
        found: dict[tuple[str, Verdict], TrialSums] = {}
        for (scenario_id, verdict, _), sums in self._sums.items():
            found[scenario_id, verdict] = found.get((scenario_id, verdict), TrialSums()).plus(sums)
        return found

    def _rates_of_trials(self) -> list[ScenarioRate]:
        reader, header = self.reader, self.header
        until = None
        if header.until is not None:
            until = until_decided(header, self.planned, reader.verdicts_per_scenario())
        rates = scenario_rates(
            {key: found.trials for key, found in self._trials_by_verdict().items()},
            planned=self.planned,
            until=until,
            required=header.pass_rates,
            required_of_all=header.pass_rate,
        )
        return with_variants(rates, self._variants_among(rates)) if header.variants else rates

    @cached_property
    def variants(self) -> VariantFindings:
        """What the variants of the run show."""
        return self._variants_among(self.rates)

    def _variants_among(self, rates: Sequence[ScenarioRate]) -> VariantFindings:
        header = self.header
        verdicts = self.reader.verdicts_per_scenario() if header.variants else {}
        return find_variants(header.variants, header.targets, verdicts, rates)

    @cached_property
    def rate(self) -> Mapping[str, ScenarioRate]:
        """The same by scenario."""
        return {rate.scenario_id: rate for rate in self.rates}

    @cached_property
    def scenarios(self) -> Tally:
        """The number of scenarios by verdict."""
        return tally_scenarios(self.rates)

    @cached_property
    def saved(self) -> int:
        """The number of trials that were not needed."""
        return sum(rate.saved for rate in self.rates)

    @cached_property
    def summary(self) -> RunSummary:
        """The number of trials by verdict, and the alarms."""
        totals = self.totals
        return summarise(totals.counts, planned=self.header.planned, saved=self.saved, alarms=totals.alarms)

    @cached_property
    def figures(self) -> RunFigures:
        known = self._kept("figures", RunFigures)
        return known or self.gathered(TrialTimes).collector.figures(self.header, self.rates)

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """What comparisons and gates need of the trials."""
        known = self._kept("samples", tuple[Sample, ...])
        return self.gathered(TrialSamples).samples() if known is None else known

    @property
    def repeated(self) -> bool:
        """Whether there is more than a single trial of a single scenario, which has no figures beyond its own."""
        return len(self.expected) > 1 or any(count > 1 for count in self.expected.values())

    # Whether it can be relied on

    @cached_property
    def flaw(self) -> str | None:
        """Why nobody should rely on the record; None if it is whole. Reads every trial back, unless that was done."""
        found = self.reader.flaw()
        if found is None and self.is_long:
            found = self.reader.kept_flaw()
        if found is None and self._from_summary and not self._summary_fits():
            return _MISFIT
        return found

    def damage(self, counts: Mapping[Verdict, int]) -> str | None:
        """What is wrong with the record, for a list of runs with so many trials of each verdict; not that the run is
        not finished. The trials of a long one are not read; its rows must fit its seal and its summary."""
        found = self.reader.damage(sum(counts.values()), read_trials=not self.is_long)
        rates = self._kept_rates if found is None else None
        return found if rates is None or tally_trials(rates).by_verdict == counts else _MISFIT

    def _summary_fits(self) -> bool:
        """Whether what was kept of the trials agrees with what their rows say."""
        by_rows = self._rates_of_trials()
        counts, sums = tally_trials(by_rows).by_verdict, self._trials_by_verdict()
        outcomes: Counter[Outcome] = Counter()
        for (_, _, outcome), found in self._sums.items():
            if outcome is not None:
                outcomes[outcome] += found.trials
        rates, known = self._kept_rates, self._kept(_name((TotalsFold,)), Totals)
        figures, samples = self._kept("figures", RunFigures), self._kept("samples", tuple[Sample, ...])
        return (
            (rates is None or rates == by_rows)
            and (known is None or (Counter(known.counts) == Counter(counts) and known.outcomes == outcomes))
            and (figures is None or [each.trials for each in figures.scenarios] == [tally_trials([r]) for r in by_rows])
            and (samples is None or _fit(samples, sums))
        )

    @cached_property
    def exit_code(self) -> ExitCode:
        """0 all passed, and the record is whole; 1 something failed; 3 otherwise, and if trials were lost."""
        return sound(self.scenarios.exit_code, self)

    @property
    def verdict(self) -> Verdict:
        """The worst of the scenarios; inconclusive instead of passed unless the record is whole."""
        worst = next((verdict for verdict in WORST_FIRST if self.scenarios.by_verdict[verdict]), Verdict.INCONCLUSIVE)
        return Verdict.INCONCLUSIVE if worst is Verdict.PASSED and self.exit_code is not ExitCode.PASSED else worst

    # What was under test

    def target(self, trial: TrialRecord) -> Target:
        """The target of the trial; if the record does not say, as far as the trial knows."""
        known = self.header.targets.get(trial.key.scenario_id)
        return known or Target(scenario=trial.key.scenario_id, model=trial.model or trial.agent or None)

    @cached_property
    def matrices(self) -> Mapping[str, RunMatrix]:
        """The matrix of each scenario that is a combination of one."""
        return {each: matrix for matrix in self.header.matrices for each in matrix.combinations}
