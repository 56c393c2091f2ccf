"""A cassette: the model calls of a run, one JSON line each, in a folder's `cassette.jsonl`.

The first line is a header with the format's version. If the run dies, the cassette has every call that was finished; an
incomplete last line is ignored. `replay.py` answers from it.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import msgspec

from steadyhand.errors import ModelError, ModelErrorKind, SetupError, StoreError
from steadyhand.ports.model import ChatModel, Listener, relay
from steadyhand.records.base import Record, plain
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, ServerAnswer
from steadyhand.redaction import Redactor
from steadyhand.version import __version__

CASSETTE_FORMAT = 2
CASSETTE_FILE = "cassette.jsonl"
_TIMES = ("started_ms", "connected_ms", "sent_ms", "first_byte_ms", "first_token_ms", "last_byte_ms")


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
    already be redacted: a machine that replays does not have the secrets. Headers of an agent's client are excluded,
    because they describe the client rather than its request.
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
                f"--record {folder}: the folder already has a recording; choose another folder, or delete {self.file}"
            ) from error
        except OSError as error:
            raise SetupError(f"--record {folder}: cannot be written: {error.strerror}") from error
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
                "calls recorded so far are safe; free some disk space or repair the disk, then resume"
            )
            raise self.broken from error


def read_cassette(folder: Path) -> list[Exchange]:
    """The exchanges in the order they began. Raises `SetupError` if there is no cassette or it cannot be read."""
    file = folder / CASSETTE_FILE
    if file.exists() and not file.is_file():  # reading a pipe or a device might never end
        raise SetupError(f"the recording {file} cannot be read: expected a file, found a folder, pipe or device")
    try:
        lines = file.read_bytes().split(b"\n")
    except FileNotFoundError as error:
        raise SetupError(f"{folder} has no recording: there is no {file}; make one with --record {folder}") from error
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
