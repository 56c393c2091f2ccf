"""Responses of the viewer: templates, scripts, and the Content-Security-Policy."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from steadyhand.records.base import Record
from steadyhand.report.html import template
from steadyhand.version import __version__

_PACKAGE = "steadyhand.viewer"
_ASSETS = files(_PACKAGE) / "assets"
_OWN = ("viewer.css", "viewer.js")
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


class PageResponse(Record):
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    body: bytes = b""
    headers: dict[str, str] = {}


@cache
def environment() -> Environment:
    """The report's templates, with their escaping and parts, and the viewer's own."""
    report = template.environment()
    assert report.loader is not None
    return report.overlay(loader=ChoiceLoader([PackageLoader(_PACKAGE), report.loader]))


def address(path: str, **given: Any) -> str:
    """A link within the viewer. All names from records are in the query, where they cannot lead elsewhere."""
    kept = {name: str(value) for name, value in given.items() if value not in (None, "")}
    query = urlencode({name: value.encode("utf-8", "backslashreplace") for name, value in kept.items()})
    return f"{path}?{query}" if query else path


def rendered(name: str, *, status: int = 200, **given: Any) -> PageResponse:
    return PageResponse(status=status, body=part(name, **given).encode("utf-8", "backslashreplace"))


def part(name: str, **given: Any) -> Markup:
    text = environment().get_template(name).render(version=__version__, address=address, **given)
    return Markup(text)  # noqa: S704 - the environment escapes


def problem_page(status: int, message: str) -> PageResponse:
    return rendered("problem.html", status=status, code=status, message=message)


def asset_response(name: str) -> PageResponse | None:
    """A script or a style sheet of ours; None for any other name."""
    if name in _OWN:
        text = (_ASSETS / name).read_text(encoding="utf-8")
    elif name in (*template.SCRIPTS, *template.STYLES):
        text = template.asset(name)
    else:
        return None
    return PageResponse(kind=_KINDS[name.rpartition(".")[2]], body=text.encode())


def content_security_policy() -> str:
    """Only our own files are loaded and run; no page may frame the viewer, and no form may post elsewhere."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' {template.added_style_sources()}; img-src data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
