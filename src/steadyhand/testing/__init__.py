"""What Steadyhand is tested with, for testing your own parts: servers, an agent, a clock and a sink that do as told."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steadyhand.testing.agent import ScriptedAgent
    from steadyhand.testing.clock import SettableClock
    from steadyhand.testing.elizaos_server import ElizaosAnswer, ElizaosServer
    from steadyhand.testing.model_server import ModelServer
    from steadyhand.testing.sink import RecordingSink
    from steadyhand.testing.wire import Answer, Behaviour, Served, Times

__all__ = [
    "Answer",
    "Behaviour",
    "ElizaosAnswer",
    "ElizaosServer",
    "ModelServer",
    "RecordingSink",
    "ScriptedAgent",
    "Served",
    "SettableClock",
    "Times",
]

_HOME = {
    "Answer": "steadyhand.testing.wire",
    "Behaviour": "steadyhand.testing.wire",
    "ElizaosAnswer": "steadyhand.testing.elizaos_server",
    "ElizaosServer": "steadyhand.testing.elizaos_server",
    "ModelServer": "steadyhand.testing.model_server",
    "RecordingSink": "steadyhand.testing.sink",
    "ScriptedAgent": "steadyhand.testing.agent",
    "Served": "steadyhand.testing.wire",
    "SettableClock": "steadyhand.testing.clock",
    "Times": "steadyhand.testing.wire",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
