"""The built-in agent's tools on the trial's workspace: files, and commands where they are allowed."""

from __future__ import annotations

from typing import Any

from steadyhand.builtin.agents.runtime_tool import ToolBox, ToolRefusal
from steadyhand.errors import WorkspaceError
from steadyhand.ports.environment import EnvironmentProvider

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
