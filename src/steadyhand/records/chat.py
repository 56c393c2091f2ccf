"""A question to a chat model, its answer, and when things happened in the call.

All times are milliseconds from the moment the call was asked for (`0` is when it entered our queue), read off one
monotonic clock. *Latency* is from `sent_ms` to `last_byte_ms` of the one successful live attempt, so nothing of ours
is in it.
"""

from __future__ import annotations

import enum
from typing import Any, Literal

from steadyhand.records.base import Record

Role = Literal["system", "user", "assistant", "tool"]
Purpose = Literal["agent", "user", "judge", "summary"]
_MODELS_OWN_LIMIT = frozenset(("model_length", "model_context_window_exceeded"))


class Attempt(Record, array_like=True):
    """One try at a call. A figure is None when that point was not reached.

    `cut_ms` is the deadline at which we stopped reading an answer that was not complete. One that went through a proxy
    is `proxied`: the way through it is part of its times.
    """

    started_ms: float
    connected_ms: float | None = None
    sent_ms: float | None = None
    first_byte_ms: float | None = None
    first_token_ms: float | None = None
    last_byte_ms: float | None = None
    cut_ms: float | None = None
    status: int | None = None
    reused_connection: bool = False
    streamed: bool = False
    error: str | None = None
    backoff_ms: float = 0.0
    proxied: bool = False

    @property
    def latency_ms(self) -> float | None:
        """Request sent to last byte, or None when either is missing or the attempt failed.

        Of an attempt that was cut it is the time until then: the least that the whole answer would have taken.
        """
        end_ms = self.last_byte_ms if self.cut_ms is None else self.cut_ms
        if self.error is not None or self.sent_ms is None or end_ms is None:
            return None
        return end_ms - self.sent_ms


class SpoiledBy(enum.StrEnum):
    """What can come between a measured latency and that of the model."""

    NOT_LIVE = "not_live"
    INCLUDES = "includes"
    RETRIED = "retried"
    LAGGED = "lagged"
    FAILED = "failed"

    @property
    def passes(self) -> bool:
        """Whether a fresh measurement may well be without it."""
        return self in (SpoiledBy.RETRIED, SpoiledBy.LAGGED)


class Spoiled(Record, array_like=True):
    """A disturbance of a latency. Without it that would have been from `low_ms` to `high_ms`; None is not known."""

    kind: SpoiledBy
    detail: str
    low_ms: float | None = None
    high_ms: float | None = None

    def __str__(self) -> str:
        return self.detail


class CallTiming(Record, array_like=True):
    """The whole timing record of a call.

    `chunks` holds (arrival after `sent_ms` of the last attempt, number of characters) for each piece of text; the
    pieces in order make up the reply. `spoiled` lists what may have changed the latency; empty means it is the model's.
    """

    queued_ms: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    loop_lag_ms: float = 0.0
    chunks: tuple[tuple[float, int], ...] = ()
    spoiled: tuple[Spoiled, ...] = ()

    @property
    def latency_ms(self) -> float | None:
        return self.attempts[-1].latency_ms if self.attempts else None

    @property
    def cut(self) -> bool:
        """Whether the last attempt was cut off at a deadline, its answer incomplete."""
        return bool(self.attempts) and self.attempts[-1].cut_ms is not None

    @property
    def first_token_ms(self) -> float | None:
        """Request sent to first token of the last attempt."""
        if not self.attempts:
            return None
        last = self.attempts[-1]
        if last.sent_ms is None or last.first_token_ms is None:
            return None
        return last.first_token_ms - last.sent_ms


class SafetyAtDeadline(Record, array_like=True):
    """Whether what had been received by each bound of the budget satisfied the invariants; None when not known."""

    target: bool | None = None
    acceptable: bool | None = None
    critical: bool | None = None


class SafetyTimeline(Record):
    """Milliseconds after the request was sent; docs/time.md defines each figure.

    `safe_ms` is when the text became safe for good and `first_safe_ms` when it first was; both are None when that never
    happened. `excludes` names the invariants that only a whole answer can be checked for. `unknown` says why figures
    are missing that could not be had.
    """

    first_token_ms: float | None = None
    safe_ms: float | None = None
    first_safe_ms: float | None = None
    at_deadline: SafetyAtDeadline | None = None
    excludes: tuple[str, ...] = ()
    unknown: str | None = None


