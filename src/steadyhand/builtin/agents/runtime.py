"""The `runtime` agent: a chat model in a tool loop, with tools on the workspace. Agent scenarios use it by default."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from pydantic import Field

from steadyhand.errors import LimitExceeded, PluginError, SetupError, WorkspaceError
from steadyhand.judging.bounded_schema import complaint
from steadyhand.plugins.plugin import AgentSettings, Options, read_options
from steadyhand.ports.agent import EVERYTHING_SEEN, Reply, Shows, TrialContext, Turn
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel
from steadyhand.ports.services import ServiceFault, ServiceMethod, Services
from steadyhand.records.base import plain, shorten
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, ToolCall, ToolSpec
from steadyhand.records.event import ActionStatus, ActionTaken, Noted, Observed, Thought
from steadyhand.records.scenario import Character
from steadyhand.runtime.values import as_text, kept_part

_TASK = "Do what the user asks, with your tools where they help, and then answer the user."
DEFAULT_STEPS = 20
_TOOL_TEXT_LIMIT = 65_536
_LONGEST = 64
_ANY_OBJECT: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
COMMAND_TIMEOUT_S = 60.0
_LONGEST_TIMEOUT_S = 600.0
_PATH: dict[str, Any] = {"type": "string", "minLength": 1, "description": "Path inside the workspace."}


class ToolMemory:
    """The tool calls and their results, which the messages of a turn do not include."""

    def __init__(self) -> None:
        self._turns: list[tuple[tuple[Message, ...], list[Message]]] = []

    def begin(self, messages: tuple[Message, ...]) -> tuple[list[Message], list[Message]]:
        """The exchange with the tool messages of earlier turns, and the list for those of this turn.

        An earlier turn counts only if the exchange still begins as it did then.
        """
        whole: list[Message] = []
        done = 0
        for prefix, between in self._turns:
            if done <= len(prefix) and messages[: len(prefix)] == prefix:
                whole += [*messages[done : len(prefix)], *between]
                done = len(prefix)
        whole += messages[done:]
        between: list[Message] = []
        self._turns.append((messages, between))
        return whole, between


def system_prompt(character: Character | None) -> str:
    """The character's name, its `system` (or a short general one) and its bio."""
    parts: list[str] = []
    if character is not None and character.name:
        parts.append(f"You are {character.name}.")
    parts.append(character.system if character is not None and character.system else _TASK)
    if character is not None and character.bio:
        parts.append("About you:\n" + "\n".join(f"- {line}" for line in character.bio))
    return "\n\n".join(parts)


class RuntimeOptions(Options):
    max_steps: int = Field(default=DEFAULT_STEPS, ge=1)
    allow_commands: bool = False


