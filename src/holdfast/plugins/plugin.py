"""What a plugin can bring: the catalogue of extension points.

Built-in parts come in through the same record as a third party's. A contribution is the object itself or, to keep
start-up light, the text `package.module:name`, imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.records.base import Record


class Plugin(Record):
    """Each mapping goes from the name a user writes to what answers to it.

    evaluators    `type` of an evaluation    -> a class that implements `ports.evaluator.Evaluator`
    models        provider, before the `/`   -> a `plugins.factories.ModelFactory`
    agents        agent kind, before the `:` -> a `plugins.factories.AgentFactory`
    environments  `environment.type`         -> a `plugins.factories.EnvironmentFactory`
    """

    name: str
    version: str = "0"
    evaluators: Mapping[str, Any] = {}
    models: Mapping[str, Any] = {}
    agents: Mapping[str, Any] = {}
    environments: Mapping[str, Any] = {}
