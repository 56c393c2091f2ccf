"""The HTTP server of a run: a separate endpoint for each trial, with mounts behind it.

    http://127.0.0.1:PORT/TOKEN/MOUNT/...

`TOKEN` is unguessable and belongs to one trial, so the address alone identifies the trial of a request. Each kind of
service is a `Mount`, which is given the request and the endpoint it came through. A request without a token goes to the
open mount, if any, which determines the trial itself.

The address of an agent that we started is only for its process and what that started, where the system can tell. A
process that serves many trials keeps one address, which leads to the trial at hand, but no connections: they may be in
other hands by then.

Work continues if its client disconnects, because the agent has already made the request, unless the mount handles that
itself. It ends when the endpoint is closed.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from steadyhand.children.peers import Sender, sender_of
from steadyhand.errors import SetupError
from steadyhand.gateway.connection import GatewayCall, GatewayConnection, GatewayRequest, GatewayResponse, refusal
from steadyhand.ports.agent import Addresses, AgentProcess, Shows, TrialContext
from steadyhand.ports.model import ChatModel
from steadyhand.records.event import Noted

LOOPBACK = "127.0.0.1"
_TOKEN_BYTES = 18
_MOMENT_S = 1.0
_DOUBTS: Mapping[Sender, str] = {
    "gone": "had ended before it was read",
    "marked": "is no longer below that of the agent, and could be another's",
}
_MOST_CLOSED = 10_000
_ROUNDS = 10


class Address:
    """An unguessable URL. `model` answers its model calls, if any."""

    def __init__(self, origin: str, model: ChatModel | None, *, token: str = "", path: str = "") -> None:
        """`token` is that of an existing trial, and `path` the one of the URL if it differs."""
        self.token: str = token or secrets.token_urlsafe(_TOKEN_BYTES)
        self.base_url: str = f"{origin}/{path or self.token}"
        self.model: ChatModel | None = model

    def url(self, mount: str) -> str:
        return f"{self.base_url}/{mount}"


class TrialEndpoint:
    """The entry to one trial: `trial` receives the events."""

    def __init__(self, trial: TrialContext, address: Address) -> None:
        self.trial: TrialContext = trial
        self.address: Address = address
        self.model: ChatModel | None = address.model
        self.began: float = time.monotonic()
        self.at_work: dict[asyncio.Task[None], GatewayConnection] = {}
        self.process: asyncio.Future[AgentProcess] | None = None
        """The process that the addresses are for; None if we did not start the agent."""
        self.refused: int = 0
        """Requests of other processes."""
        self.doubts: list[str] = []
        """Requests that may have been another process's."""
        self.kept: dict[str, Any] = {}
        """State of the mounts for this trial, by mount name. Discarded with the trial."""

    def url(self, mount: str) -> str:
        return self.address.url(mount)


class Mount(Protocol):
    """A service behind every endpoint, under one name."""

    def addresses(self, address: Address) -> Addresses:
        """The addresses that an agent is given for this service; empty if it does not need it."""
        ...

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse: ...

    async def settle(self, endpoint: TrialEndpoint) -> None:
        """The agent has ended a turn: wait, for a limited time, for data in transit. An agent waits for its calls."""

    async def leave(self, endpoint: TrialEndpoint) -> None:
        """The agent is closed and the trial is about to end. Emit remaining events, and forget the endpoint."""


@runtime_checkable
class ObservingMount(Protocol):
    """A mount that observes the agent's actions."""

    def shows(self, endpoint: TrialEndpoint, declared: Shows) -> Shows:
        """What can currently be seen of the agent in this trial."""
        ...

    def doubts(self, endpoint: TrialEndpoint) -> tuple[str, ...]:
        """What arrived too late for the checks that needed it. Called after `leave`."""
        ...


