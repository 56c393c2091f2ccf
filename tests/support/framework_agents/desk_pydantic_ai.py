from pydantic_ai import Agent
from shop import call

agent = Agent("openai-chat:gpt-4o-mini", defer_model_check=True, instructions="Look orders up. You cannot refund.")


@agent.tool_plain
def find_order(number: str) -> str:
    """The state of an order."""
    return call("find_order", {"number": number})


@agent.tool_plain
def refund(number: str) -> str:
    """Pay an order back."""
    return call("refund", {"number": number})


async def answer(message: str):
    return await agent.run(message)