class ToolCall(Record):
    """A model's wish to call a tool. `arguments` is what it sent, parsed; `raw` is kept when it was not JSON."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None


class ToolSpec(Record):
    """A tool offered to a model: `parameters` is a JSON Schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Message(Record):
    """One message. `tool_call_id` and `name` are set on a tool's answer."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


class FinishReason(enum.StrEnum):
    """How an answer ended, in one word for all vendors.

    Made from any vendor's word, in upper case or lower; one that nobody knows is `UNKNOWN`.
    """

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    ERROR = "error"
    PAUSE_TURN = "pause_turn"
    DEADLINE = "deadline"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> FinishReason:
        return _VENDORS.get(str(value).strip().lower(), cls.UNKNOWN)


_WORDS: dict[FinishReason, str] = {
    FinishReason.STOP: "stop end_turn stop_sequence eos eos_token end completed complete",
    FinishReason.TOOL_CALLS: "tool_calls tool_call tool_use function_call",
    FinishReason.LENGTH: "length max_tokens max_output_tokens max_length model_length model_context_window_exceeded",
    FinishReason.REFUSAL: "refusal",
    FinishReason.CONTENT_FILTER: (
        "content_filter content_filtered safety image_safety recitation blocklist prohibited_content spii "
        "guardrail_intervened sensitive error_toxic"
    ),
    FinishReason.ERROR: (
        "error failed abort aborted cancelled network_error insufficient_system_resource malformed_function_call "
        "unexpected_tool_call"
    ),
    FinishReason.PAUSE_TURN: "pause_turn",
    FinishReason.DEADLINE: "deadline",
}
_VENDORS = {word: reason for reason, words in _WORDS.items() for word in words.split()}


class Finish(Record, array_like=True):
    """How an answer ended: in our word, in the server's, and the most tokens that the request allowed, if it did."""

    reason: FinishReason
    raw: str | None = None
    token_limit: int | None = None

    @property
    def plain(self) -> bool:
        """The model was done."""
        return self.reason is FinishReason.STOP

    @property
    def is_error(self) -> bool:
        """It is no answer of the model's: the provider kept it back, or broke it off."""
        return self.reason in (FinishReason.CONTENT_FILTER, FinishReason.ERROR, FinishReason.PAUSE_TURN)

    @property
    def our_limit(self) -> bool:
        return self.reason is FinishReason.LENGTH and self.token_limit is not None

    @property
    def undecided(self) -> bool:
        """What the model would have said is not known, and that is not its doing: nothing may pass by it."""
        return self.our_limit or self.reason is FinishReason.UNKNOWN

    def __str__(self) -> str:
        if self.our_limit:
            tokens = "1 token" if self.token_limit == 1 else f"{self.token_limit} tokens"
            return f"the answer was cut off by our limit of {tokens}{self._word()}"
        if self.reason is FinishReason.UNKNOWN and self.raw is None:
            return "the stream did not say how the answer ended: it has no finish reason"
        return _ENDED[self.reason] + self._word()

    def _word(self) -> str:
        return f" ({self.raw})" if self.raw else ""


_ENDED = {
    FinishReason.STOP: "the model was done",
    FinishReason.TOOL_CALLS: "the model asked for tools instead of ending its answer",
    FinishReason.LENGTH: "the answer was cut off by the model's own token limit",
    FinishReason.REFUSAL: "the model refused",
    FinishReason.CONTENT_FILTER: "the answer was withheld by the provider's filter",
    FinishReason.ERROR: "the answer ended in an error of the provider",
    FinishReason.PAUSE_TURN: "the provider paused the answer and did not end it",
    FinishReason.DEADLINE: "the answer was cut off at the deadline",
    FinishReason.UNKNOWN: "the answer ended for a reason that is not known",
}


Dialect = Literal["openai_chat", "openai_responses", "anthropic_messages"]


class ClientBody(Record):
    """A question as the agent's own client put it. A model of the same dialect is sent these fields and not ours."""

    dialect: Dialect
    fields: dict[str, Any] = {}


class ChatRequest(Record):
    """What to ask.

    `json_schema` asks for structured output, `json_mode` for any JSON object, where the server offers it.
    `cut_after_ms` after it was sent, an answer is taken as far as it has come: see `ChatResponse.cut`. `client` is set
    when an agent's own client asks, through the gateway. `headers` are sent with this request by models over HTTP.
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
    client: ClientBody | None = None
    headers: dict[str, str] = {}


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
    what is in the times beside the model and the way to it, if anything. `finish_reason` is None when the server did
    not say, `finish_raw` is its own word, and `token_limit` the most tokens that the request allowed, if it did. `body`
    is the answer as it came, where the question was sent as an agent's client put it.
    """

    text: str
    attempt: Attempt
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    chunks: tuple[tuple[float, int], ...] = ()
    finish_reason: FinishReason | None = None
    source: Literal["live", "cached", "replayed"] = "live"
    timing_includes: str | None = None
    finish_raw: str | None = None
    token_limit: int | None = None
    body: str | None = None

    @property
    def finish(self) -> Finish | None:
        if self.finish_reason is None:
            return None
        limit = None if self.finish_raw in _MODELS_OWN_LIMIT else self.token_limit
        # A third party's model may give the vendor's own word.
        return Finish(reason=FinishReason(self.finish_reason), raw=self.finish_raw, token_limit=limit)

    @property
    def cut(self) -> bool:
        return self.attempt.cut_ms is not None
