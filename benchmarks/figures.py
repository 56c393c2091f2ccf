"""A measured figure and the target it must meet."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path

SLACK = 4 / 3  # these machines are shared and noisy: a target counts as missed if it is missed by more than a third


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`value` must be at most `at_most`, or at least `at_least`; without either it is shown and never fails."""

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def missed(self) -> bool:
        return self._outside(SLACK)

    @property
    def beyond(self) -> bool:
        """Whether the target is missed at all."""
        return self._outside(1.0)

    def _outside(self, slack: float) -> bool:
        too_much = self.at_most is not None and self.value > self.at_most * slack
        too_little = self.at_least is not None and self.value < self.at_least / slack
        return too_much or too_little

    def __str__(self) -> str:
        target = ""
        if self.at_most is not None:
            target = f"target <= {self.at_most:g}"
        elif self.at_least is not None:
            target = f"target >= {self.at_least:g}"
        mark = "MISSED" if self.missed else ""
        return f"  {self.name:<62} {self.value:>10.3g} {self.unit:<8} {target:<18} {mark}".rstrip()


def peak_memory_mb() -> float:
    """Of this process. `ru_maxrss` would start with what its parent had used when it started this process."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024
