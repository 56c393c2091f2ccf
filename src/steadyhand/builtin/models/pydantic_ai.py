"""`pydantic-ai/PROVIDER:MODEL`: every vendor that the Pydantic AI library supports.

The library and the vendor's client sit between us and the socket, so the times of a call include their work. They are
marked as such: shown, but never graded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

import msgspec

from steadyhand.errors import ModelError, SetupError
from steadyhand.http.endpoint import Endpoint, status_error
from steadyhand.plugins.plugin import ModelSettings, Options, read_options
from steadyhand.ports.model import Cut, cut_short
from steadyhand.records.base import shorten
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse
from steadyhand.wire.stream import message_in

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings as PydanticSettings


INCLUDES = "the pydantic-ai library and the vendor's own client"


class BridgedModel:
    """A `ports.model.ChatModel` around a Pydantic AI model. `secrets` are masked in messages."""

    def __init__(
        self,
        name: str,
        model: Model,
        *,
        timeout_s: float = 60.0,
        stream: bool = True,
        send_seed: bool = False,
        send_temperature: bool = True,
        secrets: tuple[str, ...] = (),
    ) -> None:
        # Imported here and not in the first attempt, where it would add to the times of all calls in flight.
        from steadyhand.builtin.models import pydantic_ai_messages

        self._words = pydantic_ai_messages
        self.name: str = name
        self._model = model
        self._timeout_s = timeout_s
        self._stream = stream
        self._send_seed = send_seed
        self._send_temperature = send_temperature
        self._secrets = secrets
        self._opened: AsyncExitStack | None = None

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Ask once; see `ports.model.ChatModel.attempt`."""
        limit = self._timeout_s if request.timeout_s is None else request.timeout_s
        await self._open()
        clock = CallClock(zero)
        try:
            async with asyncio.timeout(limit), Cut(request.cut_after_ms) as cut:
                cut.start(clock.begun)
                response = self._answer(request, await self._ask(request, clock), clock)
                if request.cut_after_ms is None or (response.attempt.latency_ms or 0.0) <= request.cut_after_ms:
                    return response
        except Exception as error:
            failure = self._failure(error, limit)
            failure.attempt = clock.attempt(streamed=self._stream, status=failure.status, error=str(failure))
            raise failure from error
        so_far = msgspec.structs.replace(clock.so_far(streamed=self._stream), timing_includes=INCLUDES)
        return cut_short(so_far, request.cut_after_ms or 0.0)

    async def close(self) -> None:
        if self._opened is not None:
            opened, self._opened = self._opened, None
            await opened.aclose()

    async def _open(self) -> None:
        """Close the model, and with it the vendor's client, if it was entered."""
        if self._opened is None:
            self._opened = AsyncExitStack()
            await self._opened.enter_async_context(self._model)

    def _answer(self, request: ChatRequest, response: ModelResponse, clock: CallClock) -> ChatResponse:
        words = self._words
        reason, raw = words.finish_of(response)
        return ChatResponse(
            text=words.text_of(response),
            attempt=clock.attempt(streamed=self._stream),
            tool_calls=words.tool_calls_of(response),
            usage=words.usage_of(response),
            chunks=tuple(clock.chunks),
            finish_reason=reason,
            finish_raw=raw,
            token_limit=request.max_tokens,
            timing_includes=INCLUDES,
        )

    async def _ask(self, request: ChatRequest, clock: CallClock) -> ModelResponse:
        from pydantic_ai.direct import model_request

        clock.begin()
        if self._stream:
            try:
                return await self._ask_streaming(request, clock)
            except NotImplementedError:
                self._stream = False
                clock.begin()
        response = await model_request(
            self._model,
            self._words.to_messages(request.messages),
            model_settings=self._settings(request),
            model_request_parameters=self._words.to_parameters(request, self._model),
            instrument=False,
        )
        clock.arrived(self._words.text_of(response))
        return response

    async def _ask_streaming(self, request: ChatRequest, clock: CallClock) -> ModelResponse:
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta, ToolCallPart

        async with model_request_stream(
            self._model,
            self._words.to_messages(request.messages),
            model_settings=self._settings(request),
            model_request_parameters=self._words.to_parameters(request, self._model),
            instrument=False,
        ) as stream:
            async for event in stream:
                match event:
                    case PartStartEvent(part=TextPart(content=text)) if text:
                        clock.arrived(text)
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                        clock.arrived(text)
                    case PartStartEvent(part=ToolCallPart()):
                        clock.arrived("")
                    case _:
                        pass
            clock.arrived("", token=False)
            return stream.get()

    def _settings(self, request: ChatRequest) -> PydanticSettings:
        return self._words.to_settings(request, seed=self._send_seed, temperature=self._send_temperature)

    def _failure(self, error: Exception, limit: float) -> ModelError:
        """What the library or the vendor's client raised, as a `ModelError`."""
        from pydantic_ai import exceptions

        said = self._masked(str(error) or type(error).__name__)
        match error:
            case TimeoutError():
                return ModelError(f"{self.name}: no complete answer within {limit:g} s", kind="timeout", retryable=True)
            case exceptions.ModelHTTPError():
                message = self._masked(message_in(error.body) or error.message)
                endpoint = Endpoint(host=self.name, key_variable="the vendor's key")
                return status_error(
                    endpoint,
                    error.status_code,
                    message,
                    code=error.provider_error_code,
                    headers=error.headers or {},
                )
            case exceptions.ModelAPIError():
                return ModelError(f"{self.name}: {said}", kind="connect", retryable=True)
            case exceptions.UserError():
                return ModelError(f"{self.name} refused the request: {said}", kind="refused")
            case exceptions.UnexpectedModelBehavior():
                return ModelError(f"{self.name}: the answer cannot be read: {said}", kind="malformed", retryable=True)
            case _:
                return ModelError(
                    f"{self.name}: {type(error).__name__}: {said}", kind="server", retryable=isinstance(error, OSError)
                )

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return shorten(text, 300)


