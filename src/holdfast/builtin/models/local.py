"""`local/smollm2`, or `local/FILE.gguf`: a small real model in this process, without a key or a network.

It is there to show the clock, time to first token and time to safe on real tokens. It does not pretend to be a good
model, and still less a good judge.

One call runs at a time, in a thread; the others wait their turn before their own times begin, and the event loop is
never held up.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from holdfast.builtin.models.cutting import Cut, cut_short
from holdfast.builtin.models.http_settings import reject_unknown
from holdfast.builtin.models.local_clock import CallClock
from holdfast.builtin.models.local_llama import Generated, Llama, LlamaSettings, TooLong
from holdfast.builtin.models.local_weights import find_weights
from holdfast.errors import ModelError, SetupError
from holdfast.plugins.factories import ModelSettings
from holdfast.records.model import ChatRequest, ChatResponse

_DEFAULTS = {"context": 4096, "threads": 0, "max_tokens": 256}


class LocalModel:
    """A `ports.model.ChatModel`, built by the model factory for `local`. The weights are loaded by the first call."""

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` when a package or the weights are missing, or a setting is wrong."""
        self._name = f"local/{settings.name}"
        self._settings = _read(self._name, settings.options)
        self._weights = find_weights(settings.name, settings.folder)
        if importlib.util.find_spec("llama_cpp") is None:
            raise SetupError(
                f"{self._name} needs the package llama-cpp-python, which is not installed: "
                f"pip install 'holdfast[local]' (it is built from source, which takes some minutes)"
            )
        self._timeout_s = settings.timeout_s
        self._turn = asyncio.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._llama: Llama | None = None

    @property
    def name(self) -> str:
        return self._name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Ask once; see `ports.model.ChatModel.attempt`."""
        if request.tools:
            raise ModelError(
                f"{self._name} cannot call tools, and {len(request.tools)} were offered; "
                f"use `agent: model`, or a model that can",
                kind="refused",
            )
        limit = self._timeout_s if request.timeout_s is None else request.timeout_s
        async with self._turn:
            llama = self._llama or await self._load()
            clock = CallClock(zero)
            stop = threading.Event()
            try:
                async with asyncio.timeout(limit), Cut(request.cut_after_ms) as cut:
                    cut.start(clock.begun)
                    done = await self._in_thread(llama, request, clock, stop)
                    response = _response(done, clock)
                    if request.cut_after_ms is None or (response.attempt.latency_ms or 0.0) <= request.cut_after_ms:
                        return response
                return cut_short(clock.so_far(), request.cut_after_ms or 0.0)
            except (TimeoutError, TooLong, ValueError, RuntimeError) as error:
                failure = self._failure(error, limit)
                failure.attempt = clock.attempt(error=str(failure))
                raise failure from error

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        llama, self._llama = self._llama, None
        if thread is not None:
            if llama is not None:
                await asyncio.get_running_loop().run_in_executor(thread, llama.close)
            thread.shutdown()

    async def _load(self) -> Llama:
        """Outside the times of a call: a server would have done it before the first request."""
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix=self._name)
        loop = asyncio.get_running_loop()
        try:
            llama = await loop.run_in_executor(self._thread, Llama, self._weights, self._settings)
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            text = f"{self._name}: cannot load {self._weights}: {error}"
            raise ModelError(text, kind="refused") from error
        self._llama = llama
        return llama

    async def _in_thread(
        self, llama: Llama, request: ChatRequest, clock: CallClock, stop: threading.Event
    ) -> Generated:
        """When cancelled, wait for the token under way: the next call must find the weights idle."""
        job = asyncio.get_running_loop().run_in_executor(self._thread, llama.generate, request, clock, stop)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([job])
            if not job.cancelled():
                job.exception()
            raise

    def _failure(self, error: Exception, limit: float) -> ModelError:
        if isinstance(error, TimeoutError):
            return ModelError(f"{self._name}: no complete answer within {limit:g} s", kind="timeout", retryable=True)
        return ModelError(f"{self._name} refused the request: {error}", kind="refused")


def _response(done: Generated, clock: CallClock) -> ChatResponse:
    return msgspec.structs.replace(
        clock.so_far(),
        usage=done.usage,
        finish_reason=done.finish_reason,
        finish_raw=done.finish_reason.value,
        token_limit=done.token_limit,
    )


def _read(name: str, options: Mapping[str, Any]) -> LlamaSettings:
    reject_unknown(name, options, tuple(_DEFAULTS))
    values: dict[str, int] = {}
    for option, default in _DEFAULTS.items():
        value = options.get(option, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < min(default, 1):
            raise SetupError(f"{name}: option {option} is {value!r}, expected a whole number above 0")
        values[option] = value
    threads = values["threads"] or max(1, (os.cpu_count() or 2) - 1)
    return LlamaSettings(context=values["context"], threads=threads, max_tokens=values["max_tokens"])
