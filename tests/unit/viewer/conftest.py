from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.viewing import Viewing, two_runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs to copy, which is quicker than recording them."""
    folder = tmp_path_factory.mktemp("runs")
    two_runs(folder)
    return folder


@pytest.fixture
def stranger(runs: Path, tmp_path: Path) -> Iterator[Viewing]:
    """A viewer of two runs, and a client that has no link."""
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    found = Viewing(tmp_path)
    yield found
    found.close()


@pytest.fixture
def viewing(stranger: Viewing) -> Viewing:
    """The same for a client that followed the link."""
    stranger.enter()
    return stranger
