"""The `runtime` agent: a chat model in a tool loop, with tools on the workspace. Agent scenarios use it by default."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any, ClassVar

import msgspec
from pydantic import Field

from steadyhand.builtin.agents.toolbox import WORKSPACE_TOOLS, Tool, ToolBox, ToolRefusal, build_toolbox
from steadyhand.errors import LimitExceeded, SetupError
from steadyhand.plugins.plugin import AgentSettings, Options, read_options
from steadyhand.ports.agent import EVERYTHING_SEEN, Reply, Shows, TrialContext, Turn
from steadyhand.ports.model import ChatModel
from steadyhand.ports.services import ServiceFault
from steadyhand.records.base import plain, shorten
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, ToolCall
from steadyhand.records.event import UNREADABLE, ActionStatus, ActionTaken, Observed, Thought, ToolsOffered
from steadyhand.records.scenario import Character
from steadyhand.runtime.values import as_text, kept_part

_TASK = "Do what the user asks, with your tools where they help, and then answer the user."
DEFAULT_STEPS = 20
_TOOL_TEXT_LIMIT = 65_536


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
    own_tools: ClassVar[tuple[str, ...]] = WORKSPACE_TOOLS
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
        tools = tuple(tool.offered for tool in self._box.tools.values())
        trial.emit(ToolsOffered(at_ms=trial.elapsed_ms(), tools=tools, complete=True))

    async def respond(self, turn: Turn) -> Reply:
        """Raises `LimitExceeded("agent_steps")` if the model still calls tools after `max_steps` calls."""
        messages, between = self._memory.begin(turn.messages)
        for calls_left in reversed(range(self._max_steps)):
            response = await self._ask([*messages, *between])
            if not response.tool_calls or _broke_off(response):
                for call in response.tool_calls:
                    self._not_executed(call, "interrupted", "the answer broke off")
                return Reply(text=response.text)
            if response.text.strip():
                self._emit(Thought(at_ms=self._now(), text=response.text))
            if not calls_left:  # the model would never see the results of these tools
                for call in response.tool_calls:
                    self._not_executed(call, "rejected", f"the limit of {self._max_steps} model calls is reached")
                break
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
        """What the model is told. A call that cannot be carried out counts as an action that was only tried."""
        tool = self._box.tools.get(call.name)
        if tool is None:
            known = ", ".join(self._box.tools)
            return self._not_executed(call, "rejected", f"there is no tool {call.name!r}; the tools are: {known}")
        if call.raw is not None:
            wrong = f"the arguments are not a JSON object: {shorten(call.raw, 200)}"
            return self._not_executed(call, "invalid", wrong)
        if (misfit := tool.complaint(call.arguments)) is not None:
            return self._not_executed(call, "invalid", misfit)
        return await self._act(tool, call)

    def _not_executed(self, call: ToolCall, status: ActionStatus, why: str) -> str:
        given = call.arguments if call.raw is None else {UNREADABLE: shorten(call.raw, 1000)}
        self._record(call, status, {"error": f"not executed: {why}"}, at_ms=self._now(), params=given)
        return f"Error: {why}"

    async def _act(self, tool: Tool, call: ToolCall) -> str:
        clock = self._opened().clock
        at_ms, began = self._now(), clock.now()
        self._actions += 1
        action_id = f"action-{self._actions}"
        params: dict[str, Any] = plain(call.arguments)
        status: ActionStatus = "error"
        content: Any = None
        try:
            content = await tool.run(call.arguments, action_id)
            answer, status = as_text(content), "success"
        except (ServiceFault, ToolRefusal) as fault:
            if isinstance(fault, ServiceFault) and tool.offered.service is not None:
                status = fault.outcome
            content = _fault(fault)
            answer = f"Error: {as_text(content['error'] if len(content) == 1 else content)}"
        except asyncio.CancelledError:
            status = "interrupted"
            raise
        finally:
            took_ms = round((clock.now() - began) * 1000.0, 3)
            self._record(call, status, content, at_ms=at_ms, params=params, duration_ms=took_ms, action_id=action_id)
        return shorten(answer, _TOOL_TEXT_LIMIT, count=True)

    def _record(
        self,
        call: ToolCall,
        status: ActionStatus,
        content: Any,
        *,
        at_ms: float,
        params: dict[str, Any],
        duration_ms: float = 0.0,
        action_id: str | None = None,
    ) -> None:
        if action_id is None:
            self._actions += 1
            action_id = f"action-{self._actions}"
        tool = self._box.tools.get(call.name)
        name = call.name if tool is None else tool.action
        self._emit(
            ActionTaken(
                at_ms=at_ms,
                id=action_id,
                name=name,
                params=params,
                status=status,
                duration_ms=duration_ms,
                names=() if tool is None else tool.offered.names,
                call_id=call.id or None,
            )
        )
        kept, cut = kept_part(content)
        self._emit(Observed(at_ms=self._now(), action_id=action_id, name=name, content=kept, cut=cut))

    def _emit(self, event: Thought | ActionTaken | Observed) -> None:
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
