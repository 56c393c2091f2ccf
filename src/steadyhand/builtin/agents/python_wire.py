"""The messages between us and the process of a `python:` agent."""

from __future__ import annotations

from typing import Any

from steadyhand.ports.agent import Addresses
from steadyhand.records.base import Record, plain
from steadyhand.records.event import Shows


class Moment(Record, array_like=True):
    """One moment on three clocks, so that the child can compute the trial's time from its own `perf_counter`."""

    elapsed_ms: float
    now: float
    stamp: float


class ActionCard(Record, array_like=True):
    """A plugin's action without its code, which stays in our process."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    plugin: str = ""


class Opening(Record):
    """What an agent is told about its trial. `scenario` is pickled, which is safe because we send it, and has nothing
    that the trial is judged by. `variables` are set in its environment while the trial runs."""

    scenario: bytes
    trial_id: str
    seed: int
    live: bool
    environment: str
    sandboxed: bool
    on_this_machine: bool
    services: bool
    actions: tuple[ActionCard, ...] = ()
    database: bool = False
    judge: tuple[str, bool] | None = None
    addresses: Addresses = Addresses()
    variables: dict[str, str] = {}


class Present(Record, array_like=True):
    """What changes from turn to turn."""

    moment: Moment
    shows: Shows
    variables: dict[str, Any]


def portable(value: Any) -> Any:
    """A value as it is sent: plain, except that bytes, infinity and NaN are kept. Raises `UnreadableValue`."""
    return plain(value, keep=(bytes, float))
