"""How much a workspace and its commands may use before something is left out."""

from __future__ import annotations

from steadyhand.records.base import Record

KIB = 1024
MIB = 1024 * KIB


class LocalLimits(Record):
    """Bounds of the local environment. Sizes are in bytes, times in seconds."""

    command_timeout_s: float = 60.0
    output: int = MIB
    read: int = 64 * MIB
    captured_file: int = MIB
    captured_total: int = 16 * MIB
    captured_files: int = 2_000
