"""`steadyhand plan`: how many trials a bound on the failure rate or a comparison of variants needs, and what runs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from steadyhand.cli import options as shared
from steadyhand.cli.run import show_plan
from steadyhand.cli.terminal import say
from steadyhand.compose.run import Run
from steadyhand.compose.settings import under_test
from steadyhand.errors import SetupError
from steadyhand.judging.invariance import POWER, trials_to_tell
from steadyhand.judging.statistics import trials_for_bound
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.scenario import VariantOrigin

_MOST_TRIALS = 100_000
_SHARE = shared.FiniteRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--bound", type=_SHARE, help="Failure rate to stay below, such as 0.01.")
@click.option("--confidence", type=_SHARE, default=0.95, show_default=True, help="Confidence of the bound.")
@click.option(
    "--failures", type=click.IntRange(0, 10_000), default=0, show_default=True, help="Number of failures to allow for."
)
@click.option("--rate", type=_SHARE, default=0.9, show_default=True, help="With --variants: expected pass rate.")
@click.option(
    "--difference", type=_SHARE, default=0.2, show_default=True, help="With --variants: the difference to find."
)
@shared.declared("plan")
def plan(
    *,
    paths: tuple[str, ...],
    bound: float | None,
    confidence: float,
    failures: int,
    rate: float,
    difference: float,
    **given: Any,
) -> None:
    """Calculate how many trials it takes to bound the failure rate, or to tell whether variants matter. With PATH, also
    what that would run."""
    selection = Selection(
        paths=paths, **{name: given.pop(name) for name in Selection.__struct_fields__ if name in given}
    )
    given |= under_test(given.pop("models"), given.pop("agents"))
    options, variants = RunOptions(command=tuple(sys.argv[1:]), **given), selection.variants
    if bound is None and not variants:
        raise click.UsageError("give --bound, --variants or both")
    if variants and not paths:
        raise click.UsageError("--variants needs the scenarios: how many trials it takes depends on their variants")
    trials = 0
    if bound is not None:
        trials = trials_for_bound(bound, confidence, failures=failures)
        none = f"with at most {counted(failures, 'failure')}" if failures else "without a failure"
        say(
            f"{counted(trials, 'trial')} of a scenario {none} put its failure rate at {bound * 100:.6g}% or less, "
            f"with {confidence * 100:.6g}% confidence"
        )
    if variants:
        trials = max(trials, _for_variants(Run(selection, options).header.variants.values(), rate, difference))
    if not paths:
        return
    if trials > _MOST_TRIALS:
        raise SetupError(f"a run has at most {_MOST_TRIALS} trials of a scenario; choose a higher bound or margin")
    show_plan(Run(selection, msgspec.structs.replace(options, trials=trials)))


def _for_variants(origins: Iterable[VariantOrigin], rate: float, difference: float) -> int:
    """Say what it takes to find the difference, and to show that there is none. Returns the larger number."""
    same = Counter((each.shown, each.margin) for each in origins if each.kind == "same")
    if not same:
        raise SetupError("--variants: no scenario has variants under `same`; --bound says how many trials others need")
    widest = max(margin for _, margin in same)
    if not widest < difference < rate:
        raise click.UsageError(f"--difference {difference:g} must be above the margin, {widest:g}, and below --rate")

    def needed(worse: float) -> int:
        found = [
            trials_to_tell(
                rate * (1 - worse), worse * (1 - rate), margin=margin, variants=len(same), scenarios=scenarios
            )
            for (_, margin), scenarios in same.items()
        ]
        return max(_MOST_TRIALS + 1 if each is None else each for each in found)

    find, show = needed(rate - difference), needed(rate)
    say(
        f"{counted(len(same), 'variant')}, original at {rate * 100:g}%, chance {POWER * 100:g}%: "
        f"{counted(find, 'trial')} of a scenario find a difference of {difference * 100:g} points; "
        f"{show} show that there is none beyond the margin"
    )
    return max(find, show)
