"""What Holdfast is tested with, for testing your own parts: a model server, a clock to set, a sink that remembers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.answers import Answer, Behaviour, Served, Times
    from holdfast.testing.clock import SettableClock
    from holdfast.testing.model_server import ModelServer
    from holdfast.testing.sink import RecordingSink

__all__ = ["Answer", "Behaviour", "ModelServer", "RecordingSink", "Served", "SettableClock", "Times"]

_HOME = {
    "Answer": "answers",
    "Behaviour": "answers",
    "ModelServer": "model_server",
    "RecordingSink": "sink",
    "Served": "answers",
    "SettableClock": "clock",
    "Times": "answers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
