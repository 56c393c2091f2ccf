"""Everything the built-in agent can do in a trial: actions, service methods, and the workspace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from steadyhand.builtin.agents.runtime_tool import ToolBox
from steadyhand.builtin.agents.runtime_tools import add_workspace_tools
from steadyhand.ports.agent import ServiceMethod, Services, TrialContext
from steadyhand.records.event import Noted


async def build_toolbox(trial: TrialContext, *, allow_commands: bool) -> ToolBox:
    """Actions first, so that they have their names; then service methods; then files and commands.

    A command that a model wrote runs only in a sandbox or where the user allowed it; when neither is so, the tool is
    left out and a note says why.
    """
    box = ToolBox()
    services = trial.services
    if services is not None:
        for name, action in services.actions.items():
            box.add(
                name,
                _performing(services, name),
                action=name,
                description=action.description,
                parameters=action.parameters,
            )
        for method in await services.offered():
            box.add(
                f"{method.service}_{method.method}" if method.service else method.method,
                _calling(services, method),
                action=method.method,
                description=method.description,
                parameters=method.parameters,
            )
    sandboxed = trial.environment.sandboxed
    commands = allow_commands or sandboxed
    add_workspace_tools(box, trial.environment, commands=commands)
    if not commands:
        message = (
            f"the agent cannot run commands: the environment {trial.environment.name!r} is no sandbox "
            "(allow it with --allow-commands)"
        )
        trial.emit(Noted(at_ms=trial.elapsed_ms(), message=message))
    return box


def _performing(services: Services, name: str) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def run(arguments: dict[str, Any]) -> Any:
        return await services.perform(name, arguments, recorded=True)

    return run


def _calling(services: Services, method: ServiceMethod) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def run(arguments: dict[str, Any]) -> Any:
        named = {name: value for name, value in arguments.items() if name != "args"}
        return await services.call(method.service, method.method, list(arguments.get("args", [])), named)

    return run
