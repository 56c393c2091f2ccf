import json

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from openai import AsyncOpenAI
from shop import call


@tool
def find_order(number: str) -> str:
    """The state of an order."""
    return call("find", {"number": number})


@tool
def refund(number: str) -> str:
    """Pay an order back."""
    return call("refund", {"number": number})


TOOLS = [find_order, refund]
OFFERED = [
    {"type": "function", "function": {"name": each.name, "parameters": each.args_schema.model_json_schema()}}
    for each in TOOLS
]


def _sent(message):
    if isinstance(message, HumanMessage):
        return {"role": "user", "content": message.content}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    calls = [
        {
            "id": each["id"],
            "type": "function",
            "function": {"name": each["name"], "arguments": json.dumps(each["args"])},
        }
        for each in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})}


async def model(state: MessagesState):
    async with AsyncOpenAI() as client:
        completion = await client.chat.completions.create(
            model="gpt-4o-mini", messages=[_sent(each) for each in state["messages"]], tools=OFFERED
        )
    said = completion.choices[0].message
    calls = [
        {"id": each.id, "name": each.function.name, "args": json.loads(each.function.arguments)}
        for each in said.tool_calls or ()
    ]
    return {"messages": [AIMessage(content=said.content or "", tool_calls=calls)]}


def after_model(state: MessagesState):
    return "tools" if state["messages"][-1].tool_calls else END


builder = StateGraph(MessagesState)
builder.add_node("model", model)
builder.add_node("tools", ToolNode(TOOLS))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", after_model)
builder.add_edge("tools", "model")
graph = builder.compile()


async def answer(message: str):
    return await graph.ainvoke({"messages": [HumanMessage(content=message)]})
