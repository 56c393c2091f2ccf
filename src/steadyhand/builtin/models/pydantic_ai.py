"""`pydantic-ai/PROVIDER:MODEL`: every vendor that Pydantic AI knows, through its library.

The library and the vendor's own client stand between us and the socket, so the times of a call include their work and
are marked so: they are shown and never graded.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from steadyhand.builtin.models.http_settings import read_flag, reject_unknown
from steadyhand.builtin.models.pydantic_ai_call import BridgedModel
from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import ModelSettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_OPTIONS = ("stream", "send_seed", "send_temperature")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


class PydanticAIModel(BridgedModel):
    """Built by the model factory for `pydantic-ai`."""

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` when the library or the vendor's package is missing, or the vendor cannot be set up."""
        name = f"pydantic-ai/{settings.name}"
        reject_unknown(name, settings.options, _OPTIONS)
        super().__init__(
            name,
            _build(name, settings),
            timeout_s=settings.timeout_s,
            stream=read_flag(name, settings.options, "stream", default=True),
            send_seed=read_flag(name, settings.options, "send_seed", default=False),
            send_temperature=read_flag(name, settings.options, "send_temperature", default=True),
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
        # A vendor's client may raise anything of its own when it does not like what it finds.
        raise SetupError(f"{name} cannot be set up: {type(error).__name__}: {error}") from error


@contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    """Lend an --env-file's variables to the process while the vendors' clients are built: they look nowhere else."""
    lent = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(lent)
    try:
        yield
    finally:
        for name in lent:
            os.environ.pop(name, None)
