"""Templates and assets, and the Content-Security-Policy of a page."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from steadyhand.report import wording
from steadyhand.report.details import explained_class
from steadyhand.report.html import text

_PACKAGE = "steadyhand.report.html"
_ASSETS = files(_PACKAGE) / "assets"
SCRIPTS = ("plot.js", "report.js")
STYLES = ("report.css",)
_ADDED_STYLES = ("plot.css",)
"""Style sheets that the chart library adds by itself."""


@cache
def environment() -> Environment:
    found = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        finalize=text.written_out,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "shown": text.shown,
        "line": text.line,
        "line_as_is": text.line_as_is,
        "failure_class": explained_class,
        "value": text.value,
        "diff": text.diff,
        "chart_data": text.chart_data,
        "ms": wording.milliseconds,
    }
    found.filters.update(filters)
    return found


def fragment(template: str, **given: Any) -> Markup:
    """A template of this package, filled in."""
    return Markup(environment().get_template(template).render(**given))  # noqa: S704 - the environment escapes


@cache
def asset(name: str) -> str:
    """A script or a style sheet, as shipped."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def content_security_policy() -> str:
    """The policy: nothing is loaded, and only our own scripts and styles are allowed."""
    scripts = " ".join(f"'{_digest(name)}'" for name in SCRIPTS)
    styles = " ".join(f"'{_digest(name)}'" for name in (*STYLES, *_ADDED_STYLES))
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def added_style_sources() -> str:
    """The style sheets that the chart library adds by itself, for the policy of a page that loads ours as files."""
    return " ".join(f"'{_digest(name)}'" for name in _ADDED_STYLES)


@cache
def _digest(name: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode()
