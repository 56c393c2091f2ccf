"""What a model server logged about its requests, and how far off reported latencies are."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peer_run import number_of

Log = Sequence[Mapping[str, Any]]


def beside(log: Log, reported: Mapping[str, float], size: int) -> dict[str, float]:
    """Compares `reported` latencies in ms, by the seed or the number of their request, with the server's own."""
    noted = {_key(entry): (entry["times"]["last_write"] - entry["times"]["received"]) * 1000 for entry in log}
    errors = [abs(latency - noted[int(key)]) for key, latency in reported.items()]
    return {
        "error_median_ms": statistics.median(errors),
        "error_p99_ms": statistics.quantiles(errors, n=100)[98],
        "given": 100 * len(reported) / size,
        "in_flight": most_in_flight(log),
    }


def most_in_flight(log: Log) -> int:
    """As the server saw it: how many connections a tool that was told 64 really kept open at once."""
    came = [(entry["times"]["received"], 1) for entry in log]
    went = [(entry["times"]["last_write"], -1) for entry in log]
    now = most = 0
    for _, change in sorted(came + went):
        now += change
        most = max(most, now)
    return most


def _key(entry: Mapping[str, Any]) -> int:
    """Our requests and the bare client's are identified by seed, the peers' by the number in the message."""
    return entry["seed"] if entry["seed"] is not None else number_of(entry["prompt"])
