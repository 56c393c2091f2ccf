"""A llama.cpp model in this process: messages in, tokens out, each stamped as it comes. One thread at a time."""

from __future__ import annotations

import codecs
import importlib
import json
import threading
from pathlib import Path
from typing import Any

from holdfast.builtin.models.local_clock import CallClock
from holdfast.records.base import Record
from holdfast.records.model import ChatRequest, FinishReason, Usage

# llama-cpp-python is built from source and so not there when types are checked: everything of it is Any here.


class LlamaSettings(Record):
    """How the weights are run. `threads` leaves a core to the event loop unless set."""

    context: int
    threads: int
    max_tokens: int


class Generated(Record):
    """What is known at the end, beside the text and the times, which are in the clock."""

    usage: Usage
    finish_reason: FinishReason
    token_limit: int | None


class TooLong(Exception):
    """The messages do not fit into the context; the text says by how much."""


class Llama:
    """Weights, loaded. Not safe for two threads at once."""

    def __init__(self, weights: Path, settings: LlamaSettings) -> None:
        self._library: Any = importlib.import_module("llama_cpp")
        self._settings = settings
        self._llama: Any = self._library.Llama(
            model_path=str(weights),
            n_ctx=settings.context,
            n_threads=settings.threads,
            n_threads_batch=settings.threads,
            verbose=False,
        )
        self._format = self._formatter()

    def generate(self, request: ChatRequest, clock: CallClock, stop: threading.Event) -> Generated:
        """Answer until the model ends, the limit is reached or `stop` is set. Raises `TooLong`."""
        llama = self._llama
        grammar = self._grammar(request)
        llama.set_seed(self._library.LLAMA_DEFAULT_SEED if request.seed is None else request.seed % 2**32)
        clock.begin()
        prompt = self._prompt(request)
        room = self._settings.context - len(prompt)
        if room < 1:
            raise TooLong(f"the messages are {len(prompt)} tokens and the context holds {self._settings.context}")
        allowed = self._settings.max_tokens if request.max_tokens is None else request.max_tokens
        limit = min(room, allowed)
        llama.reset()  # else what an earlier call has in common with this one would not be computed, nor timed
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        finish_reason = FinishReason.LENGTH
        written = 0
        temperature = 0.2 if request.temperature is None else request.temperature
        for token in llama.generate(prompt, temp=temperature, grammar=grammar):
            if stop.is_set():
                break
            if self._library.llama_vocab_is_eog(llama._model.vocab, token):  # noqa: SLF001 -- no public way
                finish_reason = FinishReason.STOP
                break
            written += 1
            text = decoder.decode(llama.detokenize([token], prev_tokens=prompt))
            clock.arrived(text)
            if written >= limit:
                break
        rest = decoder.decode(b"", final=True)
        clock.arrived(rest, token=False)
        return Generated(
            usage=Usage(input_tokens=len(prompt), output_tokens=written),
            finish_reason=finish_reason,
            token_limit=allowed if allowed <= room else None,
        )

    def close(self) -> None:
        self._llama.close()

    def _formatter(self) -> Any:
        """The chat template that came with the weights, or ChatML, which most small models were trained on."""
        chat: Any = importlib.import_module("llama_cpp.llama_chat_format")
        template = self._llama.metadata.get("tokenizer.chat_template") or chat.CHATML_CHAT_TEMPLATE
        return chat.Jinja2ChatFormatter(
            template=template,
            eos_token=self._written(self._llama.token_eos()),
            bos_token=self._written(self._llama.token_bos()),
        )

    def _written(self, token: int) -> str:
        return "" if token < 0 else self._llama.detokenize([token], special=True).decode("utf-8", "replace")

    def _prompt(self, request: ChatRequest) -> list[int]:
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        prompt: str = self._format(messages=messages).prompt
        return self._llama.tokenize(prompt.encode(), add_bos=False, special=True)

    def _grammar(self, request: ChatRequest) -> Any:
        if request.json_schema is not None:
            return self._library.LlamaGrammar.from_json_schema(json.dumps(request.json_schema), verbose=False)
        if request.json_mode:
            grammars: Any = importlib.import_module("llama_cpp.llama_grammar")
            return self._library.LlamaGrammar.from_string(grammars.JSON_GBNF, verbose=False)
        return None
