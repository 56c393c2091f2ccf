"""Between a run and its models: a recording to make, or one to answer from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from steadyhand.compose.options import RunOptions
from steadyhand.errors import SetupError, StoreError
from steadyhand.ports.model import ChatModel
from steadyhand.redaction import Redactor

if TYPE_CHECKING:
    from steadyhand.builtin.models.cassette import CassetteWriter
    from steadyhand.builtin.models.replay import Cassette


class Tape:
    """Wraps or replaces models, as `--record` and `--replay` say; without them it does neither."""

    def __init__(self, options: RunOptions, redactor: Redactor, *, add: bool = False) -> None:
        """With `add` an existing recording is carried on. Raises `SetupError` when it cannot be made or read."""
        self._writer: CassetteWriter | None = None
        self._cassette: Cassette | None = None
        if options.record is not None and options.replay is not None:
            raise SetupError("--record and --replay exclude each other: give one of them")
        if options.record is not None:
            from steadyhand.builtin.models.cassette import CassetteWriter

            self._writer = CassetteWriter(options.record, redactor, add=add)
        if options.replay is not None:
            from steadyhand.builtin.models.replay import Cassette

            self._cassette = Cassette(options.replay, redactor, time=options.replay_time)

    def model(self, name: str, build: Callable[[], ChatModel]) -> ChatModel:
        """The model to use under this name. A replayed one is never built, so it needs no key."""
        if self._cassette is not None:
            from steadyhand.builtin.models.replay import ReplayedModel

            return ReplayedModel(name, self._cassette)
        if self._writer is not None:
            from steadyhand.builtin.models.cassette import RecordingModel

            return RecordingModel(build(), self._writer)
        return build()

    @property
    def broken(self) -> StoreError | None:
        """Why nothing more can be recorded; None while all is well."""
        return None if self._writer is None else self._writer.broken

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
