"""What the model server answers: text, tool calls, failures and the shape they have on the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from steadyhand.records.base import Record
from steadyhand.records.chat import ToolCall, Usage


class Answer(Record):
    """One answer of the server. The defaults are a well-behaved one; each field is one way to differ.

    What it says: `text` (or `pieces`, the same text already cut as it is to be streamed, or `json`, any value to be
    written as JSON), `tool_calls`, `reasoning`, `finish_reason` (in the words of chat completions, and `refusal`),
    `usage` (None leaves it out).

    When: `delay_s` before the headers, `first_token_s` between them and the first piece, `piece_s` between pieces.

    How it fails: a `status` other than 200 with `error` in the vendor's error body (its `error_type` follows
    from the status unless given) and `headers` such as `Retry-After`;
    `body` and `content_type` replace the whole answer; `fault` never answers or resets the connection; `cut_after`
    closes the connection after so many pieces; `stream_error` puts an error object into the stream after the pieces.

    Streaming: `offered`; `refused` with status 400; `ignored`, answering plain JSON; `options_refused`, status 400 for
    `stream_options` only.

    On the wire: `done` writes `[DONE]`; `framing` ends the stream by a last chunk or by closing; `newline`, `space`
    (after `data:`) and `comments` vary the event stream; `write_size` hands the socket so many bytes at a time.
    """

    text: str = ""
    pieces: tuple[str, ...] = ()
    piece_chars: int = 12
    json: Any = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    finish_reason: str | None = "stop"
    usage: Usage | None = Usage(input_tokens=7, output_tokens=5)

    delay_s: float = 0.0
    first_token_s: float = 0.0
    piece_s: float = 0.0

    status: int = 200
    error: str = "the server was told to fail"
    error_type: str | None = None
    headers: dict[str, str] = {}
    body: bytes | None = None
    content_type: str = "text/html"
    fault: Literal["hang", "reset"] | None = None
    cut_after: int | None = None
    stream_error: str | None = None
    streaming: Literal["offered", "refused", "ignored", "options_refused"] = "offered"

    done: bool = True
    framing: Literal["chunked", "close"] = "chunked"
    newline: Literal["\n", "\r\n"] = "\n"
    space: bool = True
    comments: bool = False
    write_size: int | None = None

    def text_pieces(self) -> tuple[str, ...]:
        """The text, cut as it is streamed."""
        if self.pieces:
            return self.pieces
        text = self.whole_text()
        return tuple(text[at : at + self.piece_chars] for at in range(0, len(text), self.piece_chars))

    def whole_text(self) -> str:
        if self.json is not None:
            return msgspec.json.encode(self.json).decode()
        return "".join(self.pieces) or self.text


class Times(Record):
    """When the server did what, in seconds of `time.perf_counter()`.

    The clock is the machine's monotonic one, so figures of two processes compare. `first_write` and `last_write` are
    read just before the bytes are handed to the kernel: no client can have them earlier. `drained` is when the
    transport held none of them any more.
    """

    received: float
    first_write: float | None = None
    last_write: float | None = None
    drained: float | None = None


class Served(Record):
    """One request and what became of it. `prompt` is the content of its last message."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    connection: int
    prompt: str = ""
    times: Times


Behaviour = Answer | Sequence[Answer] | Callable[[Served], Answer]
"""One answer for all, one for each request (the last repeats), or a function of the request."""


def answer_for(behaviour: Behaviour, request: Served) -> Answer:
    if isinstance(behaviour, Answer):
        return behaviour
    if callable(behaviour):
        return behaviour(request)
    return behaviour[min(request.number, len(behaviour)) - 1]
