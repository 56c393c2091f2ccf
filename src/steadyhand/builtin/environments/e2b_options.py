"""What an E2B sandbox is made from: the options and the variables that say where the service is."""

from __future__ import annotations

from typing import Any, TypedDict

from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.records.base import Record

_KEY = "E2B_API_KEY"


class Connection(TypedDict):
    api_key: str
    domain: str | None
    api_url: str | None
    sandbox_url: str | None
    debug: bool


class E2BOptions(Record):
    """`timeout_s` is how long E2B lets the sandbox live; `internet` whether commands reach the network."""

    api_key: str
    template: str | None = None
    timeout_s: int = 3600
    internet: bool = True
    workspace: str = "/home/user/workspace"
    domain: str | None = None
    api_url: str | None = None
    sandbox_url: str | None = None

    def connection(self) -> Connection:
        """Everything said outright, so that the SDK looks for nothing in the process's environment."""
        return Connection(
            api_key=self.api_key,
            domain=self.domain,
            api_url=self.api_url,
            sandbox_url=self.sandbox_url,
            debug=False,  # it would connect to a port of this machine, which is no sandbox
        )


def read_options(settings: EnvironmentSettings) -> E2BOptions:
    """Raises `SetupError` for a missing package or key and for a wrong option."""
    try:
        import e2b  # noqa: F401  # pyright: ignore[reportUnusedImport] - here, since it takes a while
    except ImportError as error:
        raise SetupError(
            f"the e2b environment needs the package e2b ({error}): pip install 'steadyhand[e2b]', "
            "or choose another with --environment local"
        ) from error
    key = settings.variables.get(_KEY, "").strip()
    if not key:
        raise SetupError(
            f"the e2b environment needs a key: set {_KEY} in the environment or the --env-file (keys: "
            "https://e2b.dev/dashboard), or choose another environment with --environment local"
        )
    given = {name: value for name, value in settings.options.items() if name != "sandbox"}
    return E2BOptions(
        api_key=key,
        template=_option(given, "template", str, None),
        timeout_s=_positive(_option(given, "timeout_s", int, 3600)),
        internet=_option(given, "internet", bool, True),
        workspace=_absolute(_option(given, "workspace", str, "/home/user/workspace")),
        domain=settings.variables.get("E2B_DOMAIN"),
        api_url=settings.variables.get("E2B_API_URL"),
        sandbox_url=settings.variables.get("E2B_SANDBOX_URL"),
    )


def _option(given: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value: object = given.get(name, default)
    if value is default:
        return default
    if type(value) is not kind:
        raise SetupError(f"environment option `{name}` of e2b must be {_ARTICLES[kind]}, not {value!r}")
    return value


_ARTICLES = {str: "a text", int: "a whole number", bool: "true or false"}


def _positive(seconds: int) -> int:
    if seconds <= 0:
        raise SetupError(f"environment option `timeout_s` of e2b must be more than 0, not {seconds}")
    return seconds


def _absolute(folder: str) -> str:
    folder = folder.rstrip("/")
    if not folder.startswith("/"):
        raise SetupError(f"environment option `workspace` of e2b must be an absolute path below /, not {folder!r}")
    return folder
