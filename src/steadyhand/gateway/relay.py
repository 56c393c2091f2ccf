"""One model call of an agent's own client: the answer is forwarded while it arrives, as long as the client is
connected.

A server's answer in the client's own format is forwarded byte for byte. For any other model, the text is forwarded, and
the rest follows at the end. Nothing can be taken back, so a call is retried only before its first chunk is sent. If the
client disconnects, the call ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from steadyhand.errors import ModelError
from steadyhand.gateway.connection import GatewayConnection, GatewayResponse
from steadyhand.gateway.dialect import AnswerStream, Interface
from steadyhand.ports.model import ChatModel, relay
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, FinishReason

EVENT_STREAM = "text/event-stream; charset=utf-8"
_NO_HEADERS: dict[str, str] = {}


class StreamedAnswer:
    """An answer being sent to a client that requested a stream. Implements `ports.model.Listener`."""

    def __init__(self, connection: GatewayConnection, interface: Interface, body: Mapping[str, Any]) -> None:
        self.begun: bool = False
        self._connection = connection
        self._interface = interface
        self._body = body
        self._filter = interface.filter(body)
        self._translated: AnswerStream | None = None
        self._ended: bool = False

    @property
    def gone(self) -> bool:
        return self._connection.gone

    @property
    def full(self) -> bool:
        return self._connection.full

    async def ready(self) -> None:
        await self._connection.ready()

    def pass_on(self, piece: bytes, headers: Mapping[str, str]) -> None:
        self._send(piece if self._filter is None else self._filter(piece), headers)

    def end(self) -> None:
        self._ended = True

    def say(self, text: str) -> None:
        if self._translated is None:
            self._translated = self._interface.stream(self._body)
            self._send(self._translated.open() + self._translated.piece(text))
        else:
            self._send(self._translated.piece(text))

    def finish(self, response: ChatResponse) -> None:
        """Send the rest of an answer that has started. If it was broken off in a recording, it breaks off here too."""
        if response.finish_reason is FinishReason.HUNG_UP:
            self._connection.break_off()
            return
        if self._translated is not None:
            self._send(self._translated.close(response))
        elif self._filter is not None:
            self._send(self._filter(b""))
        self._connection.end()

    def fail(self, error: ModelError) -> None:
        """End an answer that has started the way it ended: complete, or broken off."""
        if self._translated is not None:
            self._send(self._translated.fail(str(error)))
        elif self._filter is not None:
            self._send(self._filter(b""))
        if self._translated is not None or self._ended:
            self._connection.end()
        else:
            self._connection.break_off()

    def _send(self, data: bytes, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        if not data:
            return
        if self.begun:
            self._connection.write(data)
        else:
            self.begun = True
            self._connection.begin(GatewayResponse(headers=headers, content_type=EVENT_STREAM), data)


class RelayedModel:
    """The trial's model for a single call, for the client on this connection. A `ports.model.ChatModel`."""

    def __init__(self, model: ChatModel, connection: GatewayConnection, answer: StreamedAnswer | None) -> None:
        """Without `answer`, the client waits for the complete answer."""
        self._model = model
        self._connection = connection
        self._answer = answer

    @property
    def name(self) -> str:
        return self._model.name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        if self._connection.gone:
            return _nothing_heard(zero)
        began = time.perf_counter()
        asking = asyncio.get_running_loop().create_task(relay(self._model, request, self._answer, zero=zero))
        self._connection.when_gone = asking.cancel
        try:
            return await asking
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._connection.gone or (task is not None and task.cancelling()):
                raise
            return _nothing_heard(zero, began)
        except ModelError as error:
            if self._answer is not None and self._answer.begun:
                error.retryable = False
            raise
        finally:
            self._connection.when_gone = None

    async def close(self) -> None:
        """The owner of the trial's model closes it."""


def _nothing_heard(zero: float, sent: float | None = None) -> ChatResponse:
    """The client disconnected before any of the answer had arrived."""
    started_ms = round(((time.perf_counter() if sent is None else sent) - zero) * 1000, 3)
    attempt = Attempt(started_ms=started_ms, sent_ms=None if sent is None else started_ms)
    return ChatResponse(text="", attempt=attempt, finish_reason=FinishReason.HUNG_UP)
