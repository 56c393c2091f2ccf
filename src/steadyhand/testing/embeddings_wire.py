"""OpenAI's embeddings API, for the model server: texts that share many letters in a row are alike."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from steadyhand.testing.openai_wire import error_body
from steadyhand.testing.wire import Answer, WireReply, plain

_NUMBERS = 256
_LETTERS = 3


def reply_to(body: Mapping[str, Any], answer: Answer) -> WireReply:
    """The embeddings of the request's texts, whatever text the answer has."""
    if answer.body is not None:
        return plain(answer.status, answer.body, answer.content_type, answer)
    if answer.status != 200:
        return plain(answer.status, error_body(answer.status, answer.error), "application/json", answer)
    given: Any = body.get("input")
    texts = cast("list[str]", given if isinstance(given, list) else [given])
    whole: dict[str, Any] = {
        "object": "list",
        "model": body.get("model"),
        "data": [
            {"object": "embedding", "index": index, "embedding": embedding(str(text))}
            for index, text in enumerate(texts)
        ],
    }
    if answer.usage is not None:
        tokens = answer.usage.input_tokens
        whole["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
    return plain(200, msgspec.json.encode(whole), "application/json", answer)


def embedding(text: str) -> list[float]:
    """How often each of the text's sequences of three letters occurs in it, ignoring case."""
    found = [0.0] * _NUMBERS
    padded = f" {text.casefold()} "
    for at in range(len(padded) - _LETTERS + 1):
        found[zlib.crc32(padded[at : at + _LETTERS].encode()) % _NUMBERS] += 1.0
    return found
