"""Making an action of a function: the parameters it takes come from its type hints."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steadyhand.ports.agent import Action, ActionContext, ServiceFault

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Action", "ActionContext", "ServiceFault", "action", "make_action"]


def action(*, description: str | None = None, name: str | None = None) -> Callable[[Callable[..., Any]], Action]:
    """Decorate a function to make it an `Action`, named as the function unless `name` says otherwise.

    Its parameters, with their hints and defaults, are the action's; one annotated `ActionContext` gets the context.
    Left out, the description is the first paragraph of the docstring. Raises `TypeError` for `*args`, `**kwargs`,
    positional-only parameters and parameters without a hint.
    """

    def decorate(function: Callable[..., Any]) -> Action:
        return make_action(function, name=name or function.__name__, description=description)

    return decorate


def make_action(function: Callable[..., Any], *, name: str, description: str | None = None) -> Action:
    """What `action` makes of a function."""
    model, context_name = _parameters(function, name)
    described = description if description is not None else (inspect.getdoc(function) or "").split("\n\n")[0]
    schema = model.model_json_schema()
    schema.pop("title", None)

    def arguments(params: dict[str, Any], context: ActionContext) -> dict[str, Any]:
        from pydantic import ValidationError

        try:
            given = model.model_validate(params)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ServiceFault(f"bad arguments: {where}: {first['msg']}", code="BAD_ARGUMENTS") from None
        values: dict[str, Any] = {field: getattr(given, field) for field in type(given).model_fields}
        if context_name is not None:
            values[context_name] = context
        return values

    async def run_async(params: dict[str, Any], context: ActionContext) -> Any:
        return await function(**arguments(params, context))

    def run_sync(params: dict[str, Any], context: ActionContext) -> Any:
        return function(**arguments(params, context))

    handler = run_async if inspect.iscoroutinefunction(function) else run_sync
    return Action(name=name, description=described, parameters=schema, handler=handler)


def _parameters(function: Callable[..., Any], name: str) -> tuple[type[BaseModel], str | None]:
    """A model of the parameters, and the name of the one that takes the context."""
    from pydantic import ConfigDict, create_model

    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_name: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"action {name!r}: parameter {parameter.name!r} must be one that can be passed by name")
        if parameter.name not in hints:
            raise TypeError(f"action {name!r}: parameter {parameter.name!r} needs a type hint")
        if hints[parameter.name] is ActionContext:
            context_name = parameter.name
            continue
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields), context_name
