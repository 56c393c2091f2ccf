"""A request to a chat model, its answer, and the times of the call.

All times are in milliseconds since the call entered our queue, from one monotonic clock. *Latency* is from `sent_ms` to
`last_byte_ms` of the one successful live attempt, so it includes nothing of ours.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import msgspec

from steadyhand.records.base import Natural, Record, doc

Role = Literal["system", "user", "assistant", "tool"]
Purpose = Literal["agent", "user", "judge", "summary"]
_MODELS_OWN_LIMIT = frozenset(("model_length", "model_context_window_exceeded"))


class ArrivalClock(enum.StrEnum):
    """Who stamped the bytes of an answer when they arrived.

    `OWN`: this process, when its event loop read them. `KERNEL`: the kernel, however busy the process was. `CLOCK_SET`:
    this process, because the system's clock, on which the kernel stamps, was set during the attempt.
    """

    OWN = "own"
    KERNEL = "kernel"
    CLOCK_SET = "clock_set"


class Attempt(Record, array_like=True):
    """One attempt at a call. A time is None if that point was not reached.

    `cut_ms` is the deadline at which we stopped reading an answer that was not complete. If it went through a proxy, it
    is `proxied`: the proxy is part of its times. `last_byte_shared`: bytes that do not belong to the answer were read
    together with its last one, and may have come later than it; see `CallTiming`.
    """

    started_ms: Annotated[float, doc("When the attempt started.")]
    connected_ms: Annotated[float | None, doc("When the connection was open.")] = None
    sent_ms: Annotated[float | None, doc("When the request was sent.")] = None
    first_byte_ms: Annotated[float | None, doc("When the first byte arrived.")] = None
    first_token_ms: Annotated[float | None, doc("When the first token arrived.")] = None
    last_byte_ms: Annotated[float | None, doc("When the last byte arrived.")] = None
    cut_ms: Annotated[float | None, doc("When the answer was cut off at a deadline.")] = None
    status: Annotated[int | None, doc("HTTP status.")] = None
    reused_connection: Annotated[bool, doc("Whether an open connection was used again.")] = False
    streamed: Annotated[bool, doc("Whether the answer was streamed.")] = False
    error: Annotated[str | None, doc("Why the attempt failed.")] = None
    backoff_ms: Annotated[float, doc("Back-off before the next attempt.")] = 0.0
    proxied: Annotated[bool, doc("Whether it went through a proxy, which is then part of its times.")] = False
    clock: Annotated[ArrivalClock, doc("Who stamped the arrivals.")] = ArrivalClock.OWN
    last_byte_shared: bool = False

    @property
    def latency_ms(self) -> float | None:
        """From request sent to last byte; None if either is missing or the attempt failed.

        For an attempt that was cut off it is the time until then, which the whole answer would have exceeded.
        """
        end_ms = self.last_byte_ms if self.cut_ms is None else self.cut_ms
        if self.error is not None or self.sent_ms is None or end_ms is None:
            return None
        return end_ms - self.sent_ms


class SpoiledBy(enum.StrEnum):
    """What can make a measured latency differ from the model's own."""

    NOT_LIVE = "not_live"
    INCLUDES = "includes"
    RETRIED = "retried"
    LAGGED = "lagged"
    FAILED = "failed"

    @property
    def passes(self) -> bool:
        """Whether measuring again is likely to avoid it."""
        return self in (SpoiledBy.RETRIED, SpoiledBy.LAGGED)


class Spoiled(Record, array_like=True):
    """Something that may have distorted a latency. The true value is between `low_ms` and `high_ms`; None means
    unknown."""

    kind: SpoiledBy
    detail: str
    low_ms: float | None = None
    high_ms: float | None = None

    def __str__(self) -> str:
        return self.detail


class CallTiming(Record, array_like=True):
    """The times of a call.

    `chunks` has (arrival after `sent_ms` of the last attempt, number of characters) for each piece of the reply.
    `spoiled` lists what may have distorted the latency; if it is empty, the latency is the model's. `pieces_late_ms` is
    the most by which a piece can have arrived before its time in `chunks`: pieces that arrive while the event loop is
    busy are read together, and the kernel gives only the time of the last.
    """

    queued_ms: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    loop_lag_ms: float = 0.0
    chunks: tuple[tuple[float, int], ...] = ()
    spoiled: tuple[Spoiled, ...] = ()
    pieces_late_ms: float = 0.0

    @property
    def latency_ms(self) -> float | None:
        return self.attempts[-1].latency_ms if self.attempts else None

    @property
    def cut(self) -> bool:
        """Whether the last attempt was cut off at a deadline with its answer incomplete."""
        return bool(self.attempts) and self.attempts[-1].cut_ms is not None

    @property
    def first_token_ms(self) -> float | None:
        """From request sent to first token of the last attempt."""
        if not self.attempts:
            return None
        last = self.attempts[-1]
        if last.sent_ms is None or last.first_token_ms is None:
            return None
        return last.first_token_ms - last.sent_ms


