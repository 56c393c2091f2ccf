"""Answers from a cassette.

`--replay DIR` answers from a cassette for every model of a run, and `replay/DIR` is a model that does so. No network is
used. Answers are marked as replayed, so their latency is never graded; they have the recorded times, whether or not the
replay waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import ClassVar, Literal

import msgspec

from steadyhand.builtin.models.cassette import Exchange, RecordedFailure, read_cassette, request_key, shifted
from steadyhand.errors import ModelError
from steadyhand.plugins.plugin import ModelSettings, Options, read_options
from steadyhand.ports.model import Listener
from steadyhand.records.base import shorten
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.redaction import Redactor, secrets_of

ReplayTime = Literal["zero", "original"]
_SHOWN = 80
_GRACE_MS = 250.0


class Cassette:
    """A recording that is being replayed. Every exchange is used once.

    If a request was recorded several times, the first with the same seed is used, or else the first that is left: with
    the seed of the recorded run, every trial gets its own answers back.
    """

    def __init__(self, folder: Path, redactor: Redactor, *, time: ReplayTime = "zero") -> None:
        """Reads the recording. Raises `SetupError` if there is none, or it cannot be read."""
        self.folder: Path = folder
        self.time: ReplayTime = time
        self._redactor: Redactor = redactor
        self._exchanges: list[Exchange] = read_cassette(folder)
        self._tracks: dict[tuple[str | None, str], _Track] = {}
        for exchange in self._exchanges:
            # Under its model's name, and under no name for `replay/DIR`, which stands for any model.
            for model in (exchange.model, None):
                self._tracks.setdefault((model, exchange.key), _Track()).add(exchange)

    def take(self, model: str | None, request: ChatRequest) -> Exchange:
        """The next recording of this request. Raises a `ModelError` that says what is missing."""
        request = self._redactor.value(request, by_name=False)
        track = self._tracks.get((model, request_key(request)))
        found = None if track is None else track.take(request.seed)
        if found is None:
            raise ModelError(self._missing(model, request, track), kind="refused")
        return found

    def _missing(self, model: str | None, request: ChatRequest, track: _Track | None) -> str:
        last = request.messages[-1].content if request.messages else ""
        call = f"a call of {model or 'the model'} for the {request.purpose} that ends with {shorten(last, _SHOWN)!r}"
        if track is not None:
            times = "once" if track.total == 1 else f"{track.total} times"
            return (
                f"the recording in {self.folder} has no answer left for {call}: "
                f"it was recorded {times} and is now needed once more; record it again"
            )
        models = sorted({exchange.model for exchange in self._exchanges})
        if model is not None and model not in models:
            hint = f"it holds {', '.join(models) or 'no calls'}"
        else:
            hint = "the scenario, its options or an earlier answer has changed since"
        return f"the recording in {self.folder} has no answer for {call}; {hint}; record it again"


class _Track:
    """The recordings of one request, in order. An abandoned one goes last: an interrupted run leaves these, and the
    answer follows when it is resumed."""

    def __init__(self) -> None:
        self.total: int = 0
        self._left: list[Exchange] = []

    def add(self, exchange: Exchange) -> None:
        self.total += 1
        self._left.append(exchange)

    def take(self, seed: int | None) -> Exchange | None:
        if not self._left:
            return None

        def order(at: int) -> tuple[bool, bool, int]:
            exchange = self._left[at]
            return exchange.request.seed != seed, exchange.given_up_ms is not None, at

        return self._left.pop(min(range(len(self._left)), key=order))


class ReplayedModel:
    """A `ports.model.ChatModel` that replays the recorded model `name`, or any if that is None."""

    def __init__(self, name: str | None, cassette: Cassette) -> None:
        self._model: str | None = name
        self._cassette: Cassette = cassette

    @property
    def name(self) -> str:
        return self._model or f"replay/{self._cassette.folder}"

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Answer as recorded; see `ports.model.ChatModel.attempt`."""
        return await self._attempt(request, None, zero)

    async def relay(self, request: ChatRequest, listener: Listener, *, zero: float) -> ChatResponse:
        """Answer as recorded, piece by piece; see `ports.model.RelayingModel.relay`."""
        return await self._attempt(request, listener, zero)

    async def _attempt(self, request: ChatRequest, listener: Listener | None, zero: float) -> ChatResponse:
        began_ms = (perf_counter() - zero) * 1000
        exchange = self._cassette.take(self._model, request)
        if listener is None or exchange.response is None:
            await self._wait_out(exchange, request.timeout_s)
        else:
            await self._play(exchange.response, listener)
        if exchange.response is not None:
            response = exchange.response
            limit = exchange.request.max_tokens if response.token_limit is None else response.token_limit
            attempt = shifted(response.attempt, began_ms)
            return msgspec.structs.replace(response, attempt=attempt, source="replayed", token_limit=limit)
        if exchange.failure is not None:
            raise self._error(exchange.failure, began_ms)
        raise ModelError(
            f"{self.name}: the recorded call was abandoned after {exchange.given_up_ms:g} ms, before an answer came",
            kind="timeout",
        )

    async def close(self) -> None:
        """There is nothing to close."""

    async def _play(self, response: ChatResponse, listener: Listener) -> None:
        """Pass the answer to the listener in its recorded pieces and, unless waiting is off, at their recorded
        times."""
        sent_ms = response.attempt.sent_ms or 0.0
        begun = perf_counter()
        for at_ms, piece in _pieces(response):
            if self._cassette.time == "original":
                await asyncio.sleep(max(0.0, (sent_ms + at_ms) / 1000 - (perf_counter() - begun)))
            if isinstance(piece, bytes):
                listener.pass_on(piece, response.headers)
            else:
                listener.say(piece)
            if listener.full:
                await listener.ready()
        listener.end()

    async def _wait_out(self, exchange: Exchange, limit_s: float | None) -> None:
        if self._cassette.time == "zero":
            return
        wait_s = _length_ms(exchange) / 1000
        if limit_s is not None and wait_s > limit_s:
            await asyncio.sleep(limit_s)
            raise ModelError(f"{self.name}: no complete answer within {limit_s:g} s", kind="timeout", retryable=True)
        await asyncio.sleep(wait_s)

    def _error(self, failure: RecordedFailure, began_ms: float) -> ModelError:
        """With `time` zero, a server's `Retry-After` takes no time either."""
        error = ModelError(
            failure.message,
            kind=failure.kind,
            retryable=failure.retryable,
            status=failure.status,
            retry_after_s=0.0 if self._cassette.time == "zero" else failure.retry_after_s,
        )
        error.answer = failure.answer
        if failure.attempt is not None:
            error.attempt = shifted(failure.attempt, began_ms)
        return error


