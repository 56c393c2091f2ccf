"""Packages of our extras that other programs may have installed in an incompatible version."""

from __future__ import annotations

import functools
import logging
import os
from importlib.metadata import PackageNotFoundError, version

WANTED: dict[str, tuple[str, str]] = {"a2a": ("a2a-sdk", ">=1.2,<2")}
"""By extra, the package and the versions that we can use, as in `pyproject.toml`."""


def keep_quiet(package: str) -> None:
    """Keep a package's log off the terminal, unless logging is configured: our own messages cover what matters."""
    logger = logging.getLogger(package)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    _keep_off_the_last_resort(f"{os.sep}{package}{os.sep}")


@functools.cache
def _keep_off_the_last_resort(folder: str) -> None:
    """The SDKs also log under no name, which Python prints on stderr if nobody configured logging."""
    if logging.lastResort is not None:
        logging.lastResort.addFilter(lambda record: folder not in record.pathname)


def missing_extra(extra: str) -> str | None:
    """Why the extra cannot be used and what to do about it, or None. Does not import it."""
    from packaging.specifiers import SpecifierSet

    package, versions = WANTED[extra]
    remedy = f"pip install 'steadyhand[{extra}]'"
    try:
        found = version(package)
    except PackageNotFoundError:
        return f"the package `{package}` is not installed: {remedy}"
    if SpecifierSet(versions).contains(found, prereleases=True):
        return None
    return f"the package `{package}` is installed in version {found}, but {versions} is needed: {remedy}"
