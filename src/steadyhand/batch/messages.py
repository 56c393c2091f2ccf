"""The messages between the driver of a run and its workers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from steadyhand.children.channel import RemoteError
from steadyhand.records.base import Record


class WorkerSetup(Record):
    """What a worker needs to build the trials of a run. `saved` is the selection and the options, as plain data.

    `digests` are the driver's digests of what each scenario's trials depend on; empty if the worker uses the same
    files. `folder` is where the run was started, relative to the worker's initial folder. `free` are the providers that
    need no permit from the driver, because they have no limits and use no network. `places` is how many of the run's
    `concurrency` trials this worker runs at once. `trusted` means that the driver stores the records as they come.
    """

    version: str
    saved: dict[str, Any]
    name: str
    trust: bool = False
    places: int = 1
    concurrency: int = 1
    free: tuple[str, ...] = ()
    counts_spending: bool = False
    folder: str = "."
    digests: dict[str, str] = {}
    trusted: bool = True


class Order(Record, array_like=True):
    """A trial to run."""

    number: int
    scenario_id: str
    index: int
    seed: int
    mock_seed: int


class Orders(Record, array_like=True, omit_defaults=True):
    """From the driver to a worker: trials, and permits for model calls (with the reason why each waited, and how long
    the provider was to blame for it) or refusals.

    `now` is the driver's time of day, `dictionary` what records are compressed with from now on.
    """

    trials: list[Order] = []
    granted: list[tuple[int, str, float]] = []
    refused: list[tuple[int, RemoteError]] = []
    now: float = 0.0
    dictionary: bytes = b""


class LeaveRequest(Record, array_like=True):
    """A request for a permit to call a model; `amount` is the expected number of tokens, `patience_s` how long the call
    may wait for a provider that does not answer."""

    number: int
    model: str
    amount: float
    patience_s: float = math.inf


class CallEnd(Record, array_like=True):
    """A call with a permit is over, or is no longer wanted. `used` is its token count, if the server reported one;
    `answered` is false for a call that was cut off."""

    number: int
    answered: bool = False
    used: int | None = None
    error: RemoteError | None = None


class BackOff(Record, array_like=True):
    """A failed call is waiting to be retried; without an error, the wait is over."""

    number: int
    model: str = ""
    seconds: float = 0.0
    error: RemoteError | None = None


class FinishedTrial(NamedTuple):
    """A finished trial: its encoded record, compressed if `dictionary` (see `EncodedTrial`) says so, and the brief of
    it (see `brief_of`), for a driver that stores the record without reading it."""

    number: int
    data: bytes
    dictionary: int | None = None
    brief: bytes = b""


class Report(Record, array_like=True, omit_defaults=True):
    """From a worker to the driver. `spent` are encoded model calls, `notes` what to tell of the run."""

    finished: list[FinishedTrial] = []
    asks: list[LeaveRequest] = []
    ends: list[CallEnd] = []
    spent: list[bytes] = []
    back_offs: list[BackOff] = []
    lag_ms: float | None = None
    notes: list[str] = []
