"""Settings of models over HTTP: their options, the server's URL and its key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field

from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import ModelSettings, Options
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class HttpOptions(Options):
    """The options that all HTTP providers share. `body` is merged into every request and overrides everything else."""

    base_url: str | None = Field(default=None, min_length=1)
    api_key_env: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    stream: bool = True
    send_temperature: bool = True


class HttpSettings(Record):
    """Validated settings. `url` is the endpoint; `host` is how messages refer to it; `headers` include the key.

    `defaults` are headers that an agent's client may replace with its own.
    """

    url: str
    host: str
    key: str
    key_variable: str
    headers: dict[str, str]
    timeout_s: float
    defaults: dict[str, str] = {}


class Vendor(Record):
    """A vendor's own server, and how a key is sent to it and to compatible ones.

    `expected` is the path that a base URL should have, and `defaults` are those of `HttpSettings`.
    """

    provider: str
    public_url: str
    key_variable: str
    url_variable: str
    key_header: str
    key_prefix: str = ""
    expected: str = ""
    defaults: dict[str, str] = {}

    def model_name(self, settings: ModelSettings) -> str:
        return f"{settings.provider or self.provider}/{settings.name}"

    def read(self, settings: ModelSettings, options: HttpOptions, endpoint: str) -> HttpSettings:
        """Raises `SetupError` for a bad URL or header, or a key that is missing or invalid.

        The vendor's variables apply to its own provider only, never to one that the user named.
        """
        ours = settings.provider in ("", self.provider)
        name = self.model_name(settings)
        key_variable = options.api_key_env or (self.key_variable if ours else "")
        base_url = options.base_url or (ours and settings.variables.get(self.url_variable)) or self.public_url
        url, host = read_endpoint(name, base_url, endpoint=endpoint, expected=self.expected)
        key = read_key(name, key_variable, settings.variables)
        if not key and base_url == self.public_url:
            raise SetupError(
                f"{name} needs a key: set {key_variable} in the environment or an --env-file, "
                f"or set {self.url_variable} to a server that needs none"
                if ours
                else f"{name} needs a server: give [providers.{settings.provider}] a base_url"
            )
        if not key and options.api_key_env and not ours:
            raise SetupError(f"{name} needs a key: set {options.api_key_env} in the environment or an --env-file")
        headers = {self.key_header: f"{self.key_prefix}{key}"} if key else {}
        headers.update(check_headers(name, options.headers))
        return HttpSettings(
            url=url,
            host=host,
            key=key,
            key_variable=key_variable,
            headers=headers,
            timeout_s=settings.timeout_s,
            defaults=self.defaults,
        )


class Asking(Record):
    """How requests are written. `body` comes from the user and overrides everything else."""

    model: str
    stream: bool = True
    seed: bool = False
    temperature: bool = True
    body: dict[str, Any] = {}
    api: str = "chat"
    max_tokens: int | None = None

    def token_limit(self, request: ChatRequest, *fields: str) -> int | None:
        """The token limit that is sent: the request's, the settings', or one of `fields` in the user's `body`."""
        if self.body:
            own = next((value for name in fields if isinstance(value := self.body.get(name), int)), None)
            if own is not None:
                return own
        return self.max_tokens if request.max_tokens is None else request.max_tokens


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
