"""A cassette: the model exchanges of a run, one JSON line each, in `cassette.jsonl` of a folder.

The first line is a header with the format's version. A line is written whole, so a run that dies leaves a cassette that
holds everything finished before; half a line at the end is passed over.
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
from steadyhand.ports.model import ChatModel
from steadyhand.records.base import Record, plain
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse
from steadyhand.redaction import Redactor
from steadyhand.version import __version__

CASSETTE_FORMAT = 2
CASSETTE_FILE = "cassette.jsonl"


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


class Exchange(Record):
    """One attempt: its request, and an answer, a failure, or after how long it was given up.

    `number` counts the attempts of a recording by when they began. Times are milliseconds after that.
    """

    number: int
    key: str
    model: str
    request: ChatRequest
    response: ChatResponse | None = None
    failure: RecordedFailure | None = None
    given_up_ms: float | None = None


def request_key(request: ChatRequest) -> str:
    """The same for requests that ask the same: all that the model is shown, for the same purpose.

    The seed is left out because a run draws a new one, and the time limit because it is ours. `request` is without
    secrets already: a machine that replays does not have them.
    """
    asked = msgspec.structs.replace(request, seed=None, timeout_s=None)
    return hashlib.blake2b(_encode([asked.purpose, asked]), digest_size=16).hexdigest()


class CassetteWriter:
    """Adds exchanges to a cassette, without secrets. Used on one event loop. `broken` once it cannot be written."""

    def __init__(self, folder: Path, redactor: Redactor, *, add: bool = False) -> None:
        """Begin a cassette in `folder`; with `add`, carry on the one that is there, if any.

        Raises `SetupError` when there is one already, or when it cannot be written.
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
        # Half a line would spoil the next one.
        self._stream.truncate(self._stream.read().rfind(b"\n") + 1)
        self._stream.seek(0, 2)

    def begin(self) -> int:
        """The number of an attempt that begins now."""
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
        """Keep an attempt. Raises `StoreError` when it cannot be written.

        Names of entries are no reason to blot one out here: a replay has to give back what the
        model said.
        """
        clean = self._redactor
        request = clean.value(request, by_name=False)
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
        """Safe to call twice. What could not be written was told when it was added."""
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
    """The exchanges by when they began. Raises `SetupError` when there is no cassette or it cannot be read."""
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
        except (msgspec.MsgspecError, ValueError) as error:
            raise SetupError(f"the recording {file}:{number} is damaged: {error}; record it anew") from error
    return sorted(exchanges, key=lambda exchange: exchange.number)


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=repr, order="sorted")
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(plain(value, keep=(float,)), order="sorted")


def _check_header(file: Path, line: bytes) -> None:
    try:
        found = msgspec.json.decode(line, type=dict[str, object]).get("cassette")
    except (msgspec.MsgspecError, ValueError):
        found = None
    if not isinstance(found, int):
        raise SetupError(f"{file} is not a recording of Steadyhand: its first line should say which format it has")
    if found > CASSETTE_FORMAT:
        raise SetupError(
            f"the recording {file} has format {found}, and this version of Steadyhand reads up to {CASSETTE_FORMAT}; "
            "upgrade Steadyhand"
        )


_TIMES = ("started_ms", "connected_ms", "sent_ms", "first_byte_ms", "first_token_ms", "last_byte_ms")


class RecordingModel:
    """A `ports.model.ChatModel` around another one. It answers and fails exactly as that one does.

    The cassette is shared by the models of a run, and is closed by whoever opened it.
    """

    def __init__(self, inner: ChatModel, cassette: CassetteWriter) -> None:
        self._inner: ChatModel = inner
        self._cassette: CassetteWriter = cassette

    @property
    def name(self) -> str:
        return self._inner.name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Ask once; see `ports.model.ChatModel.attempt`."""
        number = self._cassette.begin()
        begun = perf_counter()
        origin_ms = (begun - zero) * 1000
        try:
            response = await self._inner.attempt(request, zero=zero)
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
    """The same attempt at another time."""
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
    )
