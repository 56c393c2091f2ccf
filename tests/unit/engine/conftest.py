from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from steadyhand.engine.context import TrialParts
from support.engine import builder


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., TrialParts]:
    return builder(tmp_path)
