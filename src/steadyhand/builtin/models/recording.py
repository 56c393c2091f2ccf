"""A model whose every attempt is kept on a cassette."""

from __future__ import annotations

import asyncio
from time import perf_counter

import msgspec

from steadyhand.builtin.models.cassette import CassetteWriter, RecordedFailure
from steadyhand.errors import ModelError
from steadyhand.ports.model import ChatModel
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.timing import Attempt

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
