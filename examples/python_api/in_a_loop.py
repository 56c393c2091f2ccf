"""An agent of one's own, run where an event loop runs already: a web service, a notebook, an asynchronous test.

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
    """The agent: called in this process, with what its parameters ask for by name."""
    await asyncio.sleep(0)
    return f"Good morning, {message.removeprefix('I am ').rstrip('.')}."


def curt(message: str) -> str:
    """Another one; a plain function runs in a thread."""
    return "Yes?" if message else ""


async def main() -> None:
    good = await steadyhand.run_async(GREETING, agent=polite)
    print(f"polite: {good.exit_code.name}")
    bad = steadyhand.run(GREETING, agent=curt)  # has a thread of its own, and holds this loop up until it is done
    print(f"curt: {bad.exit_code.name}")
    try:
        bad.assert_passed()
    except AssertionError as error:
        print(str(error).splitlines()[2])  # the rest is the evidence


if __name__ == "__main__":
    asyncio.run(main())
