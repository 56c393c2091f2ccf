"""Test an agent built with the OpenAI Agents SDK. Needs `pip install openai-agents`.

steadyhand run examples/bring_your_own --agent python:./with_openai_agents.py:answer
"""

from typing import Any

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    RunContextWrapper,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from steadyhand import Message

set_tracing_disabled(disabled=True)


@function_tool
async def find_order(context: RunContextWrapper[Any], number: str) -> str:
    """The state of an order."""
    state = "on its way"
    await context.context("FIND_ORDER", {"number": number}, state)
    return state


async def answer(messages: list[Message], action: Any) -> str:
    """Each turn brings the whole exchange, so there is nothing to remember here."""
    async with AsyncOpenAI() as client:
        desk = Agent(
            name="Help desk",
            instructions="Look up orders before you talk about them. You cannot promise refunds.",
            tools=[find_order],
            model=OpenAIChatCompletionsModel("gpt-4o-mini", openai_client=client),
        )
        asked: Any = [{"role": each.role, "content": each.content} for each in messages]
        result = await Runner.run(desk, asked, context=action)
    return str(result.final_output)