class CallClock:
    """The times of an attempt made through a library rather than our own socket.

    `begin` is called when the library gets the request, `arrived` each time it returns something.
    """

    def __init__(self, zero: float) -> None:
        self._zero = zero
        self._begun: float = perf_counter()
        self._times: list[float] = []
        self._first_token: float | None = None
        self._texts: list[str] = []
        self.chunks: list[tuple[float, int]] = []

    @property
    def begun(self) -> float:
        """In seconds of `time.perf_counter()`."""
        return self._begun

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def begin(self) -> None:
        self._begun = perf_counter()

    def arrived(self, text: str, *, token: bool = True) -> None:
        """Something arrived: a piece of text, or (if empty) a tool call or the end of the answer."""
        now = perf_counter()
        self._times.append(now)
        if token and self._first_token is None:
            self._first_token = now
        if text:
            self._texts.append(text)
            self.chunks.append((round((now - self._begun) * 1000, 3), len(text)))

    def attempt(self, *, streamed: bool = True, status: int | None = None, error: str | None = None) -> Attempt:
        begun = self._after(self._begun)
        assert begun is not None
        return Attempt(
            started_ms=begun,
            sent_ms=begun,
            first_byte_ms=self._after(self._times[0] if self._times else None),
            first_token_ms=self._after(self._first_token) if streamed else None,
            last_byte_ms=None if error is not None else self._after(self._times[-1] if self._times else None),
            status=status,
            streamed=streamed,
            error=error,
        )

    def so_far(self, *, streamed: bool = True) -> ChatResponse:
        """What has arrived so far, as a response."""
        return ChatResponse(text=self.text, attempt=self.attempt(streamed=streamed), chunks=tuple(self.chunks))

    def _after(self, moment: float | None) -> float | None:
        return None if moment is None else round((moment - self._zero) * 1000, 3)


class BridgeOptions(Options):
    stream: bool = True
    send_seed: bool = False
    send_temperature: bool = True


_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


class PydanticAIModel(BridgedModel):
    """Built by the model factory for `pydantic-ai`."""

    options: ClassVar[type[Options]] = BridgeOptions

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` if the library or the vendor's package is missing, or the vendor cannot be set up."""
        name = f"pydantic-ai/{settings.name}"
        options = read_options(BridgeOptions, settings.options, name)
        super().__init__(
            name,
            _build(name, settings),
            timeout_s=settings.timeout_s,
            stream=options.stream,
            send_seed=options.send_seed,
            send_temperature=options.send_temperature,
            secrets=tuple(
                value
                for variable, value in settings.variables.items()
                if len(value) > 7 and any(word in variable.upper() for word in _SECRET)
            ),
        )


def _build(name: str, settings: ModelSettings) -> Model:
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise SetupError(
            f"{name} needs the package pydantic-ai-slim, which is not installed: pip install 'steadyhand[providers]'"
        ) from error
    provider, _, model = settings.name.partition(":")
    if settings.name != "test" and not (provider and model):
        raise SetupError(f"{name}: expected pydantic-ai/PROVIDER:MODEL, such as pydantic-ai/google:gemini-flash-latest")
    try:
        with _environment(settings.variables):
            return infer_model(settings.name)
    except ImportError as error:
        raise SetupError(
            f"{name} needs the vendor's own package: {error}; "
            f"try: pip install 'pydantic-ai-slim[{provider.partition('-')[0]}]'"
        ) from error
    except (UserError, ValueError) as error:
        raise SetupError(f"{name} cannot be set up: {error}") from error
    except Exception as error:
        # A vendor's client may raise its own exceptions.
        raise SetupError(f"{name} cannot be set up: {type(error).__name__}: {error}") from error


@contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    """Put the variables of an --env-file into `os.environ` while the vendors' clients are built; they look nowhere
    else."""
    lent = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(lent)
    try:
        yield
    finally:
        for name in lent:
            os.environ.pop(name, None)
