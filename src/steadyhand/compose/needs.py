"""What a scenario needs to be run, read off its steps."""

from __future__ import annotations

from steadyhand.records.scenario import Converse, RunCode, Scenario, evaluation_specs


def needs_agent(scenario: Scenario) -> bool:
    """Whether any step asks an agent; a scenario of code alone needs none."""
    return any(not isinstance(step.task, RunCode) for step in scenario.steps)


def needs_services(scenario: Scenario) -> bool:
    """A plain question to a plain model has no use for them."""
    return bool(
        scenario.setup.mocks or scenario.plugins or scenario.setup.database or scenario.default_agent != "model"
    )


def needs_user(scenario: Scenario) -> bool:
    """Whether a simulated user takes part; a conversation may be scripted alone."""
    return any(isinstance(step.task, Converse) and step.task.config.user_simulator for step in scenario.steps)


def termination_functions(scenario: Scenario) -> list[str]:
    return [
        condition.function
        for step in scenario.steps
        if isinstance(step.task, Converse)
        for condition in step.task.config.termination_conditions
        if condition.function is not None
    ]


def model_types(scenario: Scenario) -> list[str]:
    """The models, by alias or name, that its checks and its simulated user ask for."""
    asked = [spec.params.get("model_type") for spec in evaluation_specs(scenario)]
    return sorted({name for name in (*asked, *user_model_types(scenario)) if isinstance(name, str)})


def user_model_types(scenario: Scenario) -> list[str]:
    """The models, by alias or name, that its simulated users ask for."""
    simulators = [step.task.config.user_simulator for step in scenario.steps if isinstance(step.task, Converse)]
    return [simulator.model_type for simulator in simulators if simulator is not None and simulator.model_type]
