"""A question to a chat model and its answer."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.records.base import Record
from holdfast.records.message import Message, ToolCall, ToolSpec
from holdfast.records.timing import Attempt

Purpose = Literal["agent", "user", "judge", "summary"]


class ChatRequest(Record):
    """What to ask.

    `json_schema` asks for structured output, `json_mode` for any JSON object, where the server offers it.
    `cut_after_ms` after it was sent, an answer is taken as far as it has come: see `ChatResponse.cut`.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    json_schema: dict[str, Any] | None = None
    json_mode: bool = False
    purpose: Purpose = "agent"
    timeout_s: float | None = None
    cut_after_ms: float | None = None


class Usage(Record, rename={"input_tokens": "input", "output_tokens": "output"}):
    """Tokens as the server counted them. Never estimated: absent means unknown.

    Stored under shorter names, since a name that ends in `token` is looked at as that of a secret.
    """

    input_tokens: int
    output_tokens: int


class ChatResponse(Record):
    """What one successful attempt brought back.

    `chunks` are (milliseconds after the request was sent, piece of text). `source` says whether the answer came
    live from the model; anything else is never graded for latency. An answer that was `cut` holds what had arrived by
    `ChatRequest.cut_after_ms`, its `finish_reason` is `deadline` and `attempt.cut_ms` is set. `timing_includes` says
    what is in the times beside the model and the way to it, if anything: then they are not graded either.
    """

    text: str
    attempt: Attempt
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    chunks: tuple[tuple[float, int], ...] = ()
    finish_reason: str | None = None
    source: Literal["live", "cached", "replayed"] = "live"
    timing_includes: str | None = None

    @property
    def cut(self) -> bool:
        return self.attempt.cut_ms is not None
