"""The events of an ElizaOS run, as actions and observations of the trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from steadyhand.builtin.agents.trajectory import TrajectoryReporter


def report_run(events: Sequence[dict[str, Any]], reporter: TrajectoryReporter, *, started_ms: float) -> None:
    """Report what the run did, in its order. `started_ms` is when, in the trial, the run began.

    An action that began and did not end is reported as one that failed.
    """
    begun: list[tuple[str, float | None]] = []
    models: list[str] = []
    zero = next((at for event in events if (at := _time(event)) is not None), None)

    def at_ms(moment: float | None) -> float:
        return started_ms if moment is None or zero is None else started_ms + max(0.0, moment - zero)

    for event in events:
        data = _data(event)
        match event.get("type"):
            case "ACTION_STARTED":
                begun.append((_name(data), _time(event)))
            case "ACTION_COMPLETED":
                name = _name(data)
                start = _take(begun, name)
                end = _time(event)
                duration = end - start if start is not None and end is not None else 0.0
                failed = data.get("success", True) is not True
                reporter.action(
                    name,
                    _params(data),
                    status="error" if failed else "success",
                    duration_ms=max(0.0, duration),
                    at_ms=at_ms(start if start is not None else end),
                )
                reporter.observation(name, data.get("result", data.get("error")), at_ms=at_ms(end))
            case "MODEL_USED":
                took = data.get("executionTime")
                time = f"{took:.0f} ms" if isinstance(took, int | float) else "time unknown"
                models.append(f"{data.get('modelType', 'a model')} ({time})")
            case _:
                pass
    for name, start in begun:
        reporter.action(name, {}, status="error", at_ms=at_ms(start))
        reporter.observation(name, "it began and did not end", at_ms=at_ms(start))
    if models:
        reporter.note(f"model calls inside ElizaOS, as it reports them: {', '.join(models)}")


def unfinished(events: Sequence[dict[str, Any]]) -> bool:
    """Whether an action has begun and its end is not there."""
    types = [event.get("type") for event in events]
    return types.count("ACTION_STARTED") > types.count("ACTION_COMPLETED")


def _take(begun: list[tuple[str, float | None]], name: str) -> float | None:
    """When the oldest unfinished action of this name began."""
    for index, (known, start) in enumerate(begun):
        if known == name:
            del begun[index]
            return start
    return None


def _data(event: dict[str, Any]) -> dict[str, Any]:
    data = event.get("data")
    return cast("dict[str, Any]", data) if isinstance(data, dict) else event


def _name(data: dict[str, Any]) -> str:
    return str(data.get("actionName") or "unnamed action")


def _params(data: dict[str, Any]) -> dict[str, Any]:
    params = data.get("params")
    return cast("dict[str, Any]", params) if isinstance(params, dict) else {}


def _time(event: dict[str, Any]) -> float | None:
    time = event.get("timestamp")
    return float(time) if isinstance(time, int | float) and not isinstance(time, bool) else None
