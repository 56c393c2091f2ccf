"""The `http` agent: any agent behind an OpenAI-compatible chat endpoint."""

from __future__ import annotations

from pydantic import Field

from steadyhand.builtin.agents.options import TimedOptions, shown_url
from steadyhand.errors import AgentError, ModelError
from steadyhand.plugins.plugin import AgentSettings
from steadyhand.ports.agent import Reply, Shows, TrialContext, Turn
from steadyhand.ports.model import ChatModel
from steadyhand.records.chat import ChatRequest, ChatResponse


class HttpAgentOptions(TimedOptions):
    """`api_key_env` names the variable that holds the agent's key."""

    api_key_env: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = {}


class HttpAgent:
    """Sends the whole exchange and replies with the answer, timed at the socket.

    The agent has its own system prompt and runs its own tools: the scenario's `character` is not sent, and an answer
    that asks us to run a tool is an error. `client` belongs to this trial and is closed with it.
    """

    shows: Shows = Shows(
        advice="to check what it does, bring it as a `python:` or `command:` agent, which reports its actions and "
        "works with the services, the workspace and the database of the trial"
    )
    uses_plugins: bool = False

    def __init__(self, settings: AgentSettings, client: ChatModel) -> None:
        self._name: str = f"http:{shown_url(settings.target)}"
        self._client: _AskedOnce = _AskedOnce(client, self._name)
        self._trial: TrialContext | None = None

    @property
    def name(self) -> str:
        return self._name

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial

    async def respond(self, turn: Turn) -> Reply:
        assert self._trial is not None, "respond before open"
        request = ChatRequest(messages=turn.messages, seed=self._trial.seed, purpose="agent")
        response = await self._trial.call(self._client, request)
        if response.tool_calls:
            asked = ", ".join(call.name for call in response.tool_calls)
            raise AgentError(
                f"{self._name} asks for the tools {asked} to be run; an `http` agent runs its own. To test a bare "
                "model with tools, use the `runtime` agent with it as --model"
            )
        return Reply(text=response.text)

    async def close(self) -> None:
        self._trial = None
        await self._client.close()


class _AskedOnce:
    """Retry only if the agent cannot have started: it may have acted before it failed."""

    def __init__(self, client: ChatModel, name: str) -> None:
        self._client = client
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        try:
            return await self._client.attempt(request, zero=zero)
        except ModelError as error:
            unsent = error.attempt is None or error.attempt.sent_ms is None
            error.retryable = error.retryable and (unsent or error.kind == "rate_limit")
            raise

    async def close(self) -> None:
        await self._client.close()
