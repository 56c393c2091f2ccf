"""Names of runs: they sort by time and are short enough to type."""

from __future__ import annotations

import random as randomness
from datetime import datetime


def new_run_id(now: datetime, random: randomness.Random) -> str:
    """Such as `20261116-104455-3f9a`: when, to the second, and four digits that keep runs of one second apart."""
    return f"{now:%Y%m%d-%H%M%S}-{random.getrandbits(16):04x}"
