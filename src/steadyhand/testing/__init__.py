"""Test doubles for your own parts: a scripted model and agent, a settable clock, an event sink and a model server."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steadyhand.testing.fakes import RecordingSink, ScriptedAgent, ScriptedChatModel, SettableClock
    from steadyhand.testing.model_server import ModelServer
    from steadyhand.testing.wire import Answer, Behaviour, Served, Times

__all__ = [
    "Answer",
    "Behaviour",
    "ModelServer",
    "RecordingSink",
    "ScriptedAgent",
    "ScriptedChatModel",
    "Served",
    "SettableClock",
    "Times",
]

_HOME = {
    "Answer": "steadyhand.testing.wire",
    "Behaviour": "steadyhand.testing.wire",
    "ModelServer": "steadyhand.testing.model_server",
    "RecordingSink": "steadyhand.testing.fakes",
    "ScriptedAgent": "steadyhand.testing.fakes",
    "ScriptedChatModel": "steadyhand.testing.fakes",
    "Served": "steadyhand.testing.wire",
    "SettableClock": "steadyhand.testing.fakes",
    "Times": "steadyhand.testing.wire",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
