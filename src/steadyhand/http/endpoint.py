"""The server that a client talks to: its URL and key, checked, and what its errors mean.

An error becomes a `ModelError` that says whether a retry may help.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from steadyhand.errors import ModelError, SetupError
from steadyhand.records.base import Record, shorten
from steadyhand.redaction import maskable

_MESSAGE_CHARS = 300
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LONGEST_DURATION = 64
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class Endpoint(Record):
    """A server's URL, and what is sent to it. `host` is how messages refer to it; `key` is masked in them.

    `headers` include the key. `defaults` are headers that an agent's client may replace with its own.
    """

    host: str
    key_variable: str
    key: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    timeout_s: float = 60.0
    defaults: dict[str, str] = {}

    def shown(self, text: str) -> str:
        """Text from the server, shortened and without the key."""
        if maskable(self.key):
            text = text.replace(self.key, "***")
        return shorten(text, _MESSAGE_CHARS)


def status_error(
    endpoint: Endpoint, status: int, message: str, *, code: str | None, headers: Mapping[str, str]
) -> ModelError:
    """The error for a response with a status other than 200."""
    said = endpoint.shown(message) or "no message"
    host = endpoint.host
    if status == 429:
        return ModelError(
            f"{host} is rate limiting us (429): {said}",
            kind="rate_limit",
            retryable=code != "insufficient_quota",
            status=status,
            retry_after_s=retry_after_s(headers),
        )
    if status in (401, 403):
        return ModelError(
            f"{host} did not accept the key ({status}): {said}; check {endpoint.key_variable}",
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
    """How long the server asks us to wait, or None. `headers` ignores case.

    What says nothing about when to come back (0, a negative number, a time in the past, no number at all) counts as
    None, so that our own back-off applies: a server that refuses and says "at once" would be asked for ever.
    """
    asked_s = _asked_s(headers)
    return asked_s if asked_s is not None and asked_s > 0 else None


def _asked_s(headers: Mapping[str, str]) -> float | None:
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
    """Seconds until an HTTP date, by the server's clock if it sent one."""
    try:
        then = parsedate_to_datetime(date)
        now = parsedate_to_datetime(server_now) if server_now else dt.datetime.now(dt.UTC)
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def _until_time(time: str | None, server_now: str | None) -> float | None:
    """Seconds until an RFC 3339 time, by the server's clock if it sent one."""
    try:
        then = dt.datetime.fromisoformat(time or "")
        now = parsedate_to_datetime(server_now) if server_now else dt.datetime.now(dt.UTC)
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def _duration(text: str | None) -> float | None:
    """`6m0s`, `20ms`, `1.5s` or plain seconds."""
    if not text or len(text) > _LONGEST_DURATION:
        return None
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text.strip():
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return _number(text)


def read_key(name: str, variable: str, variables: Mapping[str, str]) -> str:
    """The key, or an empty string. Raises a `SetupError` that does not show the key if it is invalid."""
    key = variables.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise SetupError(f"{name}: {variable} has characters that cannot be part of a key; copy it again")
    return key


def check_headers(name: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Raises `SetupError` for an invalid header."""
    for header, value in headers.items():
        if not _HEADER_NAME.fullmatch(header) or not _HEADER_VALUE.fullmatch(value):
            raise SetupError(f"{name}: the header {header!r} of option headers holds characters that cannot be sent")
    return dict(headers)


def read_endpoint(name: str, base_url: Any, *, endpoint: str, expected: str) -> tuple[str, str]:
    """The URL to post to and the host. The base URL may already end in `endpoint`."""
    try:
        parts = urlsplit(str(base_url))
        _ = parts.port
    except ValueError as error:
        raise SetupError(f"{name}: the base URL is not a URL: {error}") from error
    if parts.username or parts.password:
        raise SetupError(f"{name}: the base URL has a user name or password; use api_key_env for a key instead")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(
            f"{name}: the base URL is {base_url!r}, expected http://HOST{expected} or https://HOST{expected}"
        )
    path = joined(parts.path.rstrip("/"), endpoint)
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")), parts.netloc


def joined(path: str, endpoint: str) -> str:
    """`path` followed by `endpoint`, without repeating what the path already ends with."""
    steps = endpoint.split("/")[1:]
    for count in range(len(steps), 0, -1):
        start = "/" + "/".join(steps[:count])
        if path.endswith(start):
            return path + endpoint[len(start) :]
    return path + endpoint
