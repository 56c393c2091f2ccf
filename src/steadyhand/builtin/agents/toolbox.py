"""The tools of the `runtime` agent: the trial's actions and services, and the files and commands of its workspace."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from steadyhand.errors import PluginError, WorkspaceError
from steadyhand.judging.bounded_schema import complaint
from steadyhand.ports.agent import TrialContext
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.services import ServiceMethod, Services
from steadyhand.records.chat import ToolSpec
from steadyhand.records.deed_name import OfferedTool
from steadyhand.records.event import Noted

WORKSPACE_TOOLS = ("read_file", "write_file", "list_files", "run_command")
_LONGEST = 64
_ANY_OBJECT: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
COMMAND_TIMEOUT_S = 60.0
_LONGEST_TIMEOUT_S = 600.0
_PATH: dict[str, Any] = {"type": "string", "minLength": 1, "description": "Path inside the workspace."}


ToolFunction = Callable[[dict[str, Any], str], Awaitable[Any]]


class ToolRefusal(Exception):
    """The tool failed; the model is told why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`action` is its name in the trajectory, `spec.name` the one that the model uses. `run` gets the arguments and the
    id of the action."""

    action: str
    spec: ToolSpec
    run: ToolFunction
    offered: OfferedTool

    def complaint(self, arguments: dict[str, Any]) -> str | None:
        """What is wrong with the arguments, or None. Raises `PluginError` if the tool's own schema is invalid."""
        try:
            return complaint(self.spec.parameters, arguments, f"the JSON Schema of {self.action!r}")
        except ValueError as error:
            raise PluginError(str(error)) from error


class ToolBox:
    """Tools under unique names that every provider accepts."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.tools

    def add(
        self,
        wanted: str,
        run: ToolFunction,
        *,
        action: str,
        description: str = "",
        parameters: dict[str, Any] | None = None,
        service: str | None = None,
    ) -> None:
        name = self._free(wanted)
        spec = ToolSpec(name=name, description=description, parameters=parameters or _ANY_OBJECT)
        offered = OfferedTool(name=name, service=service, method=action)
        self.tools[name] = Tool(action=action, spec=spec, run=run, offered=offered)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.tools.values())

    def _free(self, wanted: str) -> str:
        name = tool_name(wanted)
        number = 2
        while name in self.tools:
            ending = f"_{number}"
            name = tool_name(wanted)[: _LONGEST - len(ending)] + ending
            number += 1
        return name


def tool_name(wanted: str) -> str:
    """The name in at most 64 characters, with `_` for every character that providers refuse."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", wanted)[:_LONGEST] or "tool"


def add_workspace_tools(box: ToolBox, environment: EnvironmentProvider, *, commands: bool) -> None:
    """Add the tools, except where a plugin has an action of the same name.

    If the workspace refuses a file operation, the model is told, because most likely the path is bad. If the
    environment really is gone, the trial fails when its files are captured after the step.
    """
    workspace = _Workspace(environment)
    if "read_file" not in box:
        box.add(
            "read_file",
            workspace.read_file,
            action="read_file",
            description="Read a text file in the workspace.",
            parameters=_schema({"path": _PATH}, ["path"]),
        )
    if "write_file" not in box:
        box.add(
            "write_file",
            workspace.write_file,
            action="write_file",
            description="Write a text file in the workspace, replacing what was there.",
            parameters=_schema({"path": _PATH, "content": {"type": "string"}}, ["path", "content"]),
        )
    if "list_files" not in box:
        box.add(
            "list_files",
            workspace.list_files,
            action="list_files",
            description="List every file in the workspace.",
            parameters=_schema({}, []),
        )
    if commands and "run_command" not in box:
        limit = {"type": "number", "exclusiveMinimum": 0, "maximum": _LONGEST_TIMEOUT_S}
        box.add(
            "run_command",
            workspace.run_command,
            action="run_command",
            description=f"Run a shell command in the workspace. Time limit: {COMMAND_TIMEOUT_S:g} s unless you set it.",
            parameters=_schema(
                {"command": {"type": "string", "minLength": 1}, "timeout_s": limit},
                ["command"],
            ),
        )


class _Workspace:
    def __init__(self, environment: EnvironmentProvider) -> None:
        self._environment: EnvironmentProvider = environment

    async def read_file(self, params: dict[str, Any], _: str = "") -> str:
        path: str = params["path"]
        try:
            content = await self._environment.read(path)
        except WorkspaceError as error:
            raise ToolRefusal(str(error)) from error
        if content is None:
            raise ToolRefusal(f"there is no file {path!r} in the workspace")
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolRefusal(f"{path!r} is not a text file ({len(content)} bytes)") from None

    async def write_file(self, params: dict[str, Any], _: str = "") -> dict[str, Any]:
        content = str(params["content"]).encode("utf-8", "replace")
        try:
            await self._environment.write(params["path"], content)
        except WorkspaceError as error:
            raise ToolRefusal(str(error)) from error
        return {"path": params["path"], "bytes": len(content)}

    async def list_files(self, params: dict[str, Any], _: str = "") -> list[str]:
        return list(await self._environment.list_files())

    async def run_command(self, params: dict[str, Any], _: str = "") -> dict[str, Any]:
        if "\0" in params["command"]:
            raise ToolRefusal("a command cannot contain a NUL character")
        timeout_s: float = params.get("timeout_s", COMMAND_TIMEOUT_S)
        result = await self._environment.run(params["command"], timeout_s=timeout_s)
        answer: dict[str, Any] = {
            "exit_code": result.exit_code,
            "stdout": result.stdout,
            "stderr": result.stderr,
        }
        if result.timed_out:
            answer["timed_out_after_s"] = timeout_s
        return answer


def _schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


async def build_toolbox(trial: TrialContext, *, allow_commands: bool) -> ToolBox:
    """The tools of a trial. Actions come first, so that they keep their names; then service methods, files and
    commands.

    A command that a model wrote runs only in a sandbox, or if the user allowed it. Otherwise the tool is left out and a
    note says why.
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
                service=method.service,
            )
    sandboxed = trial.environment.sandboxed
    commands = allow_commands or sandboxed
    add_workspace_tools(box, trial.environment, commands=commands)
    if not commands:
        message = (
            f"the agent cannot run commands: the environment {trial.environment.name!r} is not a sandbox "
            "(allow it with --allow-commands)"
        )
        trial.emit(Noted(at_ms=trial.elapsed_ms(), message=message))
    return box


def _performing(services: Services, name: str) -> ToolFunction:
    async def run(arguments: dict[str, Any], _: str) -> Any:
        return await services.perform(name, arguments, recorded=True)

    return run


def _calling(services: Services, method: ServiceMethod) -> ToolFunction:
    async def run(arguments: dict[str, Any], action_id: str) -> Any:
        named = {name: value for name, value in arguments.items() if name != "args"}
        args = list(arguments.get("args", []))
        return (await services.answer(method.service, method.method, args, named, action_id=action_id)).value

    return run
