"""Where a model's server is, the key, and what the user wants added to requests: shared by all vendors over HTTP."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from steadyhand.errors import SetupError
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
OPTIONS = ("base_url", "api_key_env", "headers", "body", "stream", "send_seed", "send_temperature")


class HttpSettings(Record):
    """Checked and complete. `url` is the endpoint itself; `host` is what messages call it; `headers` hold the key."""

    url: str
    host: str
    key: str
    key_variable: str
    headers: dict[str, str]
    timeout_s: float


class Asking(Record):
    """How requests are put. `body` is the user's and has the last word."""

    model: str
    stream: bool = True
    seed: bool = False
    temperature: bool = True
    body: dict[str, Any] = {}
    api: str = "chat"
    max_tokens: int | None = None

    def token_limit(self, request: ChatRequest, *fields: str) -> int | None:
        """The limit that a request carries, whether it is the request's, the settings' or under one of `fields` in the
        user's own `body`."""
        own = next((value for name in fields if isinstance(value := self.body.get(name), int)), None)
        if own is not None:
            return own
        return self.max_tokens if request.max_tokens is None else request.max_tokens


def reject_unknown(name: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SetupError(f"{name}: unknown option {option!r}{hint} (known: {', '.join(known)})")


def read_key(name: str, variable: str, variables: Mapping[str, str]) -> str:
    """The key, or an empty text. Raises `SetupError` for one that cannot be sent, without showing it."""
    key = variables.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise SetupError(f"{name}: {variable} holds characters that no key has; copy it again")
    return key


def read_flag(name: str, options: Mapping[str, Any], option: str, *, default: bool) -> bool:
    value = options.get(option, default)
    if not isinstance(value, bool):
        raise SetupError(f"{name}: option {option} is {value!r}, expected true or false")
    return value


def read_mapping(name: str, options: Mapping[str, Any], option: str) -> dict[str, Any]:
    value = options.get(option, {})
    if not isinstance(value, Mapping):
        raise SetupError(f"{name}: option {option} is {value!r}, expected names and values")
    return dict(cast("Mapping[str, Any]", value))


def read_headers(name: str, options: Mapping[str, Any]) -> dict[str, str]:
    headers = {str(header): str(value) for header, value in read_mapping(name, options, "headers").items()}
    for header, value in headers.items():
        if not _HEADER_NAME.fullmatch(header) or not _HEADER_VALUE.fullmatch(value):
            raise SetupError(f"{name}: the header {header!r} of option headers holds characters that cannot be sent")
    return headers


def read_endpoint(name: str, base_url: Any, *, endpoint: str, expected: str) -> tuple[str, str]:
    """The URL to post to and the host, from a base URL that may already end in `endpoint`."""
    try:
        parts = urlsplit(str(base_url))
        _ = parts.port
    except ValueError as error:
        raise SetupError(f"{name}: the base URL is not a URL: {error}") from error
    if parts.username or parts.password:
        raise SetupError(f"{name}: the base URL holds a user name or password; give a key through api_key_env instead")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(
            f"{name}: the base URL is {base_url!r}, expected http://HOST{expected} or https://HOST{expected}"
        )
    path = joined(parts.path.rstrip("/"), endpoint)
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")), parts.netloc


def joined(path: str, endpoint: str) -> str:
    """`endpoint` after `path`, without saying again what the path already ends with."""
    steps = endpoint.split("/")[1:]
    for count in range(len(steps), 0, -1):
        start = "/" + "/".join(steps[:count])
        if path.endswith(start):
            return path + endpoint[len(start) :]
    return path + endpoint
