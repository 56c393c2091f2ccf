"""The words a scenario may use: types of evaluation and environments, ours and those its plugins bring."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from steadyhand.records.scenario import PluginRef
from steadyhand.spec.evaluations import Catalogue


class Vocabulary(NamedTuple):
    catalogue: Catalogue
    environments: Collection[str]


Extend = Callable[[Sequence[PluginRef], str], Vocabulary]
