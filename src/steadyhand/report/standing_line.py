"""What holds a run up at the moment, on one line."""

from __future__ import annotations

import math

from steadyhand.records.run import HeldUp, Standing

_SHOWN_LAG_MS = 5.0
_SHOWN_WAIT_S = 0.5


def standing_line(standing: Standing) -> str:
    """Such as `waiting 42 s: openai limits the rate (429), 8 calls; lag 12 ms`; nothing when nothing does."""
    told = [_wait(each) for each in standing.waits if each.left_s >= _SHOWN_WAIT_S or each.down]
    if standing.lag_ms >= _SHOWN_LAG_MS:
        told.append(f"lag {standing.lag_ms:.0f} ms")
    return "; ".join(told)


def _wait(held: HeldUp) -> str:
    calls = "1 call" if held.calls == 1 else f"{held.calls} calls"
    seconds = math.ceil(held.left_s)
    if held.down:
        return f"{held.down} is down, trying again {f'in {seconds} s' if seconds else 'now'}, {calls}"
    return f"waiting {seconds} s: {held.reason}, {calls}"
