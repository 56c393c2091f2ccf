"""Your own agent. Arguments are passed by parameter name; `docs/agents.md` lists the parameters."""

import re
from typing import Any

from steadyhand import Message


async def answer(message: str, messages: list[Message], action: Any) -> str:
    """Find the order number in what the user has said so far, and say what happens next."""
    said = " ".join(each.content for each in messages if each.role == "user")
    found = re.search(r"[A-Z]-\d+", said)
    if found is None:
        return "Which order is it? The number is on the receipt."
    await action("FIND_ORDER", {"number": found[0]}, {"state": "on its way"})
    if "money back" in message:
        return f"It is about order {found[0]}. A colleague decides on refunds and will write to you today."
    return f"Thank you. I am looking into order {found[0]}."
