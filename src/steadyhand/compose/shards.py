"""Partial runs: reruns of what did not pass, and shards, which are merged for the verdict of the whole.

A shard is every nth trial. With `--until decided` it is every nth scenario with all of its trials, because these are
evaluated in sequence.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from steadyhand.batch.plan import trial_seed
from steadyhand.compose.cast import Casts, target_of
from steadyhand.compose.matrices import run_matrices
from steadyhand.compose.resume import refuse_redacted
from steadyhand.compose.settings import Settings, restore_options
from steadyhand.compose.trust import require_trusted_record
from steadyhand.compose.variants import variant_origins, with_originals
from steadyhand.errors import SetupError
from steadyhand.reading.run import Reading
from steadyhand.records.base import first_few
from steadyhand.records.config import RunOptions, Selection, declared_by
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import CanaryTally, RunHeader, Shard, TrialKey
from steadyhand.records.scenario import Scenario
from steadyhand.store.reader import RunReader, new_run_id
from steadyhand.store.schema import PlanEntry
from steadyhand.store.writer import RunWriter

_SHARD = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})")
_OF_THE_WHOLE = ("steadyhand_version", "seed", "pass_rate", "until", "alpha", "prices", "failed_of")
_NAMED = 3


def failed_of_options(record: Path, given: RunOptions, here: Settings) -> tuple[Selection, RunOptions]:
    """What to load and how, to run again every scenario of a record that did not pass, with all of its trials.

    Options in `given` take precedence; the rest is as when the run was started. `here` are the current settings: they
    say whether to trust what the record names. Raises `SetupError` when everything passed, or it cannot be run again.
    """
    reader = RunReader.open(record)
    only = tuple(rate.scenario_id for rate in Reading(reader).rates if rate.verdict is not Verdict.PASSED)
    if not only:
        raise SetupError(f"everything passed in run {reader.header.id}; there is nothing to run again")
    folder, selection, before = restore_options(reader.header.options)
    if folder.resolve() != Path.cwd().resolve():
        raise SetupError(
            f"run {reader.header.id} was started in {folder}, and its paths are relative to that folder; run this there"
        )
    refuse_redacted(before)
    require_trusted_record(record, before, here.project)
    kept = msgspec.structs.replace(before.without("failed_of"), only=only, failed_of=reader.header.id)
    return selection, msgspec.structs.replace(kept, **given.given())


def only_scenarios(loaded: Sequence[Scenario], options: RunOptions) -> list[Scenario]:
    """The scenarios that the options name. Raises `SetupError` if one is no longer in the files."""
    if not options.only:
        return list(loaded)
    known = {scenario.id for scenario in loaded}
    if gone := [each for each in options.only if each not in known]:
        raise SetupError(f"no longer in the files: {first_few(gone, _NAMED)}; restore them, or run without --failed-of")
    wanted = set(options.only)
    return with_originals([scenario for scenario in loaded if scenario.id in wanted], loaded)


def shard_scenarios(whole: Sequence[Scenario], settings: Settings) -> tuple[list[Scenario], Mapping[str, range]]:
    """Those of the shard that the options name, and which of their trials. Raises `SetupError`."""
    if settings.options.shard is None:
        return list(whole), {}
    if settings.seed is None:
        raise SetupError("--shard needs --seed, the same for every shard, such as the number of the CI run")
    shard = _shard(whole, settings, settings.options.shard)
    numbers = shard.numbers
    if not numbers:
        count = len(whole) if shard.together else sum(shard.trials.values())
        noun = "scenarios" if shard.together else "trials"
        raise SetupError(f"shard {shard} is empty: there are {count} {noun}; use at most {count} shards")
    return [scenario for scenario in whole if scenario.id in numbers], numbers


def _shard(whole: Sequence[Scenario], settings: Settings, shard: str) -> Shard:
    found = _SHARD.fullmatch(shard)
    if found is None or int(found[1]) > int(found[2]):
        raise SetupError(f"--shard {shard!r}: expected NUMBER/TOTAL with a number from 1 to the total, such as 2/5")
    trials = {scenario.id: settings.options.trials or scenario.trials or 1 for scenario in whole}
    return Shard(number=int(found[1]), of=int(found[2]), trials=trials, together=settings.options.until is not None)


def shard_of(whole: Sequence[Scenario], casts: Casts, shard: str, digests: dict[str, str]) -> Shard:
    """The data about the whole run in the header of a shard. `digests` are of what the trials of a scenario are made
    of."""
    return msgspec.structs.replace(
        _shard(whole, casts.settings, shard),
        digests=digests,
        targets={scenario.id: target_of(casts.of(scenario)) for scenario in whole},
        pass_rates={scenario.id: scenario.pass_rate for scenario in whole if scenario.pass_rate is not None},
        matrices=run_matrices(whole) if any(scenario.cell for scenario in whole) else (),
        variants=variant_origins(whole, casts.settings.options.margin),
    )


class Merged(NamedTuple):
    """The record of the whole, and a list of what is missing."""

    record: Path
    lacking: list[str]


def merge_shards(records: Sequence[Path], folder: Path, *, command: tuple[str, ...]) -> Merged:
    """Merge the shards of a run into a new record. Missing trials count as planned but not run.

    Raises `SetupError` for runs that are not the shards of one whole, each once.
    """
    readers = [RunReader.open(record) for record in records]
    shards = _shards(readers)
    first = next(iter(shards.values()))
    whole = first.header.shard
    assert whole is not None
    lacking = [f"shard {number}/{whole.of} is missing" for number in range(1, whole.of + 1) if number not in shards]
    for each in shards.values():
        if not each.finished:
            lacking.append(f"run {each.header.id} is not finished")
        elif (flaw := each.flaw()) is not None:
            lacking.append(f"the record of run {each.header.id} is not whole: {flaw}")
    header = _header(list(shards.values()), whole, command)
    plan = [
        PlanEntry(key=key, seed=trial_seed(header.seed, key), digest=whole.digests[scenario_id])
        for scenario_id, trials in whole.trials.items()
        for key in (TrialKey(scenario_id=scenario_id, index=index) for index in range(trials))
    ]
    writer = RunWriter.create(folder, header, plan, sources=_sources(readers))
    for _, reader in sorted(shards.items()):
        for trial in reader.trials():
            writer.append(trial)
    writer.close("interrupted" if lacking else "finished")
    return Merged(writer.path, lacking)


def _shards(readers: Sequence[RunReader]) -> dict[int, RunReader]:
    """By number. Raises `SetupError` unless they are shards of one whole that do not overlap."""
    found: dict[int, RunReader] = {}
    for reader in readers:
        shard = reader.header.shard
        if shard is None:
            raise SetupError(f"run {reader.header.id} is not a shard; merge takes runs made with --shard")
        if reader.status == "running":
            raise SetupError(f"run {reader.header.id} is still running; wait for it")
        if (other := found.get(shard.number)) is not None:
            raise SetupError(f"shard {shard} is given twice: {other.header.id} and {reader.header.id}")
        found[shard.number] = reader
        _check_own(reader, shard)
    first, *others = found.values()
    for other in others:
        if differing := _differing(first.header, other.header):
            raise SetupError(
                f"runs {first.header.id} and {other.header.id} are not shards of one run; "
                f"they differ in {', '.join(differing)}"
            )
    return found


def _check_own(reader: RunReader, shard: Shard) -> None:
    """Raises `SetupError` unless the record plans what the shard of that number consists of."""
    planned = {(entry.key, entry.digest) for entry in reader.plan()}
    expected = {
        (TrialKey(scenario_id=scenario_id, index=index), shard.digests.get(scenario_id, ""))
        for scenario_id, numbers in shard.numbers.items()
        for index in numbers
    }
    if planned != expected:
        raise SetupError(f"run {reader.header.id} does not have the trials of shard {shard}; run that shard again")


def _differing(one: RunHeader, other: RunHeader) -> list[str]:
    """What differs between two headers but must not."""
    assert one.shard is not None
    assert other.shard is not None
    found = [
        f"the scenario {each}"
        for each in dict.fromkeys((*one.shard.trials, *other.shard.trials))
        if one.shard.trials.get(each) != other.shard.trials.get(each)
        or one.shard.digests.get(each) != other.shard.digests.get(each)
    ][:_NAMED]
    if one.shard.of != other.shard.of:
        found.append("the number of shards")
    found += [name.replace("_", " ") for name in _OF_THE_WHOLE if getattr(one, name) != getattr(other, name)]
    ours, theirs = _options(one), _options(other)
    found += [f"the option {name}" for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    return found


def _options(header: RunHeader) -> dict[str, Any]:
    saved: dict[str, Any] = header.options.get("options", {})
    selection: dict[str, Any] = header.options.get("selection", {})
    declared = {**declared_by(Selection), **declared_by(RunOptions)}
    return {
        name: value
        for name, value in {**selection, **saved}.items()
        if name not in declared or not declared[name].varies  # of the scenarios, those loaded are compared
    }


def _header(readers: Sequence[RunReader], whole: Shard, command: tuple[str, ...]) -> RunHeader:
    headers = [reader.header for reader in readers]
    saved = dict(headers[0].options)
    saved["options"] = {**saved.get("options", {}), "shard": None}
    return msgspec.structs.replace(
        headers[0],
        id=new_run_id(datetime.now(UTC), random.SystemRandom()),
        started_at=min(header.started_at for header in headers),
        command=command,
        planned=sum(whole.trials.values()),
        options=saved,
        own_servers=tuple(sorted({each for header in headers for each in header.own_servers})),
        free_providers=tuple(sorted({each for header in headers for each in header.free_providers})),
        pass_rates=whole.pass_rates,
        matrices=whole.matrices,
        variants=whole.variants,
        fingerprints={key: value for header in headers for key, value in header.fingerprints.items()},
        targets=whole.targets,
        canaries=_canaries([header.canaries for header in headers if header.canaries is not None]),
        shard=None,
        merged_from=tuple(header.id for header in headers),
        took_ms=max(header.took_ms for header in headers),
    )


def _canaries(tallies: Sequence[CanaryTally]) -> CanaryTally | None:
    """The data of all shards combined."""
    if not tallies:
        return None
    total = tallies[0]
    for each in tallies[1:]:
        total = msgspec.structs.replace(
            total,
            cases=(*total.cases, *each.cases),
            skipped=tuple(dict.fromkeys((*total.skipped, *each.skipped))),
            spent=total.spent.plus(each.spent),
        )
    return total


def _sources(readers: Sequence[RunReader]) -> dict[str, str]:
    found: dict[str, str] = {}
    for reader in readers:
        for trial in reader.trials():
            file = trial.place.file
            if file not in found and (text := reader.source(file)) is not None:
                found[file] = text
    return found
