"""An A2A agent made with the official SDK, on loopback and in its own thread.

What it does with a message is a function supplied by the test."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette

Work = Callable[["Heard"], Awaitable[None]]


@dataclass
class Heard:
    """A message that arrived, and what the agent can do with it."""

    text: str
    context_id: str
    updater: TaskUpdater
    queue: EventQueue
    headers: dict[str, str]
    continues: bool
    context: RequestContext

    async def say(self, text: str) -> None:
        """Sends a message alone, without a task."""
        await self.queue.enqueue_event(new_text_message(text, context_id=self.context_id))

    async def begin(self) -> None:
        """From here on there is a task."""
        if self.context.current_task is None:
            assert self.context.message is not None
            await self.queue.enqueue_event(new_task_from_user_message(self.context.message))
        await self.updater.start_work()

    async def hand_over(self, *parts: Part, artifact: str = "answer", append: bool = False) -> None:
        await self.updater.add_artifact(list(parts), artifact_id=artifact, append=append)

    def message(self, text: str) -> Any:
        return new_text_message(text, context_id=self.context_id)


@dataclass
class A2aServer:
    url: str
    heard: list[Heard] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)


class _Executor(AgentExecutor):
    def __init__(self, server: A2aServer, work: Work) -> None:
        self._server = server
        self._work = work

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.call_context is not None
        heard = Heard(
            text=context.get_user_input(),
            context_id=context.context_id or "",
            updater=TaskUpdater(event_queue, context.task_id or "", context.context_id or ""),
            queue=event_queue,
            headers=context.call_context.state.get("headers", {}),
            continues=context.current_task is not None,
            context=context,
        )
        self._server.heard.append(heard)
        await self._work(heard)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self._server.cancelled.append(context.task_id or "")
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


@asynccontextmanager
async def a2a_server(
    work: Work, *, streaming: bool = True, binding: str = "JSONRPC", elsewhere: str = ""
) -> AsyncGenerator[A2aServer]:
    """`elsewhere` is where the card says the agent is."""
    bound = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    interface = AgentInterface(url=elsewhere or f"{url}/rpc", protocol_binding=binding, protocol_version="1.0")
    card = AgentCard(
        name="Desk",
        description="Answers.",
        version="1",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=streaming),
        skills=[AgentSkill(id="desk", name="Desk", description="Answers.", tags=["desk"])],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )
    found = A2aServer(url)
    handler = DefaultRequestHandler(_Executor(found, work), InMemoryTaskStore(), card)
    routes = [*create_agent_card_routes(card)]
    routes += (
        create_jsonrpc_routes(handler, "/rpc")
        if binding == "JSONRPC"
        else create_rest_routes(handler, path_prefix="/rpc")
    )
    config = uvicorn.Config(Starlette(routes=routes), log_level="error", ws="none", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=asyncio.run, args=(server.serve(sockets=[bound]),))
    thread.start()
    try:
        yield found  # the socket is already listening; the server answers as soon as it is up
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.to_thread(thread.join)
