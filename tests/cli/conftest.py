from __future__ import annotations

from pathlib import Path

import pytest

from support.shell import Batch, Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    return Batch(tmp_path)
