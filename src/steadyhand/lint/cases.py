"""Lint of scenarios together: a finding that many cases share is told once, and cases that no check tells apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import msgspec

from steadyhand.lint.scenario import is_told_by_patterns, lint_scenario, passed_by
from steadyhand.records.base import counted, shorten
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Scenario, leaf_specs

_TRIED = 10
"""Each case is tried on the answers of this many of the next ones."""

_MOST_MADE = 2_000
"""Checks that are really made take longer, so that only so many answers are tried on them."""

Passes = Callable[[Scenario, str], bool]


def lint_scenarios(scenarios: Sequence[Scenario], passes: Passes | None = None) -> Iterator[Problem]:
    """The findings about all of them, in order. `passes` makes the checks that cannot be told from their pattern: it
    says whether a scenario passes with an answer."""
    for base_id, group in groupby(scenarios, key=lambda each: each.case.base_id if each.case is not None else None):
        cases = list(group)
        if base_id is None:
            yield from (problem for scenario in cases for problem in lint_scenario(scenario))
        else:
            yield from _told_once(cases)
            if (alike := _alike(cases, passes)) is not None:
                yield alike


def _told_once(cases: Sequence[Scenario]) -> Iterator[Problem]:
    """The same check often has the same fault in every case."""
    found: dict[tuple[Place, str], list[Problem]] = {}
    for scenario in cases:
        for problem in lint_scenario(scenario):
            # What is about the scenario as a whole is at the case.
            at = cases[0].place if problem.place == scenario.place else problem.place
            found.setdefault((at, problem.code), []).append(problem)
    for problems in found.values():
        first, more = problems[0], len({problem.message for problem in problems}) - 1
        message = f"{first.message} (and alike in {counted(more, 'more case')})" if more else first.message
        yield msgspec.structs.replace(first, message=message)


def _alike(cases: Sequence[Scenario], passes: Passes | None) -> Problem | None:
    """A finding if all cases have the same checks, or if the checks of some accept a good answer to another."""
    if len(cases) < 2:
        return None
    checks = [[(spec.type, spec.params) for spec in leaf_specs(each)] for each in cases]
    if checks[0] and all(each == checks[0] for each in checks):
        message = f"all {len(cases)} cases have the same checks, so one answer passes them all; use a column in a check"
        return _finding(cases[0], message)
    count = min(_TRIED, len(cases) - 1)
    most = max(1, min(count, _MOST_MADE // max(1, sum(len(each.examples.good) for each in cases))))
    pairs = list[tuple[Scenario, tuple[Scenario, str]]]()
    for index, case in enumerate(cases):
        others = [cases[(index + step) % len(cases)] for step in range(1, count + 1)]
        if (pair := _taken(case, others, others[:most], passes)) is not None:
            pairs.append(pair)
    if not pairs:
        return None
    case, (other, answer) = pairs[0]
    more = f" (and alike in {counted(len(pairs) - 1, 'more case')})" if len(pairs) > 1 else ""
    message = (
        f'a good answer to the case `{_name(other)}` passes every check of `{_name(case)}`: "{shorten(answer, 60)}";'
        f" use a column in a check that tells them apart{more}"
    )
    return _finding(case, message)


def _taken(
    case: Scenario, others: Sequence[Scenario], some: Sequence[Scenario], passes: Passes | None
) -> tuple[Scenario, tuple[Scenario, str]] | None:
    """The case, with another one and its good answer that it takes too; checks are made only on answers to `some`."""
    own = set(case.examples.good)
    answers = [(other, answer) for other in others for answer in other.examples.good if answer not in own]
    taken = next((each for each in answers if passed_by(case, lambda _, said=each[1]: said)), None)
    if taken is None and passes is not None and not is_told_by_patterns(case):
        taken = next((each for each in answers if each[0] in some and passes(case, each[1])), None)
    return None if taken is None else (case, taken)


def _name(scenario: Scenario) -> str:
    return scenario.case.name if scenario.case is not None else scenario.id


def _finding(case: Scenario, message: str) -> Problem:
    return Problem(message=message, place=case.place, code="cases-alike", level="warning")
