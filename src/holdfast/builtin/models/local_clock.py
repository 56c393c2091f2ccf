"""The times of an answer that comes out of a library in this process and not off a socket of ours."""

from __future__ import annotations

from time import perf_counter

from holdfast.records.model import ChatResponse
from holdfast.records.timing import Attempt


class CallClock:
    """Stamps one attempt. `begin` is when the library was handed the request, `arrived` each time it gave something."""

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
        """Something came: a piece of text, or (when empty) a call or the end of the answer."""
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
        """What has arrived, as an answer."""
        return ChatResponse(text=self.text, attempt=self.attempt(streamed=streamed), chunks=tuple(self.chunks))

    def _after(self, moment: float | None) -> float | None:
        return None if moment is None else round((moment - self._zero) * 1000, 3)