class SafetyAtDeadline(Record, array_like=True):
    """Whether the text received by each bound of the budget satisfied the invariants; None if unknown."""

    target: Annotated[bool | None, doc("Safe at the target time; null if unknown.")] = None
    acceptable: Annotated[bool | None, doc("Safe at the acceptable time; null if unknown.")] = None
    critical: Annotated[bool | None, doc("Safe at the critical time; null if unknown.")] = None


class InvariantTimeline(Record, array_like=True):
    """When one invariant held on what had been received: `changes` are (arrival, holds), the first at the first text.

    Every change from one to the other has an entry, and nothing else has.
    """

    name: Annotated[str, doc("Name of the invariant.")]
    changes: Annotated[
        tuple[tuple[float, bool], ...],
        doc("Pairs of an arrival time, after the request was sent, and whether the invariant held from then on."),
    ]


class SafetyTimeline(Record):
    """Milliseconds after the request was sent; docs/time.md defines each figure.

    `safe_ms` is when the text became safe for good, `first_safe_ms` when it first was safe; None if that never
    happened. `excludes` names the invariants that can be checked on a complete answer only. `unknown` says why figures
    are missing. `invariants` are those that can be checked on a part of the answer.
    """

    first_token_ms: float | None = None
    safe_ms: float | None = None
    first_safe_ms: float | None = None
    at_deadline: SafetyAtDeadline | None = None
    excludes: tuple[str, ...] = ()
    unknown: str | None = None
    invariants: tuple[InvariantTimeline, ...] = ()


class ToolCall(Record):
    """A tool call by a model. `arguments` is what it sent, parsed; `raw` is set if it was not JSON."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None

    @property
    def arguments_text(self) -> str:
        """The arguments as the model wrote them, or encoded again."""
        return self.raw if self.raw is not None else msgspec.json.encode(self.arguments).decode()


class ToolSpec(Record):
    """A tool offered to a model: `parameters` is a JSON Schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Message(Record):
    """One message. `tool_call_id` and `name` are set on a tool's result, and `failed` if it says how the call ended."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    failed: bool | None = None


class FinishReason(enum.StrEnum):
    """How an answer ended, in the same terms for all vendors.

    Accepts any vendor's term in upper or lower case; an unfamiliar one is `UNKNOWN`.
    """

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    ERROR = "error"
    PAUSE_TURN = "pause_turn"
    DEADLINE = "deadline"
    HUNG_UP = "hung_up"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> FinishReason:
        return _VENDORS.get(str(value).strip().lower(), cls.UNKNOWN)

    @property
    def rank(self) -> int:
        """Of several, the lowest counts: 0 is the worst."""
        return _RANKS[self]


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
    FinishReason.HUNG_UP: "hung_up",
}
_WORST_FIRST = (
    FinishReason.CONTENT_FILTER,
    FinishReason.ERROR,
    FinishReason.PAUSE_TURN,
    FinishReason.UNKNOWN,
    FinishReason.LENGTH,
    FinishReason.DEADLINE,
    FinishReason.HUNG_UP,
    FinishReason.REFUSAL,
    FinishReason.TOOL_CALLS,
    FinishReason.STOP,
)
_RANKS = {reason: rank for rank, reason in enumerate(_WORST_FIRST)}
FINISH_FIELDS = ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason")
"""Where vendors and frameworks have it."""

_VENDORS = {word: reason for reason, words in _WORDS.items() for word in words.split()}


class Finish(Record, array_like=True):
    """How an answer ended, in our term and the server's, and the token limit of the request, if any."""

    reason: FinishReason
    raw: str | None = None
    token_limit: int | None = None

    @property
    def plain(self) -> bool:
        """The model was done."""
        return self.reason is FinishReason.STOP

    @property
    def is_error(self) -> bool:
        """Whether the provider withheld the answer or broke it off."""
        return self.reason in (FinishReason.CONTENT_FILTER, FinishReason.ERROR, FinishReason.PAUSE_TURN)

    @property
    def our_limit(self) -> bool:
        return self.reason is FinishReason.LENGTH and self.token_limit is not None

    @property
    def undecided(self) -> bool:
        """Whether the answer was cut off by no fault of the model, so that nothing can pass because of it."""
        reason = self.reason
        return reason is FinishReason.UNKNOWN or (reason is FinishReason.LENGTH and self.token_limit is not None)

    def __str__(self) -> str:
        if self.our_limit:
            tokens = "1 token" if self.token_limit == 1 else f"{self.token_limit} tokens"
            return f"the answer was cut off by our limit of {tokens}{self._word()}"
        if self.reason is FinishReason.UNKNOWN and self.raw is None:
            return "the stream has no finish reason, so the answer may be incomplete"
        return _ENDED[self.reason] + self._word()

    def _word(self) -> str:
        return f" ({self.raw})" if self.raw else ""