def _bound(port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        found.close()
        reason = error.strerror if isinstance(error, OSError) else "there is no such port"
        raise SetupError(f"cannot listen on {LOOPBACK}:{port}: {reason}") from error
    return found


OpenHandler = Callable[[GatewayRequest], Awaitable[GatewayResponse]]


class GatewayServer:
    """One per run, on its event loop. Implements `ports.agent.ReusableAddresses`."""

    def __init__(self, port: int = 0) -> None:
        """Bind a port, 0 for any. Raises `SetupError` if it is not available."""
        self.mounts: dict[str, Mount] = {}
        self.late: Counter[str] = Counter()
        """Requests that arrived after their trial had ended, by trial."""
        self._in_the_open: dict[str, OpenHandler] = {}
        self._endpoints: dict[str, TrialEndpoint] = {}
        self._closed: dict[str, str] = {}
        """The trial that each address led to last, of those that lead nowhere now."""
        self._servers: list[asyncio.Server] = []
        self._connections: set[GatewayConnection] = set()
        self._socket: socket.socket = _bound(port)
        self._origin: str = f"http://{LOOPBACK}:{self._socket.getsockname()[1]}"
        self._more: list[socket.socket] = []
        self._starting: asyncio.Lock = asyncio.Lock()

    def mount(self, name: str, mount: Mount) -> None:
        self.mounts[name] = mount

    def mount_in_the_open(self, first: str, handler: OpenHandler) -> None:
        """Serve requests that name no trial and whose path begins with this segment. `path` is the whole path."""
        self._in_the_open[first] = handler

    async def start(self) -> None:
        """Start serving, once."""
        async with self._starting:
            if not self._servers:
                for bound in (self._socket, *self._more):
                    await self._listen(bound)

    async def listen(self, port: int) -> None:
        """Also serve on another port. Raises `SetupError` if it is in use."""
        await self._listen(_bound(port))

    def also_at(self, port: int) -> None:
        """Also serve on another port, once started. Raises `SetupError` if it is in use."""
        self._more.append(_bound(port))

    async def _listen(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(self._connect, sock=bound, backlog=1024))

    async def open_endpoint(self, trial: TrialContext, model: ChatModel | None = None) -> TrialEndpoint:
        await self.start()
        endpoint = TrialEndpoint(trial, Address(self._origin, model))
        self._endpoints[endpoint.address.token] = endpoint
        return endpoint

    def addresses(self, address: Address) -> Addresses:
        names: dict[str, str] = {}
        variables: dict[str, str] = {}
        for mount in self.mounts.values():
            found = mount.addresses(address)
            names.update(found.names)
            variables.update(found.variables)
        return Addresses(token=address.token, names=names, variables=variables)

    def reusable(self, model: ChatModel | None) -> Addresses:
        """Addresses that lead nowhere until they are pointed at a trial."""
        return self.addresses(Address(self._origin, model))

    def point(self, reusable: Addresses, trial: TrialContext, process: AgentProcess) -> Addresses:
        """Let the reusable addresses lead to this trial, which `process` serves; unchanged if it is not open here."""
        endpoint = self._endpoint_of(trial)
        if endpoint is None:
            return reusable
        self._endpoints[reusable.token] = endpoint
        self._closed.pop(reusable.token, None)
        self.expect(trial)
        self.claim(trial, process)
        return self.addresses(Address(self._origin, endpoint.model, token=endpoint.address.token, path=reusable.token))

    def rest(self, reusable: Addresses) -> None:
        endpoint = self._endpoints.pop(reusable.token, None)
        if endpoint is not None:
            self._note_closed(reusable.token, endpoint)
            self._let_go(endpoint)

    def _let_go(self, endpoint: TrialEndpoint) -> None:
        """Close the connections that the agent's process has opened for this trial."""
        for connection in self._connections:
            if connection.admitted[0] is endpoint:
                connection.close_if_idle()

    def expect(self, trial: TrialContext) -> None:
        if (endpoint := self._endpoint_of(trial)) is not None:
            endpoint.process = asyncio.get_running_loop().create_future()

    def claim(self, trial: TrialContext, process: AgentProcess) -> None:
        if (endpoint := self._endpoint_of(trial)) is not None and endpoint.process is not None:
            endpoint.process.set_result(process)

    def _endpoint_of(self, trial: TrialContext) -> TrialEndpoint | None:
        return next((endpoint for endpoint in self._endpoints.values() if endpoint.trial is trial), None)

    def endpoint(self, token: str) -> TrialEndpoint | None:
        return self._endpoints.get(token)

    @property
    def endpoints(self) -> tuple[TrialEndpoint, ...]:
        """The endpoints of the running trials."""
        return tuple(set(self._endpoints.values()))

    async def hear_out(self, endpoint: TrialEndpoint) -> None:
        """A client that disconnected before its agent replied has done so by now; noticing it takes a few iterations of
        the event loop."""
        for _ in range(_ROUNDS if endpoint.at_work else 0):
            await asyncio.sleep(0)

    async def settle(self, endpoint: TrialEndpoint) -> None:
        for mount in self.mounts.values():
            await mount.settle(endpoint)

    def shows(self, endpoint: TrialEndpoint, declared: Shows) -> Shows:
        for mount in self.mounts.values():
            if isinstance(mount, ObservingMount):
                declared = mount.shows(endpoint, declared)
        return declared

    def doubts(self, endpoint: TrialEndpoint) -> tuple[str, ...]:
        watching = [mount for mount in self.mounts.values() if isinstance(mount, ObservingMount)]
        return (*endpoint.doubts[:1], *(doubt for mount in watching for doubt in mount.doubts(endpoint)))

    async def close_endpoint(self, endpoint: TrialEndpoint) -> None:
        """From here on no request is accepted, and none is still being handled."""
        if self._endpoints.pop(endpoint.address.token, None) is None:
            return
        self._note_closed(endpoint.address.token, endpoint)
        for token in [token for token, open_endpoint in self._endpoints.items() if open_endpoint is endpoint]:
            del self._endpoints[token]
            self._note_closed(token, endpoint)
        under_way = tuple(endpoint.at_work)
        if under_way:
            await _hang_up(endpoint.at_work)
            many = (
                f"{len(under_way)} requests to the gateway were"
                if len(under_way) > 1
                else "1 request to the gateway was"
            )
            message = f"{many} still under way when the trial ended"
            endpoint.trial.emit(Noted(at_ms=endpoint.trial.elapsed_ms(), message=message, level="warning"))
        self._let_go(endpoint)
        for mount in self.mounts.values():
            await mount.leave(endpoint)

    def _note_closed(self, token: str, endpoint: TrialEndpoint) -> None:
        self._closed[token] = endpoint.trial.trial_id
        if len(self._closed) > _MOST_CLOSED:
            del self._closed[next(iter(self._closed))]

    async def close(self) -> None:
        for endpoint in tuple(self._endpoints.values()):
            await self.close_endpoint(endpoint)
        for server in self._servers:
            server.close()
        for bound in (self._socket, *self._more):
            bound.close()
        for connection in tuple(self._connections):
            connection.abort()
        tasks = [connection.task for connection in self._connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._servers.clear()

    def _connect(self) -> GatewayConnection:
        connection = GatewayConnection(self.answer, self._connections.discard)
        self._connections.add(connection)
        return connection

    async def answer(self, call: GatewayCall, connection: GatewayConnection) -> None:
        """Answer one request, as work of the trial whose address it was sent to."""
        path, _, query = call.target.partition("?")
        first, _, rest = path.lstrip("/").partition("/")
        endpoint = self._endpoints.get(first)
        if endpoint is None:
            await self._without_endpoint(call, connection, first, path.lstrip("/"), query)
            return
        name, _, below = rest.partition("/")
        task = asyncio.current_task()
        assert task is not None
        endpoint.at_work[task] = connection
        try:
            if endpoint.process is not None and not await self._admits(endpoint, connection, await endpoint.process):
                connection.refuse(refusal(403, "this address is for the agent of a trial and what it starts"))
                return
            mount = self.mounts.get(name)
            if mount is None:
                message = f"not found: /{name}; available: {', '.join(self.mounts) or 'nothing'}"
                await connection.send(refusal(404, message))
                return
            request = GatewayRequest(call.method, below, query, call.headers, bytes(call.body), connection)
            await connection.send(await self._served(mount, request, endpoint))
        finally:
            del endpoint.at_work[task]

    async def _admits(self, endpoint: TrialEndpoint, connection: GatewayConnection, process: AgentProcess) -> bool:
        """Whether the request comes from the agent's process or what it started, as far as can be known. Looked up
        once for a connection, which must be younger than the trial."""
        if connection.admitted == (endpoint, process) or (ends := connection.ends) is None:
            return True
        old = connection.opened < endpoint.began
        sender = "foreign" if old else await asyncio.to_thread(sender_of, *process, *ends)
        if sender != "foreign":
            connection.admitted = (endpoint, process)
            others = any(each.process is not None for each in self._endpoints.values() if each is not endpoint)
            if sender == "gone" or (sender == "marked" and others):
                endpoint.doubts.append(f"a request to the gateway came from a process that {_DOUBTS[sender]}")
            return True
        endpoint.refused += 1
        if endpoint.refused == 1:
            message = "a request to the gateway was refused: it came from a process that this agent did not start"
            endpoint.trial.emit(Noted(at_ms=endpoint.trial.elapsed_ms(), message=message, level="warning"))
        return False

    async def _served(self, mount: Mount, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        try:
            return await mount.serve(request, endpoint)
        except Exception as error:  # noqa: BLE001 - a bug of ours must neither hang the agent nor pass unseen
            message = f"the gateway failed: {type(error).__name__}: {error}"
            endpoint.trial.emit(Noted(at_ms=endpoint.trial.elapsed_ms(), message=message, level="warning"))
            return refusal(500, message)

    async def _without_endpoint(
        self, call: GatewayCall, connection: GatewayConnection, first: str, path: str, query: str
    ) -> None:
        handler = self._in_the_open.get(first)
        if first in self._closed:
            self.late[self._closed[first]] += 1
            message = "the trial that this address belonged to has ended, and no other is running here"
            connection.refuse(refusal(410, message))
        elif handler is None:
            connection.refuse(refusal(404, "no trial has this address"))
        else:
            request = GatewayRequest(call.method, path, query, call.headers, bytes(call.body))
            await connection.send(await handler(request))


async def _hang_up(at_work: Mapping[asyncio.Task[None], GatewayConnection]) -> None:
    """End running work. Work that handles a disconnecting client has a moment to do so."""
    tasks = list(at_work)
    leaving = [task for task, connection in at_work.items() if connection.when_gone is not None]
    for task, connection in tuple(at_work.items()):
        if task in leaving:
            connection.abort()
        else:
            task.cancel()
    if leaving:
        _, still = await asyncio.wait(leaving, timeout=_MOMENT_S)
        for task in still:
            task.cancel()
    await asyncio.wait(tasks)


class TrialGateway:
    """The gateway of one trial. Implements `ports.agent.Gateway`."""

    def __init__(self, server: GatewayServer, model: ChatModel | None = None) -> None:
        self._server = server
        self._model = model
        self._endpoint: TrialEndpoint | None = None

    async def open(self, trial: TrialContext) -> Addresses:
        self._endpoint = await self._server.open_endpoint(trial, self._model)
        return self._server.addresses(self._endpoint.address)

    async def hear_out(self) -> None:
        if self._endpoint is not None:
            await self._server.hear_out(self._endpoint)

    async def settle(self) -> None:
        if self._endpoint is not None:
            await self._server.settle(self._endpoint)

    def shows(self, declared: Shows) -> Shows:
        return declared if self._endpoint is None else self._server.shows(self._endpoint, declared)

    def doubts(self) -> tuple[str, ...]:
        return () if self._endpoint is None else self._server.doubts(self._endpoint)

    async def close(self) -> None:
        if self._endpoint is not None:
            await self._server.close_endpoint(self._endpoint)
