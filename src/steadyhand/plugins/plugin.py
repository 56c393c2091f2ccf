"""What a plugin can bring: the catalogue of extension points.

Built-in parts come in through the same record as a third party's. A contribution is the object itself or, to keep
start-up light, the text `package.module:name`, imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steadyhand.records.base import Record


class Plugin(Record):
    """Each mapping goes from the name a user writes to what answers to it.

    evaluators    `type` of an evaluation    -> a class that implements `ports.evaluator.Evaluator`
    models        provider, before the `/`   -> a `plugins.factories.ModelFactory`
    agents        agent kind, before the `:` -> a `plugins.factories.AgentFactory`
    environments  `environment.type`         -> a `plugins.factories.EnvironmentFactory`
    actions       what the agent can do      -> a `ports.action.Action`, or a function made one by `plugins.action`
    services      name for `get_service`     -> a `plugins.factories.ServiceFactory`, an object, or a `Service`
    terminations  a `custom_condition`       -> a `plugins.factories.Termination`

    `version` is what a scenario's `version` is compared with; left out, an installed plugin has its package's.
    `config` is what the scenario sets for it, filled in when it is resolved.
    """

    name: str
    version: str = "0"
    evaluators: Mapping[str, Any] = {}
    models: Mapping[str, Any] = {}
    agents: Mapping[str, Any] = {}
    environments: Mapping[str, Any] = {}
    actions: Mapping[str, Any] = {}
    services: Mapping[str, Any] = {}
    terminations: Mapping[str, Any] = {}
    config: Mapping[str, Any] = {}


class Service(Record):
    """A service with more to say than how it is made.

    With `tools`, the built-in agent may call its public methods itself; without, only actions and agents that ask
    for the service do.
    """

    factory: Any
    tools: bool = False
