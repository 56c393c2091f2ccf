from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.viewing import Viewing, two_runs


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Viewing]:
    """A viewer of two runs, and a client that has no link."""
    two_runs(tmp_path)
    found = Viewing(tmp_path)
    yield found
    found.close()


@pytest.fixture
def viewing(stranger: Viewing) -> Viewing:
    """The same for a client that followed the link."""
    stranger.enter()
    return stranger
