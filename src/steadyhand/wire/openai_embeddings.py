"""OpenAI's embeddings API: two texts are asked about at once, and the answer is how alike they are."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec

from steadyhand.records.chat import ChatRequest, Usage, WireDialect
from steadyhand.wire.dialect import encode
from steadyhand.wire.stream import NOT_DECODED, AnswerReader, ErrorInAnswer, UnreadableResponse, message_in, not_read

_DIGITS = 6
"""Beyond these, equal texts differ by how the server rounds."""


class _Embedding(msgspec.Struct, gc=False):
    embedding: list[float]
    index: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: Any = None


class _Answer(msgspec.Struct, gc=False):
    data: list[_Embedding] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Answer).decode


class Embeddings:
    """A `Wire`. The text of the answer is the cosine of the two messages' embeddings: the vectors are not kept."""

    what: ClassVar[str] = "a list of two embeddings"
    dialect: ClassVar[WireDialect] = "openai_chat"

    def __init__(self, model: str) -> None:
        self._model: str = model

    @property
    def stream(self) -> bool:
        return False

    def encode(self, request: ChatRequest) -> bytes:
        return encode({"model": self._model, "input": [message.content for message in request.messages]})

    def reader(self, request: ChatRequest) -> AnswerReader:
        return _EmbeddingsReader()

    def token_limit(self, request: ChatRequest) -> None:
        return None

    def without(self, status: int, message: str, request: ChatRequest) -> None:
        return None


class _EmbeddingsReader(AnswerReader):
    __slots__ = ()

    def read(self, data: bytes, end: int) -> None:
        try:
            answer = _decode(data)
        except NOT_DECODED as error:
            raise not_read(error, data) from error
        if answer.error is not None:
            raise ErrorInAnswer(message_in(answer.error) or "no message")
        found = answer.data or []
        if [each.index for each in found] not in ([0, 1], [1, 0], [None, None]):
            raise UnreadableResponse(f"it has {len(found)} embeddings with indices {[each.index for each in found]}")
        self.add_text(f"{cosine(found[0].embedding, found[1].embedding):.{_DIGITS}f}", end)
        self.seen = True
        if answer.usage is not None and answer.usage.prompt_tokens is not None:
            self.usage = Usage(input_tokens=answer.usage.prompt_tokens, output_tokens=0)


def cosine(one: list[float], other: list[float]) -> float:
    """1 for vectors of the same direction, -1 for opposite ones. Raises `UnreadableResponse` if there is none."""
    if len(one) != len(other):
        raise UnreadableResponse(f"its embeddings have {len(one)} and {len(other)} numbers")
    lengths = math.hypot(*one), math.hypot(*other)
    if not all(0 < length < math.inf for length in lengths):
        raise UnreadableResponse("an embedding in it has no direction")
    share = math.fsum(a / lengths[0] * (b / lengths[1]) for a, b in zip(one, other, strict=True))
    return min(1.0, max(-1.0, share))