_ENDED = {
    FinishReason.STOP: "the model was done",
    FinishReason.TOOL_CALLS: "the model called tools instead of ending its answer",
    FinishReason.LENGTH: "the answer was cut off by the model's own token limit",
    FinishReason.REFUSAL: "the model refused",
    FinishReason.CONTENT_FILTER: "the answer was withheld by the provider's filter",
    FinishReason.ERROR: "the answer ended with a provider error",
    FinishReason.PAUSE_TURN: "the provider paused the answer and did not end it",
    FinishReason.DEADLINE: "the answer was cut off at the deadline",
    FinishReason.HUNG_UP: "the agent hung up before the answer had ended",
    FinishReason.UNKNOWN: "the answer ended for an unknown reason",
}


WireDialect = Literal["openai_chat", "openai_responses", "anthropic_messages", "gemini", "bedrock_converse"]


class ClientBody(Record):
    """The original request of an agent's own client. A model with the same API is sent these fields instead of ours.

    `headers` are the client's, without its key and what concerns its connection alone. They are not recorded.
    """

    dialect: WireDialect
    fields: dict[str, Any] = {}
    headers: dict[str, str] = {}


class ServerAnswer(Record):
    """The original answer, for an agent's client that uses the server's API."""

    status: int
    headers: dict[str, str] = {}
    body: str = ""


class ChatRequest(Record):
    """What to ask.

    `json_schema` requests structured output, `json_mode` any JSON object, if the server supports it. `cut_after_ms`
    after the request was sent, the answer is cut off as received so far: see `ChatResponse.cut`. `client` is set if the
    request comes from an agent's own client, through the gateway. `headers` are sent with this request by models over
    HTTP. `other_tools` are the kinds of tools that a client offers besides `tools`, whose calls are not read.
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
    other_tools: tuple[str, ...] = ()


MOST_TOKENS = 10**12


class Usage(Record, rename={"input_tokens": "input", "output_tokens": "output"}):
    """Tokens as counted by the server, never estimated. Missing means unknown.

    Stored under shorter names, because a name that ends in `token` looks like that of a secret.
    """

    input_tokens: Annotated[Natural, doc("Input tokens.")]
    output_tokens: Annotated[Natural, doc("Output tokens.")]

    @property
    def countable(self) -> bool:
        """Whether both are numbers of tokens. A server may report anything, and a third party's model too."""
        read, written = self.input_tokens, self.output_tokens
        if type(read) is not int or type(written) is not int:
            return False
        return 0 <= read <= MOST_TOKENS and 0 <= written <= MOST_TOKENS


NO_USAGE = Usage(input_tokens=-1, output_tokens=-1)
"""For what a server reports that is not even a pair of numbers."""


class ChatResponse(Record):
    """The result of one successful attempt.

    `chunks` are (milliseconds after the request was sent, number of characters). `source` says whether the answer came
    live from the model; anything else is never graded for latency. An answer that was `cut` holds what had arrived by
    `ChatRequest.cut_after_ms`, its `finish_reason` is `deadline` and `attempt.cut_ms` is set. `timing_includes` says
    what else is included in the times, besides the model and the network. `finish_reason` is None if the server did not
    say, `finish_raw` is its own term, and `token_limit` is the request's token limit, if any. If the request was
    forwarded from an agent's client, `body` and `headers` are the original answer. `arrivals` are (milliseconds after
    the request was sent, bytes of `body` that were there by then) if it was streamed.
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
    headers: dict[str, str] = {}
    arrivals: tuple[tuple[float, int], ...] = ()

    @property
    def finish(self) -> Finish | None:
        if self.finish_reason is None:
            return None
        limit = None if self.finish_raw in _MODELS_OWN_LIMIT else self.token_limit
        reason = self.finish_reason
        if type(reason) is not FinishReason:  # a third party's model may pass the vendor's own term
            reason = FinishReason(reason)
        return Finish(reason=reason, raw=self.finish_raw, token_limit=limit)

    @property
    def cut(self) -> bool:
        return self.attempt.cut_ms is not None
