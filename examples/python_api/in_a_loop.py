"""Test your own agent inside a running event loop: a web service, a notebook, an asynchronous test.

python examples/python_api/in_a_loop.py
"""

from __future__ import annotations

import asyncio

import steadyhand

GREETING = {
    "id": "greeting",
    "name": "Greeting",
    "description": "The agent greets by name.",
    "environment": {"type": "local"},
    "run": [{"input": "I am Ada.", "evaluations": [{"type": "string_contains", "value": "Ada"}]}],
    "judgment": {"strategy": "all_pass"},
}


async def polite(message: str) -> str:
    """The agent: called in this process, with arguments by parameter name."""
    await asyncio.sleep(0)
    return f"Good morning, {message.removeprefix('I am ').rstrip('.')}."


def curt(message: str) -> str:
    """Another agent; a plain function runs in a thread."""
    return "Yes?" if message else ""


async def main() -> None:
    good = await steadyhand.run_async(GREETING, agent=polite)
    print(f"polite: {good.exit_code.name}")
    bad = steadyhand.run(GREETING, agent=curt)  # uses its own thread, and blocks this loop until it is done
    print(f"curt: {bad.exit_code.name}")
    try:
        bad.assert_passed()
    except AssertionError as error:
        print(str(error).splitlines()[2])  # the rest is the evidence


if __name__ == "__main__":
    asyncio.run(main())
