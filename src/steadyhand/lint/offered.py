"""Lint: checks that name what the agent is never offered, or what could be one of several things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steadyhand.records.base import shorten
from steadyhand.records.deed_name import NamedDeed, ToolOffer, meaning
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Problem
from steadyhand.suggestion import nearest

_SHOWN = 300


def lint_names(evaluation: EvaluationSpec, named: Sequence[NamedDeed], offer: ToolOffer) -> Iterator[Problem]:
    """The findings about the deeds that a check names. Where the agent may have tools of its own, or those of a service
    whose methods are not known, only names of services are checked."""
    known = offer.complete and not any(tool.service and tool.method is None for tool in offer.tools)
    for deed in named:
        if deed.action is None:
            if not offer.has_call(deed.service, deed.method):
                yield _missing(evaluation, deed, offer)
        elif known and not offer.has(deed.action):
            yield _missing(evaluation, deed, offer)
        elif deed.required and len(things := meaning(deed.action, (), [tool.names for tool in offer.tools]).things) > 1:
            message = f"{deed.action} could mean {' or '.join(things)}, which is an error in the run; name it in full"
            yield _warning(evaluation, "ambiguous-name", message)


def _missing(evaluation: EvaluationSpec, deed: NamedDeed, offer: ToolOffer) -> Problem:
    name = deed.action or ".".join(each for each in (deed.service, deed.method) if each)
    near = next((found for names in offer.spellings if (found := nearest(name, names))), None)
    hint = f"; did you mean {near}?" if near else ""
    kind = "tool" if deed.action else "service" if deed.method is None else "method"
    message = f"the agent is offered no {kind} {name} (offered: {shorten(str(offer), _SHOWN)}){hint}"
    return _warning(evaluation, "never-offered", message)


def _warning(evaluation: EvaluationSpec, code: str, message: str) -> Problem:
    return Problem(place=evaluation.place, message=f"{evaluation.type}: {message}", code=code, level="warning")
