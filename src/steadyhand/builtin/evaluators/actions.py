"""Actions of a trajectory, and how a file names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, cast

from pydantic import AfterValidator

from steadyhand.builtin.evaluators.excerpt import excerpt
from steadyhand.records.event import TrajectoryStep
from steadyhand.records.result import ExecutionResult


def plain_name(name: str) -> str:
    """A name without what spellings differ in: case, `_` and `-`."""
    return name.replace("_", "").replace("-", "").casefold()


def is_subset(wanted: Any, found: Any) -> bool:
    """Whether `found` has everything that `wanted` names: objects by their keys, lists item by item, values alike.

    True is not 1 here, although Python thinks so.
    """
    if isinstance(wanted, dict) and isinstance(found, dict):
        there = cast("dict[Any, Any]", found)
        return all(
            key in there and is_subset(value, there[key]) for key, value in cast("dict[Any, Any]", wanted).items()
        )
    if isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        left, right = cast("list[Any]", wanted), cast("list[Any]", found)
        return len(left) == len(right) and all(map(is_subset, left, right))
    return isinstance(wanted, bool) == isinstance(found, bool) and wanted == found


def differences(wanted: Any, found: Any, where: str = "") -> list[str]:
    """Why `is_subset` does not hold, such as `amount was 20, not 50`; nothing when it does."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        there, told = cast("dict[Any, Any]", found), list[str]()
        for key, value in cast("dict[Any, Any]", wanted).items():
            place = f"{where}.{key}" if where else str(key)
            told += differences(value, there[key], place) if key in there else [f"{place} was not given"]
        return told
    if isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        left, right = cast("list[Any]", wanted), cast("list[Any]", found)
        if len(left) != len(right):
            return [f"{where} had {len(right)} entr{'y' if len(right) == 1 else 'ies'}, not {len(left)}"]
        pairs = enumerate(zip(left, right, strict=True))
        return [line for index, (one, other) in pairs for line in differences(one, other, f"{where}[{index}]")]
    if is_subset(wanted, found):
        return []
    return [f"{where} was {excerpt(repr(cast('object', found)))}, not {excerpt(repr(cast('object', wanted)))}"]


def nearest(told: Iterable[list[str]]) -> str:
    """What the one that came nearest lacked, of what each lacked."""
    return ", and ".join(min(told, key=len))


def _has_letters(action: str) -> str:
    if not plain_name(action).strip():
        raise ValueError("there is no action's name; give one such as 'SEND_MESSAGE'")
    return action


ActionName = Annotated[str, AfterValidator(_has_letters)]


def lacking(step: TrajectoryStep, params: dict[str, Any], status: str) -> list[str]:
    """What keeps an action of the right name from being the one that is looked for."""
    told = differences(params, step.params)
    return told if status in ("any", step.status) else [*told, f"its status was {step.status or 'not told'}"]


def matches(step: TrajectoryStep, name: str, params: dict[str, Any], status: str) -> bool:
    return (
        plain_name(step.name or "") == plain_name(name)
        and status in ("any", step.status)
        and (not params or is_subset(params, step.params))
    )


def actions_of(result: ExecutionResult) -> list[TrajectoryStep]:
    """By the time they began."""
    return [step for step in result.trajectory if step.type == "action"]


def since_start_ms(step: TrajectoryStep, result: ExecutionResult) -> float:
    """When an action began, in milliseconds of its step."""
    return round(step.at_ms - result.started_at_ms, 3)
