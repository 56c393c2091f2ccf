"""Whether a call is what a mock's `when` describes. Everything but the matcher, which needs JavaScript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from steadyhand.records.scenario import MockWhen
from steadyhand.runtime.mock_call import MockCall

_WEIGHTS = {"args": 10, "input": 8, "context": 6, "matcher": 4, "partial_args": 2}


def precedence(when: MockWhen) -> int:
    """How specific it is: the sum over the conditions it names. 0 for one that names none."""
    return sum(weight for field, weight in _WEIGHTS.items() if getattr(when, field) is not None)


def holds(when: MockWhen, call: MockCall) -> bool:
    """Whether every condition but the matcher holds."""
    return (
        (when.args is None or _args_match(when.args, call))
        and (when.input is None or includes(call.named, when.input))
        and (when.context is None or includes(call.context, when.context))
        and (when.partial_args is None or _starts_with(call.positional, when.partial_args))
    )


def same(found: Any, expected: Any) -> bool:
    """Deep equality of JSON values: numbers by value, true and false are no numbers, tuples are lists."""
    wanted, given = _as_object(expected), _as_object(found)
    if wanted is not None and given is not None:
        return len(given) == len(wanted) and all(key in given and same(given[key], wanted[key]) for key in wanted)
    elements, given_elements = _as_list(expected), _as_list(found)
    if elements is not None and given_elements is not None:
        return len(given_elements) == len(elements) and all(map(same, given_elements, elements))
    return _same_scalar(found, expected)


def includes(found: Any, expected: Any) -> bool:
    """As `same`, but objects, at any depth, may have more keys than expected. Lists have the expected length."""
    wanted, given = _as_object(expected), _as_object(found)
    if wanted is not None and given is not None:
        return all(key in given and includes(given[key], wanted[key]) for key in wanted)
    elements, given_elements = _as_list(expected), _as_list(found)
    if elements is not None and given_elements is not None:
        return len(given_elements) == len(elements) and all(map(includes, given_elements, elements))
    return _same_scalar(found, expected)


def _same_scalar(found: Any, expected: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return found is expected
    try:
        return bool(found == expected)
    except (TypeError, ValueError):
        return False  # an agent's own type that does not compare with what a file can hold


def _args_match(expected: list[Any], call: MockCall) -> bool:
    """The whole list, or, where every element is itself a list, any one of them."""
    choices: list[Any] = [expected]
    if expected and all(_as_list(element) is not None for element in expected):
        choices.extend(expected)
    return any(same(given, choice) for choice in choices for given in (call.args, call.positional))


def _starts_with(found: list[Any], expected: list[Any]) -> bool:
    return len(found) >= len(expected) and all(map(includes, found, expected))


def _as_object(value: Any) -> Mapping[Any, Any] | None:
    return cast("Mapping[Any, Any]", value) if isinstance(value, Mapping) else None


def _as_list(value: Any) -> Sequence[Any] | None:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return cast("Sequence[Any]", value)
    return None
