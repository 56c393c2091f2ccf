"""The table of what an agent in a child process may ask of its trial is that of the ports."""

from __future__ import annotations

import inspect

import msgspec
import pytest

from steadyhand.builtin.agents.python_wire import AGENT_VERBS, TRIAL_VERBS
from steadyhand.ports.agent import Judge, TrialContext
from steadyhand.ports.environment import Database, EnvironmentProvider, OnThisMachine
from steadyhand.ports.services import Services

PORTS = {
    "trial": [TrialContext],
    "environment": [EnvironmentProvider, OnThisMachine],
    "services": [Services],
    "judge": [Judge],
    "database": [Database],
}
OF_THE_TRIAL_ALONE = {"setup", "teardown", "export", "open", "close", "actions", "get_service", "answer"}


@pytest.mark.parametrize("name", TRIAL_VERBS)
def test_a_verb_takes_what_the_port_takes(name):
    part, _, method = name.partition(".")
    port = next(each for each in PORTS[part] if hasattr(each, method))
    parameters = list(inspect.signature(getattr(port, method)).parameters.values())[1:]
    verb = TRIAL_VERBS[name]
    assert [each.name for each in msgspec.structs.fields(verb.arguments)] == [each.name for each in parameters]
    assert list(verb.keyword) == [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    assert verb.posted is not inspect.iscoroutinefunction(getattr(port, method))


@pytest.mark.parametrize("part", ["environment", "services", "judge", "database"])
def test_every_method_of_a_part_has_a_verb_or_is_the_trials_own(part):
    of_ports = {name for port in PORTS[part] for name, held in vars(port).items() if inspect.isfunction(held)}
    public = {name for name in of_ports if not name.startswith("_")} - OF_THE_TRIAL_ALONE
    assert public == {name.partition(".")[2] for name in TRIAL_VERBS if name.startswith(f"{part}.")}


def test_no_verb_of_the_agent_is_one_of_the_trial():
    assert not AGENT_VERBS.keys() & TRIAL_VERBS.keys()
