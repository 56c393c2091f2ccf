"""Test a LangGraph graph. Needs `pip install langgraph`, but no model: its nodes are plain code.

steadyhand run examples/bring_your_own --agent python:./with_langgraph.py:answer
"""

import re
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from steadyhand import Message


class Desk(TypedDict, total=False):
    said: list[str]
    order: str
    reply: str


async def find_order(state: Desk, config: RunnableConfig) -> Desk:
    found = re.search(r"[A-Z]-\d+", " ".join(state["said"]))
    if found is None:
        return {"reply": "Which order is it? The number is on the receipt."}
    await config["configurable"]["action"]("FIND_ORDER", {"number": found[0]}, "on its way")
    return {"order": found[0]}


async def speak(state: Desk) -> Desk:
    if "money back" in state["said"][-1]:
        return {"reply": f"It is about order {state['order']}. A colleague decides on refunds and will write to you."}
    return {"reply": f"Thank you. I am looking into order {state['order']}."}


def _next(state: Desk) -> str:
    return END if "reply" in state else "speak"


builder = StateGraph(Desk)
builder.add_node("find_order", find_order)
builder.add_node("speak", speak)
builder.add_edge(START, "find_order")
builder.add_conditional_edges("find_order", _next)
builder.add_edge("speak", END)
graph = builder.compile()


async def answer(messages: list[Message], action: Any) -> str:
    """LangGraph passes anything besides the state to the nodes through `configurable`."""
    said = [each.content for each in messages if each.role == "user"]
    state = await graph.ainvoke({"said": said}, config={"configurable": {"action": action}})
    return state["reply"]
