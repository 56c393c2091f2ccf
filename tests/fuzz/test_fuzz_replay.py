"""Tries again every input that once broke something and the fuzzers' seeds, and draws a few scenarios.

`make fuzz` goes on from here for as long as it is told to.
"""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.scenarios import SCENARIOS, agree, loaded_from, mutated
from fuzz.targets import CORPUS, TARGETS

DRAWN = CORPUS / "scenarios"
KEPT = sorted((file.parent.name, file.name) for file in CORPUS.glob("*/*") if file.parent != DRAWN)
FEW = settings(derandomize=True, suppress_health_check=list(HealthCheck))


def test_every_target_has_a_corpus():
    assert {target for target, _ in KEPT} == set(TARGETS)


@pytest.mark.parametrize(("target", "name"), KEPT)
def test_the_corpus_breaks_nothing(target, name):
    TARGETS[target]((CORPUS / target / name).read_bytes())


@FEW
@given(SCENARIOS)
def test_a_right_scenario_loads_and_the_schema_accepts_it(data):
    assert loaded_from(data).errors == ()
    agree(data)


@FEW
@given(SCENARIOS, st.integers(0, 2**32))
def test_a_changed_scenario_is_refused_with_a_place_or_accepted_by_the_schema_too(data, number):
    agree(mutated(data, random.Random(number)))


@pytest.mark.parametrize("file", sorted(DRAWN.iterdir()), ids=lambda file: file.name)
def test_scenarios_that_once_broke_something(file):
    agree(json.loads(file.read_bytes()))
