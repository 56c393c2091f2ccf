"""A cassette: the model calls of a run, one JSON line each, in a folder's `cassette.jsonl`.

The first line is a header with the format's version. If the run dies, the cassette has every call that was finished; an
incomplete last line is ignored.

`--replay DIR` answers from a cassette for every model of a run, and `replay/DIR` is a model that does so. No network is
used. Answers are marked as replayed, so their latency is never graded; they have the recorded times, whether or not the
replay waits for them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import ClassVar, Literal

import msgspec

from steadyhand.errors import ModelError, ModelErrorKind, SetupError, StoreError
from steadyhand.plugins.plugin import ModelSettings, Options, read_options
from steadyhand.ports.model import ChatModel, Listener, relay
from steadyhand.records.base import Record, plain, shorten
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, ServerAnswer
from steadyhand.redaction import Redactor, secrets_of
from steadyhand.version import __version__

CASSETTE_FORMAT = 2
CASSETTE_FILE = "cassette.jsonl"
_TIMES = ("started_ms", "connected_ms", "sent_ms", "first_byte_ms", "first_token_ms", "last_byte_ms")
ReplayTime = Literal["zero", "original"]
_SHOWN = 80
_GRACE_MS = 250.0


class CassetteHeader(Record):
    cassette: int
    steadyhand_version: str
    created_at: str


class RecordedFailure(Record):
    """A `ModelError`, with its attempt."""

    message: str
    kind: ModelErrorKind
    retryable: bool = False
    status: int | None = None
    retry_after_s: float | None = None
    attempt: Attempt | None = None
    answer: ServerAnswer | None = None


class Exchange(Record):
    """One attempt: its request, and an answer, an error, or how long it was until it was abandoned.

    `number` counts the attempts of a recording in the order they began. Times are in milliseconds since then.
    """

    number: int
    key: str
    model: str
    request: ChatRequest
    response: ChatResponse | None = None
    failure: RecordedFailure | None = None
    given_up_ms: float | None = None


def request_key(request: ChatRequest) -> str:
    """A key that is equal for equal requests: everything that the model is shown, and the purpose.

    It excludes the seed, because each run draws a new one, and the time limit, because it is ours. `request` must
    already be redacted: a machine that replays does not have the secrets. Headers of an agent's client say more about
    the client than about its question.
    """
    asked = msgspec.structs.replace(_without_headers(request), seed=None, timeout_s=None)
    return hashlib.blake2b(_encode([asked.purpose, asked]), digest_size=16).hexdigest()


class CassetteWriter:
    """Writes redacted exchanges to a cassette. For use on one event loop. `broken` is set once it cannot be written."""

    def __init__(self, folder: Path, redactor: Redactor, *, add: bool = False) -> None:
        """Start a cassette in `folder`; with `add`, continue an existing one.

        Raises `SetupError` if there is one already, or if it cannot be written.
        """
        self.file: Path = folder / CASSETTE_FILE
        self._redactor: Redactor = redactor
        self._number: int = 0
        self.broken: StoreError | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if add and self.file.exists():
                self._carry_on(folder)
                return
            self._stream = self.file.open("xb")
        except FileExistsError as error:
            raise SetupError(
                f"--record {folder}: there is a recording already; give another folder, or delete {self.file}"
            ) from error
        except OSError as error:
            raise SetupError(f"--record {folder}: it cannot be written: {error.strerror}") from error
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._write(CassetteHeader(cassette=CASSETTE_FORMAT, steadyhand_version=__version__, created_at=created))

    def _carry_on(self, folder: Path) -> None:
        exchanges = read_cassette(folder)
        self._number = max((exchange.number for exchange in exchanges), default=0)
        self._stream = self.file.open("r+b")
        # An incomplete line would corrupt the next one.
        self._stream.truncate(self._stream.read().rfind(b"\n") + 1)
        self._stream.seek(0, 2)

    def begin(self) -> int:
        """The number of a new attempt."""
        self._number += 1
        return self._number

    def add(
        self,
        number: int,
        model: str,
        request: ChatRequest,
        *,
        response: ChatResponse | None = None,
        failure: RecordedFailure | None = None,
        given_up_ms: float | None = None,
    ) -> None:
        """Write an attempt. Raises `StoreError`.

        Entries are not redacted by name here, because a replay must return what the model said.
        """
        clean = self._redactor
        request = clean.value(_without_headers(request), by_name=False)
        self._write(
            Exchange(
                number=number,
                key=request_key(request),
                model=model,
                request=request,
                response=clean.value(response, by_name=False),
                failure=clean.value(failure, by_name=False),
                given_up_ms=given_up_ms,
            )
        )

    def close(self) -> None:
        """Safe to call twice. Errors were raised by `add`."""
        with suppress(OSError):
            self._stream.close()

    def _write(self, line: Record) -> None:
        try:
            self._stream.write(_encode(line) + b"\n")
            self._stream.flush()
        except OSError as error:
            self.broken = StoreError(
                f"the recording {self.file} cannot be written: {error.strerror}; "
                "what was recorded before is safe, free some space or mend the disk and resume"
            )
            raise self.broken from error


def read_cassette(folder: Path) -> list[Exchange]:
    """The exchanges in the order they began. Raises `SetupError` if there is no cassette or it cannot be read."""
    file = folder / CASSETTE_FILE
    try:
        lines = file.read_bytes().split(b"\n")
    except FileNotFoundError as error:
        raise SetupError(f"{folder} holds no recording: there is no {file}; make one with --record {folder}") from error
    except OSError as error:
        raise SetupError(f"the recording {file} cannot be read: {error.strerror}") from error
    _check_header(file, lines[0])
    decoder = msgspec.json.Decoder(Exchange)
    exchanges: list[Exchange] = []
    for number, line in enumerate(lines[1:-1], start=2):
        try:
            exchanges.append(decoder.decode(line))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise SetupError(f"the recording {file}:{number} is damaged: {error}; record it again") from error
    return sorted(exchanges, key=lambda exchange: exchange.number)


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=repr, order="sorted")
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(plain(value, keep=(float,)), order="sorted")


def _check_header(file: Path, line: bytes) -> None:
    try:
        found = msgspec.json.decode(line, type=dict[str, object]).get("cassette")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = None
    if not isinstance(found, int):
        raise SetupError(f"{file} is not a Steadyhand recording: its first line has no format version")
    if found > CASSETTE_FORMAT:
        raise SetupError(
            f"the recording {file} has format {found}, and this version of Steadyhand reads up to {CASSETTE_FORMAT}; "
            "upgrade Steadyhand"
        )


class RecordingModel:
    """A `ports.model.ChatModel` that records another one, and answers and fails exactly as it does.

    The models of a run share the cassette, which is closed by its owner.
    """

    def __init__(self, inner: ChatModel, cassette: CassetteWriter) -> None:
        self._inner: ChatModel = inner
        self._cassette: CassetteWriter = cassette

    @property
    def name(self) -> str:
        return self._inner.name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Ask once; see `ports.model.ChatModel.attempt`."""
        return await self._attempt(request, None, zero)

    async def relay(self, request: ChatRequest, listener: Listener, *, zero: float) -> ChatResponse:
        """Ask once; see `ports.model.RelayingModel.relay`."""
        return await self._attempt(request, listener, zero)

    async def _attempt(self, request: ChatRequest, listener: Listener | None, zero: float) -> ChatResponse:
        number = self._cassette.begin()
        begun = perf_counter()
        origin_ms = (begun - zero) * 1000
        try:
            response = await relay(self._inner, request, listener, zero=zero)
        except ModelError as error:
            self._cassette.add(number, self.name, request, failure=_failure(error, origin_ms))
            raise
        except asyncio.CancelledError:
            given_up_ms = round((perf_counter() - begun) * 1000, 3)
            self._cassette.add(number, self.name, request, given_up_ms=given_up_ms)
            raise
        kept = msgspec.structs.replace(response, attempt=shifted(response.attempt, -origin_ms))
        self._cassette.add(number, self.name, request, response=kept)
        return response

    async def close(self) -> None:
        await self._inner.close()


def shifted(attempt: Attempt, by_ms: float) -> Attempt:
    """The attempt with all its times shifted."""
    times = {name: at for name in _TIMES if (at := getattr(attempt, name)) is not None}
    return msgspec.structs.replace(attempt, **{name: round(at + by_ms, 3) for name, at in times.items()})


def _failure(error: ModelError, origin_ms: float) -> RecordedFailure:
    return RecordedFailure(
        message=str(error),
        kind=error.kind,
        retryable=error.retryable,
        status=error.status,
        retry_after_s=error.retry_after_s,
        attempt=None if error.attempt is None else shifted(error.attempt, -origin_ms),
        answer=error.answer,
    )


def _without_headers(request: ChatRequest) -> ChatRequest:
    client = request.client
    if client is None or not client.headers:
        return request
    return msgspec.structs.replace(request, client=msgspec.structs.replace(client, headers={}))


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
            hint = "the scenario, its options or an earlier answer changed since"
        return f"the recording in {self.folder} has no answer for {call}; {hint}; record it again"


class _Track:
    """The recordings of one request, in order. An abandoned one goes last: an interrupted run leaves such, and the
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
        """Let the listener hear the answer, in the pieces and, if it is to take its time, at the times it came in."""
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
