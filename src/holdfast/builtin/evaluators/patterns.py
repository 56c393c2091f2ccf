"""Regular expressions that cannot hang a run."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated

import regex
from pydantic import AfterValidator, Field

from holdfast.spec.patterns import inspect_pattern

_GLANCE_S = 0.005
_PATIENCE_S = 1.0


def _compiles(pattern: str) -> str:
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"not a valid regular expression: {error}") from error
    if inspect_pattern(pattern).always:
        raise ValueError("matches every text, even an empty one, so it can never fail")
    return pattern


PatternText = Annotated[str, Field(min_length=1), AfterValidator(_compiles)]
"""A regular expression in a file: compiled when the file is loaded, so that a bad one is an error there."""


async def search(pattern: str, text: str, *, case_sensitive: bool) -> tuple[int, int] | None:
    """Where `pattern` first matches anywhere in `text`. Raises `TimeoutError` after a second of searching.

    Nearly all searches end at once and are made on the spot. One that does not is made again in a thread without the
    interpreter's lock, because a second's standstill would spoil the timing of every other trial.
    """
    return await search_compiled(compiled(pattern, case_sensitive=case_sensitive), text)


@functools.lru_cache(maxsize=512)
def compiled(pattern: str, *, case_sensitive: bool) -> regex.Pattern[str]:
    """The library keeps compiled patterns too, but looking one up there costs more than a search."""
    return regex.compile(pattern, 0 if case_sensitive else regex.IGNORECASE)


async def search_compiled(pattern: regex.Pattern[str], text: str) -> tuple[int, int] | None:
    """`search` for many texts."""
    try:
        # Letting go of the interpreter's lock for two microseconds would mean queueing for it again behind the writer.
        match = pattern.search(text, timeout=_GLANCE_S, concurrent=False)
    except TimeoutError:
        match = await asyncio.to_thread(pattern.search, text, timeout=_PATIENCE_S, concurrent=True)
    return match.span() if match else None


async def search_all(pattern: str, text: str, *, case_sensitive: bool) -> list[tuple[int, int]]:
    """Every place where `pattern` matches, on the same terms as `search`. A match of nothing is no place."""
    searched = compiled(pattern, case_sensitive=case_sensitive)

    def found(timeout_s: float, concurrent: bool) -> list[tuple[int, int]]:
        matches = searched.finditer(text, timeout=timeout_s, concurrent=concurrent)
        return [match.span() for match in matches if match.end() > match.start()]

    try:
        return found(_GLANCE_S, concurrent=False)
    except TimeoutError:
        return await asyncio.to_thread(found, _PATIENCE_S, concurrent=True)