class RuntimeAgent:
    """Asks the model, runs the tools it calls, returns their results to it, and replies with its last text.

    Options: `max_steps`, the maximum number of model calls in a turn, and `allow_commands`, whether commands that the
    model writes may run outside a sandbox.
    """

    shows: Shows = EVERYTHING_SEEN
    asks_model: ClassVar[str] = "repeatedly"
    options: ClassVar[type[Options]] = RuntimeOptions

    def __init__(self, settings: AgentSettings) -> None:
        """Raises `SetupError` without a model, or for an invalid option."""
        if settings.model is None:
            raise SetupError("the `runtime` agent needs a model: give --model, or `model` in steadyhand.toml")
        self._model: ChatModel = settings.model
        options = read_options(RuntimeOptions, settings.options, "agent runtime")
        importlib.import_module("jsonschema")  # checks arguments; in the middle of a run it would disturb timed calls
        self._max_steps: int = options.max_steps
        self._allow_commands: bool = options.allow_commands
        self._trial: TrialContext | None = None
        self._box: ToolBox = ToolBox()
        self._memory: ToolMemory = ToolMemory()
        self._actions: int = 0

    @property
    def name(self) -> str:
        return f"runtime:{self._model.name}"

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial
        self._memory = ToolMemory()
        self._box = await build_toolbox(trial, allow_commands=self._allow_commands)

    async def respond(self, turn: Turn) -> Reply:
        """Raises `LimitExceeded("agent_steps")` if the model still calls tools after `max_steps` calls."""
        messages, between = self._memory.begin(turn.messages)
        for calls_left in reversed(range(self._max_steps)):
            response = await self._ask([*messages, *between])
            if not response.tool_calls or _broke_off(response):
                return Reply(text=response.text)
            if response.text.strip():
                self._emit(Thought(at_ms=self._now(), text=response.text))
            if not calls_left:
                break  # the model would never see the results of these tools
            called = _distinct(response.tool_calls, len(between))
            answers = await self._run_all(called)
            between.append(Message(role="assistant", content=response.text, tool_calls=called))
            between.extend(answers)
        raise LimitExceeded("agent_steps", used=self._max_steps, allowed=self._max_steps, unit="calls")

    async def close(self) -> None:
        self._trial = None
        self._box = ToolBox()

    async def _ask(self, messages: list[Message]) -> ChatResponse:
        trial = self._opened()
        character = trial.scenario.character
        if not messages or messages[0].role != "system":
            messages = [Message(role="system", content=system_prompt(character)), *messages]
        request = ChatRequest(
            messages=tuple(messages),
            tools=self._box.specs,
            temperature=character.temperature if character else None,
            seed=trial.seed,
            purpose="agent",
        )
        return await trial.call(self._model, request)

    async def _run_all(self, calls: tuple[ToolCall, ...]) -> list[Message]:
        """The results in the order of the calls, which run concurrently. If one ends the trial, the others are
        cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._answer(call)) for call in calls]
        except ExceptionGroup as errors:
            raise _first(errors) from None
        return [
            Message(role="tool", content=task.result(), tool_call_id=call.id, name=call.name)
            for call, task in zip(calls, tasks, strict=True)
        ]

    async def _answer(self, call: ToolCall) -> str:
        """What the model is told. A call that cannot be carried out is noted, and does not count as an action."""
        tool = self._box.tools.get(call.name)
        if tool is None:
            wrong: str | None = f"there is no tool {call.name!r}; the tools are: {', '.join(self._box.tools)}"
        elif call.raw is not None:
            wrong = f"the arguments are not a JSON object: {shorten(call.raw, 200)}"
        else:
            wrong = tool.complaint(call.arguments)
        if tool is None or wrong is not None:
            self._emit(Noted(at_ms=self._now(), message=f"tool call {call.name!r} not executed: {wrong}"))
            return f"Error: {wrong}"
        return await self._act(tool, call.arguments)

    async def _act(self, tool: Tool, arguments: dict[str, Any]) -> str:
        trial = self._opened()
        self._actions += 1
        action_id = f"action-{self._actions}"
        at_ms, began = self._now(), trial.clock.now()
        params: dict[str, Any] = plain(arguments)
        status: ActionStatus = "success"
        try:
            content = await tool.run(arguments)
            answer = as_text(content)
        except (ServiceFault, ToolRefusal) as fault:
            status, content = "error", _fault(fault)
            answer = f"Error: {as_text(content['error'] if len(content) == 1 else content)}"
        trial.emit(
            ActionTaken(
                at_ms=at_ms,
                id=action_id,
                name=tool.action,
                params=params,
                status=status,
                duration_ms=round((trial.clock.now() - began) * 1000.0, 3),
            )
        )
        kept, cut = kept_part(content)
        trial.emit(Observed(at_ms=self._now(), action_id=action_id, name=tool.action, content=kept, cut=cut))
        return shorten(answer, _TOOL_TEXT_LIMIT, count=True)

    def _emit(self, event: Thought | Noted) -> None:
        self._opened().emit(event)

    def _now(self) -> float:
        return self._opened().elapsed_ms()

    def _opened(self) -> TrialContext:
        assert self._trial is not None, "used before open"
        return self._trial


def _broke_off(response: ChatResponse) -> bool:
    """Whether the answer was cut off, so that its tool calls may be incomplete."""
    return response.finish_reason not in (None, FinishReason.STOP, FinishReason.TOOL_CALLS)


def _distinct(calls: tuple[ToolCall, ...], before: int) -> tuple[ToolCall, ...]:
    """The calls with unique ids; some servers send none, or the same one twice."""
    ids = [call.id for call in calls]
    if all(ids) and len(set(ids)) == len(ids):
        return calls
    return tuple(msgspec.structs.replace(call, id=f"call_{before}_{index}") for index, call in enumerate(calls))


def _fault(fault: ServiceFault | ToolRefusal) -> dict[str, Any]:
    content: dict[str, Any] = {"error": str(fault)}
    if isinstance(fault, ServiceFault):
        content |= {key: value for key, value in (("code", fault.code), ("status", fault.status)) if value is not None}
    return content


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType] - narrowing forgets what the group holds


class ToolRefusal(Exception):
    """The tool failed; the model is told why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`action` is its name in the trajectory, `spec.name` the one that the model uses."""

    action: str
    spec: ToolSpec
    run: Callable[[dict[str, Any]], Awaitable[Any]]

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


def _performing(services: Services, name: str) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def run(arguments: dict[str, Any]) -> Any:
        return await services.perform(name, arguments, recorded=True)

    return run


def _calling(services: Services, method: ServiceMethod) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def run(arguments: dict[str, Any]) -> Any:
        named = {name: value for name, value in arguments.items() if name != "args"}
        return await services.call(method.service, method.method, list(arguments.get("args", [])), named)

    return run
