"""Test a Pydantic AI agent. Needs `pip install "pydantic-ai-slim[openai]"`.

steadyhand run examples/bring_your_own --agent python:./with_pydantic_ai.py:Desk
"""

from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage

agent = Agent(
    "openai-chat:gpt-4o-mini",
    deps_type=Any,
    defer_model_check=True,
    instructions="You are a help desk. Look up orders before you talk about them. You cannot promise refunds.",
)


@agent.tool
async def find_order(context: RunContext[Any], number: str) -> str:
    """The state of an order."""
    state = "on its way"
    await context.deps("FIND_ORDER", {"number": number}, state)
    return state


class Desk:
    """One instance per trial, so the exchange is remembered only within the trial."""

    def __init__(self) -> None:
        self.history: list[ModelMessage] = []

    async def respond(self, message: str, action: Any) -> str:
        result = await agent.run(message, deps=action, message_history=self.history)
        self.history = result.all_messages()
        return result.output
