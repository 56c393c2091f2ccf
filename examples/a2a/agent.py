"""A small agent behind the Agent2Agent protocol, made with the official SDK. Start it, then run the scenario:

pip install 'a2a-sdk[http-server]' uvicorn 'steadyhand[a2a]'
python examples/a2a/agent.py &
steadyhand run examples/a2a/order_status.scenario.yaml --agent a2a:http://127.0.0.1:9999
"""

import sys

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 9999
ORDERS = {"A-1042": "delivered on Monday"}


class Desk(AgentExecutor):
    """Asks for the number of the order, and answers with its state and a receipt."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        number = next((number for number in ORDERS if number in context.get_user_input()), None)
        if number is None:
            await updater.requires_input(new_text_message("What is the number of your order?"))
            return
        await updater.add_artifact([Part(text=f"{number},{ORDERS[number]}\n", filename="receipt.csv")])
        await updater.complete(new_text_message(f"Order {number} was {ORDERS[number]}."))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def app() -> Starlette:
    url = f"http://127.0.0.1:{PORT}/rpc"
    card = AgentCard(
        name="Order desk",
        description="Knows where orders are.",
        version="1.0",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id="status", name="Status", description="The state of an order.", tags=["orders"])],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )
    handler = DefaultRequestHandler(Desk(), InMemoryTaskStore(), card)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")])


if __name__ == "__main__":
    uvicorn.run(app(), port=PORT, log_level="error")
