"""What went wrong with a call, as a `ModelError` that says whether trying again can help."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from steadyhand.errors import ModelError
from steadyhand.records.base import Record

_MESSAGE_CHARS = 300
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Endpoint(Record):
    """Whom we talk to, as messages may show it: the host, the name of the key's variable, and the key to blot out."""

    host: str
    key_variable: str
    key: str = ""

    def shown(self, text: str) -> str:
        """Text from the server, short and without the key."""
        if self.key:
            text = text.replace(self.key, "***")
        return text if len(text) <= _MESSAGE_CHARS else text[: _MESSAGE_CHARS - 3] + "..."


def status_error(
    endpoint: Endpoint, status: int, message: str, *, code: str | None, headers: Mapping[str, str]
) -> ModelError:
    """The error for a response with a status other than 200."""
    said = endpoint.shown(message) or "no message"
    host = endpoint.host
    if status == 429:
        return ModelError(
            f"{host} limits the rate (429): {said}",
            kind="rate_limit",
            retryable=code != "insufficient_quota",
            status=status,
            retry_after_s=retry_after_s(headers),
        )
    if status in (401, 403):
        return ModelError(
            f"{host} did not accept the key ({status}); check {endpoint.key_variable}: {said}",
            kind="auth",
            status=status,
        )
    if status in (408, 409) or status >= 500:
        return ModelError(
            f"{host} failed ({status}): {said}",
            kind="server",
            retryable=True,
            status=status,
            retry_after_s=retry_after_s(headers),
        )
    hint = "; check the base URL and the model's name" if status == 404 or 300 <= status < 400 else ""
    if "temperature" in message:
        hint = "; if this model takes no temperature, set the provider's option send_temperature = false"
    return ModelError(f"{host} refused the request ({status}){hint}: {said}", kind="refused", status=status)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the server asks us to wait, or None when it does not say. `headers` ignores case."""
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    given = headers.get("retry-after")
    if given is not None:
        seconds = _number(given)
        return seconds if seconds is not None else _until(given, headers.get("date"))
    waits = [
        wait
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}") == "0"
        and (wait := _duration(headers.get(f"x-ratelimit-reset-{what}"))) is not None
    ]
    waits += [
        wait
        for what in ("requests", "tokens", "input-tokens", "output-tokens")
        if headers.get(f"anthropic-ratelimit-{what}-remaining") == "0"
        and (wait := _until_time(headers.get(f"anthropic-ratelimit-{what}-reset"), headers.get("date"))) is not None
    ]
    return max(waits, default=None)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _until(date: str, server_now: str | None) -> float | None:
    """Seconds until an HTTP date, by the server's own clock when it gave it."""
    try:
        then = parsedate_to_datetime(date)
        now = parsedate_to_datetime(server_now) if server_now else dt.datetime.now(dt.UTC)
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def _until_time(time: str | None, server_now: str | None) -> float | None:
    """Seconds until an RFC 3339 time, by the server's own clock when it gave it."""
    try:
        then = dt.datetime.fromisoformat(time or "")
        now = parsedate_to_datetime(server_now) if server_now else dt.datetime.now(dt.UTC)
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def _duration(text: str | None) -> float | None:
    """`6m0s`, `20ms`, `1.5s` or plain seconds."""
    if not text:
        return None
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text.strip():
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return _number(text)
