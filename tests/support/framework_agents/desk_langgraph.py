from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from shop import call


@tool
def find_order(number: str) -> str:
    """The state of an order."""
    return call("find_order", {"number": number})


@tool
def refund(number: str) -> str:
    """Pay an order back."""
    return call("refund", {"number": number})


TOOLS = [find_order, refund]


async def model(state: MessagesState):
    return {"messages": [await ChatOpenAI(model="gpt-4o-mini").bind_tools(TOOLS).ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("model", model)
builder.add_node("tools", ToolNode(TOOLS))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")
graph = builder.compile()


async def answer(message: str):
    return await graph.ainvoke({"messages": [{"role": "user", "content": message}]})
