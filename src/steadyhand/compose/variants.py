"""The variants of the scenarios of a run, and the scenarios in which a service fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from steadyhand.errors import FileError
from steadyhand.records.base import counted
from steadyhand.records.location import Problem
from steadyhand.records.scenario import Scenario, VariantOrigin
from steadyhand.spec.faults import failing
from steadyhand.spec.variants import as_variant, variants_of


def with_variants(
    scenarios: Sequence[Scenario], note: Callable[[str], None] | None, *, variants: bool, faults: bool
) -> list[Scenario]:
    """Each scenario, then its variants and its faults. `note` is told which texts nobody has signed.

    Raises `FileError` for two with the same id.
    """
    found: list[Scenario] = []
    unsigned: list[str] = []
    for scenario in scenarios:
        found.append(scenario)
        if variants:
            made = variants_of(scenario)
            found += made.scenarios
            unsigned += [str(text.place) for text in made.unsigned]
        if faults:
            found += [as_variant(scenario, each, shown, "fault") for shown, each in failing(scenario)]
    _refuse_same_ids(found)
    if unsigned and note is not None:
        places = ", ".join(dict.fromkeys(unsigned))
        note(f"{counted(len(set(unsigned)), 'text')} of variants not run, because nobody has signed them: {places}")
    return found


def _refuse_same_ids(scenarios: Sequence[Scenario]) -> None:
    first: dict[str, Scenario] = {}
    for each in scenarios:
        earlier = first.setdefault(each.id, each)
        if earlier is not each:
            message = f"the variant `{each.id}` is there twice; the other is at {earlier.place}"
            raise FileError([Problem(place=each.place, message=message, code="duplicate-id")])


def with_originals(chosen: Sequence[Scenario], scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Those chosen, with the originals of the variants among them, in the order of all."""
    wanted = {each.id for each in chosen} | {each.variant.original for each in chosen if each.variant is not None}
    return [each for each in scenarios if each.id in wanted]


def variant_origins(scenarios: Sequence[Scenario], margin: float | None) -> dict[str, VariantOrigin]:
    """By id. `margin` is the user's, in place of the scenarios' own."""
    found = {each.id: each.variant for each in scenarios if each.variant is not None}
    return found if margin is None else {id_: replace(origin, margin=margin) for id_, origin in found.items()}
