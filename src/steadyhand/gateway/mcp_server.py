"""The trial's services and actions as tools of an MCP server, over streamable HTTP at `…/mcp`.

`…/mcp` has all of them; `…/mcp/SERVICE` has those of one service. A tool is called by its method's name, or, where two
services have a method of that name, by both names joined with `_`. Each request is independent: there are no sessions,
so nothing has to be stored and requests cannot be mixed up.

Every tool call is an action of the trial, including an attempt to call a tool that does not exist.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import anyio
import msgspec
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport

from steadyhand.errors import SteadyhandError
from steadyhand.gateway.connection import GatewayRequest, GatewayResponse, refusal
from steadyhand.gateway.mocks import split_arguments
from steadyhand.gateway.server import TrialEndpoint
from steadyhand.ports.agent import TrialContext
from steadyhand.ports.services import ServiceAnswer, ServiceFault, Services
from steadyhand.records.base import plain, plain_object
from steadyhand.records.deed_name import tool_names
from steadyhand.records.event import ActionStatus, ActionTaken, Observed
from steadyhand.runtime.values import as_text, kept_part
from steadyhand.version import __version__

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

_ANY_OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_NO_SUCH_TOOL = "there is no tool {!r}; the tools are: {}"


RunTool = Callable[[dict[str, Any], str], Awaitable[ServiceAnswer]]


class McpTool(msgspec.Struct, frozen=True):
    """`run` returns the tool's result; its second argument is the id of the action. An action records itself; a
    service's method is recorded as one here, with its other `names`."""

    description: str
    parameters: dict[str, Any]
    action: str
    run: RunTool
    records_itself: bool = False
    names: tuple[str, ...] = ()


class McpServer:
    """Answers what is sent to the MCP addresses of trials."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        server: Server[Any, Any] = Server("steadyhand", version=__version__)
        server.request_handlers[types.ListToolsRequest] = self._list
        server.request_handlers[types.CallToolRequest] = self._call
        self._server = server

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        if _is_foreign(request):
            return refusal(403, "this server answers to 127.0.0.1 and localhost only, and to no page of another site")
        if request.method != "POST":
            return refusal(405, "this server has no sessions and sends no notifications: POST each message")
        answer = _Answer()
        transport = StreamableHTTPServerTransport(mcp_session_id=None, is_json_response_enabled=True)

        async def run(*, task_status: TaskStatus[None]) -> None:
            async with transport.connect() as (read, write):
                task_status.started()
                await self._server.run(read, write, self._server.create_initialization_options(), stateless=True)

        async with anyio.create_task_group() as group:
            await group.start(run)
            await transport.handle_request(_scope(request, endpoint), _receiving(request.body), answer.send)
            await transport.terminate()
            group.cancel_scope.cancel()
        return answer.response()

    def _asked(self) -> tuple[TrialContext, str]:
        """The trial whose request is being answered, and the service, empty for all."""
        request: Any = self._server.request_context.request
        scope: Mapping[str, Any] = request.scope
        return scope["steadyhand.endpoint"].trial, scope["steadyhand.service"]

    async def _list(self, _: types.ListToolsRequest) -> types.ServerResult:
        trial, service = self._asked()
        tools = [
            types.Tool(name=name, description=tool.description, inputSchema=tool.parameters)
            for name, tool in (await tools_of(trial.services, service)).items()
        ]
        return types.ServerResult(types.ListToolsResult(tools=tools))

    async def _call(self, request: types.CallToolRequest) -> types.ServerResult:
        trial, service = self._asked()
        name, arguments = request.params.name, plain_object(request.params.arguments or {})
        tools = await tools_of(trial.services, service)
        tool = tools.get(name)
        if tool is None:
            known = ", ".join(tools) or "none"
            tool = McpTool("", {}, name, _refusing(_NO_SUCH_TOOL.format(name, known)))
        try:
            answer = await (tool.run(arguments, "") if tool.records_itself else self._act(tool, arguments, trial))
        except ServiceFault as fault:
            return _failure(str(fault))
        except SteadyhandError as error:  # the trial has noted it, and ends as an error
            return _failure(str(error))
        return _result(answer)

    async def _act(self, tool: McpTool, arguments: dict[str, Any], trial: TrialContext) -> ServiceAnswer:
        at_ms, began = trial.elapsed_ms(), trial.clock.now()
        action_id = f"mcp-{next(self._numbers)}"
        status: ActionStatus = "error"
        content: Any = None
        try:
            answer = await tool.run(arguments, action_id)
            content = plain(answer.value)
            status = "success"
        except ServiceFault as fault:
            content, status = {"error": str(fault)}, fault.outcome
            raise
        except Exception as error:
            content = {"error": str(error)}
            raise
        except BaseException:
            status = "interrupted"
            raise
        finally:
            took_ms = round((trial.clock.now() - began) * 1000.0, 3)
            kept, cut = kept_part(content)
            trial.emit(
                ActionTaken(
                    at_ms=at_ms,
                    id=action_id,
                    name=tool.action,
                    params=arguments,
                    status=status,
                    duration_ms=took_ms,
                    witnessed=True,
                    names=tool.names,
                )
            )
            trial.emit(Observed(at_ms=trial.elapsed_ms(), action_id=action_id, name=tool.action, content=kept, cut=cut))
        return answer


async def tools_of(services: Services | None, only: str) -> dict[str, McpTool]:
    """By name: the plugins' actions, then the methods that an agent may call; with `only`, those of one service."""
    tools: dict[str, McpTool] = {}
    if services is None:
        return tools
    if not only:
        for name, action in services.actions.items():
            run = _performing(services, name)
            tools[_name(name)] = McpTool(
                action.description, action.parameters or _ANY_OBJECT, name, run, records_itself=True
            )
    offered = [method for method in await services.offered() if not only or method.service == only]
    times = Counter(method.method for method in offered)
    for method in offered:
        name = _name(method.method)
        if times[method.method] > 1 or name in tools:
            name = _name(f"{method.service}_{method.method}")
        run = _calling(services, method.service, method.method)
        names = tool_names(name, method.service, method.method)
        tools.setdefault(
            name, McpTool(method.description, method.parameters or _ANY_OBJECT, method.method, run, names=names)
        )
    return tools


