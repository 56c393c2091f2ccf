"""What the driver of a run and its workers tell each other."""

from __future__ import annotations

from typing import Any

from steadyhand.children.channel import RemoteError
from steadyhand.records.base import Record


class WorkerSetup(Record):
    """What a worker needs to build the trials of a run. `saved` is the selection and the options, as plain data.

    `digests` says what each scenario's trials are made of for the driver; empty where the files are the same ones.
    `folder` is where the run was started, seen from the folder that a worker begins in. `free` are the providers that
    need no leave of the driver: nothing is limited and no network is used.
    """

    version: str
    saved: dict[str, Any]
    name: str
    trust: bool = False
    places: int = 1
    free: tuple[str, ...] = ()
    counts_spending: bool = False
    folder: str = "."
    digests: dict[str, str] = {}


class Order(Record, array_like=True):
    """A trial to run."""

    number: int
    scenario_id: str
    index: int
    seed: int
    mock_seed: int


class Orders(Record, array_like=True, omit_defaults=True):
    """From the driver to a worker: trials, and leave for model calls (why each waited) or that it is not given.

    `now` is the driver's time of day.
    """

    trials: list[Order] = []
    granted: list[tuple[int, str]] = []
    refused: list[tuple[int, RemoteError]] = []
    now: float = 0.0


class LeaveRequest(Record, array_like=True):
    """For leave to call a model; `amount` is the number of tokens it may take."""

    number: int
    model: str
    amount: float


class CallEnd(Record, array_like=True):
    """A call for which leave was asked is over, or is no longer wanted. `used` is its number of tokens, if it was
    answered with a count; `answered` is false for one that was cut off."""

    number: int
    answered: bool = False
    used: int | None = None
    error: RemoteError | None = None


class BackOff(Record, array_like=True):
    """A failed call waits to be tried again; without an error, that wait is over."""

    number: int
    model: str = ""
    seconds: float = 0.0
    error: RemoteError | None = None


class Report(Record, array_like=True, omit_defaults=True):
    """From a worker to the driver. `done` are trials with their encoded records, `spent` encoded model calls."""

    done: list[tuple[int, bytes]] = []
    asks: list[LeaveRequest] = []
    ends: list[CallEnd] = []
    spent: list[bytes] = []
    back_offs: list[BackOff] = []
    lag_ms: float | None = None
