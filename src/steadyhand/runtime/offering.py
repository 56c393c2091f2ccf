"""Service methods as an agent is offered them: what they are called and what may be passed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

from steadyhand.ports.agent import ServiceMethod
from steadyhand.records.scenario import Mock

_ARGS: dict[str, Any] = {"type": "array", "description": "Positional arguments, in order."}
_READS_ARGS = re.compile(r"\bargs\s*(\?\.)?[\[.]")


def mocked_method(service: str | None, method: str, mocks: Iterable[Mock]) -> ServiceMethod:
    """A mocked method. Its schema names the parameters that the mocks ask about, never their values.

    `args` is required when any of the mocks looks at positional arguments, so that an agent that leaves them out is
    told so instead of missing every mock. One object alone may be passed by name, so it asks for no `args`.
    """
    named: dict[str, Any] = {}
    positional = False
    for mock in mocks:
        if mock.method != method or (mock.service is not None and service is not None and mock.service != service):
            continue
        alone = [_lone_object(given) for given in (mock.when.args, mock.when.partial_args) if given]
        for known in (mock.when.input, *alone):
            named |= {name: {} for name in known or {}}
        scripts = f"{mock.when.matcher or ''} {mock.response_fn or ''}"
        positional |= None in alone or bool(_READS_ARGS.search(scripts))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {**named, "args": _ARGS},
        "additionalProperties": True,
    }
    if positional:
        schema["required"] = ["args"]
    owner = f" of the service {service}" if service else ""
    return ServiceMethod(
        service=service or "",
        method=method,
        description=f"Call {method}{owner}. Named parameters are passed as they are, positional ones in `args`.",
        parameters=schema,
    )


def real_method(service: str, method: str, function: Callable[..., Any]) -> ServiceMethod:
    """A method of a plugin's service, described by its docstring."""
    described = (inspect.getdoc(function) or f"Call {method} of the service {service}.").split("\n\n")[0]
    parameters: dict[str, Any] = {"type": "object", "properties": {"args": _ARGS}, "additionalProperties": True}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ServiceMethod(service=service, method=method, description=described, parameters=parameters)
    names = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    parameters["properties"] = {**{name: {} for name in names}, "args": _ARGS}
    return ServiceMethod(service=service, method=method, description=described, parameters=parameters)


def _lone_object(args: list[Any]) -> dict[str, Any] | None:
    """The keys to name when the mock asks for one object and nothing else; None when it asks for other arguments."""
    found: dict[str, Any] = {}
    for choice in args:
        inner = cast("list[Any]", choice) if isinstance(choice, list) else [choice]
        if len(inner) != 1 or not isinstance(inner[0], dict):
            return None
        found |= cast("dict[str, Any]", inner[0])
    return found if len(args) == 1 or all(isinstance(choice, list) for choice in args) else None
