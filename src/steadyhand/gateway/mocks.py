"""The trial's services and actions for an agent in any language: `POST …/mocks/SERVICE/METHOD` with JSON.

The body is an object of named parameters, in which a list under `args` holds the positional ones, or a list of
positional parameters. The answer is `{"result": …}`, or `{"error": …}` with the status that the service gave. Matching,
delays and faults are those of the trial's runtime, and so is the record of the call.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import unquote

import msgspec

from steadyhand.errors import SteadyhandError
from steadyhand.gateway.connection import GatewayRequest, GatewayResponse, json_response, refusal
from steadyhand.gateway.server import Address, Mount, TrialEndpoint
from steadyhand.ports.agent import Addresses
from steadyhand.ports.services import ServiceFault
from steadyhand.records.base import plain, plain_object, shorten
from steadyhand.records.event import ServiceCalled

_NO_SUCH = {"SERVICE_NOT_FOUND": 404, "METHOD_NOT_FOUND": 404, "BAD_ARGUMENTS": 400}
_FAULT = 502


class MocksMount(Mount):
    def addresses(self, address: Address) -> Addresses:
        url = address.url("mocks")
        return Addresses(names={"mocks_url": url}, variables={"STEADYHAND_MOCKS_URL": url})

    async def serve(self, request: GatewayRequest, endpoint: TrialEndpoint) -> GatewayResponse:
        services = endpoint.trial.services
        if services is None:
            return refusal(404, "this trial has no services: its scenario mocks none and no plugin provides one")
        if request.method == "GET" and not request.path:
            return json_response({"methods": [msgspec.to_builtins(each) for each in await services.offered()]})
        service, _, method = unquote(request.path).partition("/")
        if request.method != "POST" or not service or not method or "/" in method:
            return refusal(404, f"{request.method} /{request.path} is not served here; call POST /SERVICE/METHOD")
        try:
            args, named = read_arguments(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, ValueError) as error:
            message = f"the body should be a JSON object or list of parameters: {error}"
            given = [shorten(request.body.decode("utf-8", "replace"), 200)]
            endpoint.trial.emit(
                ServiceCalled(
                    at_ms=endpoint.trial.elapsed_ms(),
                    service=service,
                    method=method,
                    args=given,
                    error=message,
                    status="invalid",
                )
            )
            return refusal(400, message)
        try:
            return json_response({"result": plain(await services.call(service, method, args, named))})
        except ServiceFault as fault:
            return _fault(fault)
        except SteadyhandError as error:  # the trial has noted it, and ends as an error
            return refusal(500, str(error))


def read_arguments(body: bytes) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named. Raises `TypeError`, or what the decoder does."""
    found: Any = msgspec.json.decode(body) if body.strip() else {}
    if isinstance(found, list):
        return plain(cast("list[Any]", found)), {}
    if not isinstance(found, dict):
        raise TypeError(f"it is a {type(found).__name__}")
    return split_arguments(plain_object(cast("dict[str, Any]", found)))


def split_arguments(given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What is under `args`, if it is a list, and the rest."""
    positional = given.get("args")
    if not isinstance(positional, list):
        return [], given
    return cast("list[Any]", positional), {name: value for name, value in given.items() if name != "args"}


def _fault(fault: ServiceFault) -> GatewayResponse:
    body = {"message": str(fault), "code": fault.code, "status": fault.status}
    status = fault.status if fault.status is not None and 400 <= fault.status <= 599 else None
    if status is None:
        status = _NO_SUCH.get(fault.code or "", _FAULT)
    return json_response({"error": body}, status)
