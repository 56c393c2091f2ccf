"""The trial's services and actions as tools of an MCP server, over streamable HTTP at `…/mcp`.

`…/mcp` has all of them; `…/mcp/SERVICE` has those of one service. A tool is called by its method's name, or, where two
services have a method of that name, by both names joined with `_`. Each request is independent: there are no sessions,
so nothing has to be stored and requests cannot be mixed up.

The part of the protocol that serves tools is written here rather than taken from the SDK: an agent brings the SDK's
version that it needs, and its address must not depend on ours.

Every tool call is an action of the trial, including an attempt to call a tool that does not exist.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from steadyhand.errors import SteadyhandError
from steadyhand.gateway.connection import GatewayRequest, GatewayResponse, json_response, refusal
from steadyhand.gateway.mocks import split_arguments
from steadyhand.gateway.server import Address, Mount, TrialEndpoint
from steadyhand.ports.agent import Addresses, TrialContext
from steadyhand.ports.services import ServiceAnswer, ServiceFault, Services
from steadyhand.records.base import plain, plain_object
from steadyhand.records.deed_name import tool_names
from steadyhand.records.event import ActionStatus, ActionTaken, Observed
from steadyhand.runtime.values import as_text, kept_part
from steadyhand.version import __version__

_ANY_OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_NO_SUCH_TOOL = "there is no tool {!r}; the tools are: {}"
_AGREED = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions of the protocol that client and server agree on with `initialize`."""
_STATELESS = "2026-07-28"
"""The version of the protocol in which each request names its version."""
_VERSIONS = (_STATELESS, *reversed(_AGREED))
_META = "io.modelcontextprotocol/"
_ABOUT_US = {"name": "steadyhand", "version": __version__}
_TOOLS_ONLY: dict[str, Any] = {"tools": {}}
_NOT_CACHED = {"ttlMs": 0, "cacheScope": "private"}
_PARSE_ERROR, _INVALID_REQUEST, _NO_SUCH_METHOD, _INVALID_PARAMS = -32700, -32600, -32601, -32602
_OTHER_VERSION = -32022


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


class _Message(msgspec.Struct):
    """A JSON-RPC message: a request, or without `id` a notification, or without `method` an answer."""

    method: str | None = None
    id: str | int | None = None
    params: dict[str, Any] = {}


class _Refused(Exception):
    """An error of the protocol, with the HTTP status for it in the stateless version."""

    def __init__(self, code: int, message: str, *, status: int = 400, data: Any = None) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data
        self.status = status


class McpMount(Mount):
    """An agent is given its address even if there are no tools."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def addresses(self, address: Address) -> Addresses:
        url = address.url("mcp")
        return Addresses(names={"mcp_url": url}, variables={"STEADYHAND_MCP_URL": url})

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        if _is_foreign(request):
            return refusal(403, "this server answers to 127.0.0.1 and localhost only, and to no page of another site")
        if request.method != "POST":
            return refusal(405, "this server has no sessions and sends no notifications: POST each message")
        try:
            message = msgspec.json.decode(request.body, type=_Message)
        except (msgspec.ValidationError, RecursionError) as error:
            said = f"expected one JSON-RPC message: {error}"
            return _answer(None, {"error": {"code": _INVALID_REQUEST, "message": said}}, 400)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _answer(None, {"error": {"code": _PARSE_ERROR, "message": f"not JSON: {error}"}}, 400)
        if message.id is None or message.method is None:
            return GatewayResponse(status=202)
        stateless = _version_named(message) is not None
        try:
            result = await self._result(message, endpoint.trial, request.path.strip("/"))
        except _Refused as refused:
            return _answer(message.id, {"error": refused.error}, refused.status if stateless else 200)
        if stateless:
            result = {"resultType": "complete", **(_NOT_CACHED if "content" not in result else {}), **result}
        return _answer(message.id, {"result": result})

    async def _result(self, message: _Message, trial: TrialContext, service: str) -> dict[str, Any]:
        """Raises `_Refused`."""
        if (version := _version_named(message)) not in (None, _STATELESS):
            said = f"this server does not speak version {version} of the protocol"
            raise _Refused(_OTHER_VERSION, said, data={"supported": _VERSIONS, "requested": version})
        match message.method:
            case "initialize":
                asked = message.params.get("protocolVersion")
                version = asked if asked in _AGREED else _AGREED[-1]
                return {"protocolVersion": version, "capabilities": _TOOLS_ONLY, "serverInfo": _ABOUT_US}
            case "server/discover":
                named = {f"{_META}serverInfo": _ABOUT_US}
                return {"supportedVersions": _VERSIONS, "capabilities": _TOOLS_ONLY, "_meta": named, **_NOT_CACHED}
            case "ping":
                return {}
            case "tools/list":
                tools = [
                    {"name": name, "description": tool.description, "inputSchema": tool.parameters}
                    for name, tool in (await tools_of(trial.services, service)).items()
                ]
                return {"tools": tools}
            case "tools/call":
                return await self._call(message.params, trial, service)
            case _:
                raise _Refused(_NO_SUCH_METHOD, f"this server has no method {message.method!r}", status=404)

    async def _call(self, params: dict[str, Any], trial: TrialContext, service: str) -> dict[str, Any]:
        name, given = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(given, dict | None):
            raise _Refused(_INVALID_PARAMS, "tools/call needs the name of a tool and an object of arguments")
        arguments = plain_object(given or {})
        tools = await tools_of(trial.services, service)
        tool = tools.get(name)
        if tool is None:
            known = ", ".join(tools) or "none"
            tool = McpTool("", {}, name, _refusing(_NO_SUCH_TOOL.format(name, known)))
        try:
            answer = await (tool.run(arguments, "") if tool.records_itself else self._act(tool, arguments, trial))
        except (ServiceFault, SteadyhandError) as error:  # the trial has noted it; some make it an error
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        return _tool_result(answer)

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


def _tool_result(answer: ServiceAnswer) -> dict[str, Any]:
    """The answer of an MCP server is returned unchanged."""
    if answer.content is not None:
        content, structured = list(answer.content), answer.structured
    else:
        value = plain(answer.value)
        content = [{"type": "text", "text": as_text(value)}]
        structured = cast("dict[str, Any]", value) if isinstance(value, dict) else None
    result: dict[str, Any] = {"content": content, "isError": False}
    return result if structured is None else {**result, "structuredContent": structured}


def _answer(asked: str | int | None, outcome: dict[str, Any], status: int = 200) -> GatewayResponse:
    return json_response({"jsonrpc": "2.0", "id": asked, **outcome}, status)


def _version_named(message: _Message) -> Any:
    """The version of the protocol that the request itself names; None where it was agreed on before."""
    meta = message.params.get("_meta")
    return cast("dict[str, Any]", meta).get(f"{_META}protocolVersion") if isinstance(meta, dict) else None


def _is_foreign(request: GatewayRequest) -> bool:
    """Whether a page in a browser sent it, under a name of its own for this machine or from its own site."""
    named = [f"//{request.headers.get('host', '')}", request.headers.get("origin", "//localhost")]
    try:
        return any(urlsplit(each).hostname not in _THIS_MACHINE for each in named)
    except ValueError:
        return True
