"""Calls through the gate of a provider, and how they end."""

from __future__ import annotations

from typing import Any

from steadyhand.errors import ModelError, ModelErrorKind
from steadyhand.ports.model import Gate
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, Message, Usage

REQUEST = ChatRequest(messages=(Message(role="user", content="x" * 400),), max_tokens=100)


def answer(tokens: int | None = None) -> ChatResponse:
    usage = Usage(input_tokens=tokens, output_tokens=0) if tokens is not None else None
    return ChatResponse(text="", attempt=Attempt(started_ms=0), usage=usage)


def down(kind: ModelErrorKind = "connect", **more: Any) -> ModelError:
    return ModelError(kind, kind=kind, retryable=True, **more)


async def call(
    gate: Gate, error: ModelError | None = None, *, tokens: int | None = None, model: str = "openai/m"
) -> str:
    """The reason for which the call had to wait, or an empty text."""
    async with gate.admit(model, REQUEST) as admission:
        if error is not None:
            admission.failed(error)
        else:
            admission.succeeded(answer(tokens))
        return admission.reason
