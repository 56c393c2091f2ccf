"""Ids of scenarios without secrets, which a value of a matrix may have brought into them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steadyhand.records.scenario import Scenario
from steadyhand.redaction import Redactor


def with_safe_ids(scenarios: Sequence[Scenario], redactor: Redactor) -> list[Scenario]:
    """The same scenarios, blotted out where it is needed and still told apart.

    Everything that is recorded of a trial is found again by its id, so the id must be the same before and after secrets
    are taken out of the record.
    """
    taken = {scenario.id for scenario in scenarios}
    safe: list[Scenario] = []
    for scenario in scenarios:
        name = blotted = redactor.text(scenario.id)
        if blotted != scenario.id:
            number = 1
            while name in taken:
                number += 1
                name = f"{blotted}~{number}"
            taken.add(name)
        safe.append(scenario if name == scenario.id else msgspec.structs.replace(scenario, id=name))
    return safe