def _pieces(response: ChatResponse) -> Iterator[tuple[float, bytes | str]]:
    """The answer as it came, where the agent's client speaks the server's dialect; else its text."""
    at = 0
    if response.body is not None:
        body = response.body.encode()
        for at_ms, total in response.arrivals:
            yield at_ms, body[at:total]
            at = total
        if at and body[at:]:  # what a redaction made longer
            yield response.arrivals[-1][0], body[at:]
        return
    for at_ms, characters in response.chunks:
        yield at_ms, response.text[at : at + characters]
        at += characters


class ReplayOptions(Options):
    time: Literal["zero", "original"] = "zero"


class ReplayProvider(ReplayedModel):
    """`replay/DIR`, built by the model factory for `replay`: answers for any model that was recorded."""

    uses_network: ClassVar[bool] = False
    free: ClassVar[bool] = True
    names_file: ClassVar[bool] = True
    options: ClassVar[type[Options]] = ReplayOptions

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` if there is no recording or the option `time` is invalid."""
        time = read_options(ReplayOptions, settings.options, f"replay/{settings.name}").time
        redactor = Redactor(secrets_of(settings.variables))
        super().__init__(None, Cassette(settings.folder / settings.name, redactor, time=time))
        self._shown_name = f"replay/{settings.name}"

    @property
    def name(self) -> str:
        return self._shown_name


def _length_ms(exchange: Exchange) -> float:
    """How long the attempt took, as far as known."""
    if exchange.given_up_ms is not None:
        # The time limit that ended it then should end it again, before this does.
        return exchange.given_up_ms + _GRACE_MS
    attempt = exchange.response.attempt if exchange.response else exchange.failure and exchange.failure.attempt
    if not attempt:
        return 0.0
    return max(0.0, *_reached(attempt.started_ms, attempt.sent_ms, attempt.first_byte_ms, attempt.last_byte_ms))


def _reached(*moments: float | None) -> Iterable[float]:
    return (moment for moment in moments if moment is not None)