def _name(wanted: str) -> str:
    return _NOT_IN_A_NAME.sub("_", wanted)[:128] or "tool"


def _performing(services: Services, name: str) -> RunTool:
    async def run(arguments: dict[str, Any], _: str) -> ServiceAnswer:
        return ServiceAnswer(value=await services.perform(name, arguments))

    return run


def _calling(services: Services, service: str, method: str) -> RunTool:
    async def run(arguments: dict[str, Any], action_id: str) -> ServiceAnswer:
        args, named = split_arguments(arguments)
        return await services.answer(service, method, args, named, action_id=action_id)

    return run


def _refusing(message: str) -> RunTool:
    async def run(arguments: dict[str, Any], _: str) -> ServiceAnswer:
        raise ServiceFault(message, outcome="rejected")

    return run


def _result(answer: ServiceAnswer) -> types.ServerResult:
    """The answer of an MCP server is returned unchanged."""
    if answer.content is not None:
        said = {"content": answer.content, "structuredContent": answer.structured}
        return types.ServerResult(types.CallToolResult.model_validate(said))
    value = plain(answer.value)
    text = types.TextContent(type="text", text=as_text(value))
    structured = cast("dict[str, Any]", value) if isinstance(value, dict) else None
    return types.ServerResult(types.CallToolResult(content=[text], structuredContent=structured))


def _failure(message: str) -> types.ServerResult:
    text = types.TextContent(type="text", text=message)
    return types.ServerResult(types.CallToolResult(content=[text], isError=True))


def _is_foreign(request: GatewayRequest) -> bool:
    """Whether a page in a browser sent it, under a name of its own for this machine or from its own site."""
    named = [f"//{request.headers.get('host', '')}", request.headers.get("origin", "//localhost")]
    try:
        return any(urlsplit(each).hostname not in _THIS_MACHINE for each in named)
    except ValueError:
        return True


def _scope(request: GatewayRequest, endpoint: TrialEndpoint) -> dict[str, Any]:
    """The request as ASGI has it, and the endpoint it came through."""
    return {
        "type": "http",
        "method": request.method,
        "path": "/",
        "query_string": b"",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()],
        "steadyhand.endpoint": endpoint,
        "steadyhand.service": request.path.strip("/"),
    }


def _receiving(body: bytes) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


class _Answer:
    """Collects an ASGI answer."""

    def __init__(self) -> None:
        self._status = 500
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
        else:
            self._body += message.get("body", b"")

    def response(self) -> GatewayResponse:
        kept = {name: value for name, value in self._headers.items() if name not in ("content-length", "content-type")}
        content_type = self._headers.get("content-type", "application/json")
        return GatewayResponse(status=self._status, body=bytes(self._body), content_type=content_type, headers=kept)
