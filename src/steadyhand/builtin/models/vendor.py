"""What the providers over HTTP have in common: their options, and how a vendor's server is found."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from steadyhand.errors import SetupError
from steadyhand.http.endpoint import Endpoint, check_headers, read_endpoint, read_key
from steadyhand.plugins.plugin import ModelSettings, Options
from steadyhand.records.base import Record


class HttpOptions(Options):
    """The options that all HTTP providers share. `body` is merged into every request and overrides everything else."""

    base_url: str | None = Field(default=None, min_length=1)
    api_key_env: str | None = Field(default=None, min_length=1)
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    stream: bool = True
    send_temperature: bool = True


class Vendor(Record):
    """A vendor's own server, and how a key is sent to it and to compatible ones.

    `expected` is the path that a base URL should have, and `defaults` are those of `Endpoint`.
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

    def read(self, settings: ModelSettings, options: HttpOptions, endpoint: str) -> Endpoint:
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
        return Endpoint(
            url=url,
            host=host,
            key=key,
            key_variable=key_variable,
            headers=headers,
            timeout_s=settings.timeout_s,
            defaults=self.defaults,
        )
