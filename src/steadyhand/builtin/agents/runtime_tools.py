"""The built-in agent's tools on the trial's workspace: files, and commands where they are allowed."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from steadyhand.errors import PluginError, WorkspaceError
from steadyhand.ports.agent import ServiceMethod, Services, TrialContext
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.records.chat import ToolSpec
from steadyhand.records.event import Noted

_LONGEST = 64
_ANY_OBJECT: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


class ToolRefusal(Exception):
    """The tool could not do it, and the model is to read why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`action` is the name it has in the trajectory; `spec.name` the one the model calls it by."""

    action: str
    spec: ToolSpec
    run: Callable[[dict[str, Any]], Awaitable[Any]]

    def complaint(self, arguments: dict[str, Any]) -> str | None:
        """What is wrong with the arguments, or None. Raises `PluginError` when the tool's own schema is broken."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError, ValidationError, relevance

        try:
            Draft202012Validator.check_schema(self.spec.parameters)
        except SchemaError as error:
            raise PluginError(f"the parameters of {self.action!r} are not a JSON Schema: {error.message}") from error
        validator: Any = Draft202012Validator(self.spec.parameters)
        errors: list[ValidationError] = sorted(validator.iter_errors(arguments), key=relevance)
        return "; ".join(f"{error.json_path}: {error.message}" for error in errors[:5]) or None


class ToolBox:
    """Tools under names that are unique and that every provider takes."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.tools

    def add(
        self,
        wanted: str,
        run: Callable[[dict[str, Any]], Awaitable[Any]],
        *,
        action: str,
        description: str = "",
        parameters: dict[str, Any] | None = None,
    ) -> None:
        name = self._free(wanted)
        spec = ToolSpec(name=name, description=description, parameters=parameters or _ANY_OBJECT)
        self.tools[name] = Tool(action=action, spec=spec, run=run)

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
    """The name with everything that providers refuse replaced by `_`, at most 64 characters."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", wanted)[:_LONGEST] or "tool"


COMMAND_TIMEOUT_S = 60.0
_LONGEST_TIMEOUT_S = 600.0
_PATH: dict[str, Any] = {"type": "string", "minLength": 1, "description": "Path inside the workspace."}


def add_workspace_tools(box: ToolBox, environment: EnvironmentProvider, *, commands: bool) -> None:
    """Add the tools, save those that a plugin's action of the same name stands in for.

    A file operation that the workspace refuses goes back to the model: it is most likely a bad path, and an
    environment that is really gone fails the trial when its files are captured after the step.
    """
    workspace = _Workspace(environment)
    if "read_file" not in box:
        box.add(
            "read_file",
            workspace.read_file,
            action="read_file",
            description="Read a text file of the workspace.",
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
            description="List every file of the workspace.",
            parameters=_schema({}, []),
        )
    if commands and "run_command" not in box:
        limit = {"type": "number", "exclusiveMinimum": 0, "maximum": _LONGEST_TIMEOUT_S}
        box.add(
            "run_command",
            workspace.run_command,
            action="run_command",
            description=f"Run a shell command in the workspace. It has {COMMAND_TIMEOUT_S:g} s unless you say more.",
            parameters=_schema(
                {"command": {"type": "string", "minLength": 1}, "timeout_s": limit},
                ["command"],
            ),
        )


class _Workspace:
    def __init__(self, environment: EnvironmentProvider) -> None:
        self._environment: EnvironmentProvider = environment

    async def read_file(self, params: dict[str, Any]) -> str:
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

    async def write_file(self, params: dict[str, Any]) -> dict[str, Any]:
        content = str(params["content"]).encode("utf-8", "replace")
        try:
            await self._environment.write(params["path"], content)
        except WorkspaceError as error:
            raise ToolRefusal(str(error)) from error
        return {"path": params["path"], "bytes": len(content)}

    async def list_files(self, params: dict[str, Any]) -> list[str]:
        return list(await self._environment.list_files())

    async def run_command(self, params: dict[str, Any]) -> dict[str, Any]:
        if "\0" in params["command"]:
            raise ToolRefusal("a command cannot hold a NUL character")
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
