"""Whether a plugin's version is one that a scenario asks for."""

from __future__ import annotations

from steadyhand.errors import SetupError


def check_version(found: str, wanted: str) -> None:
    """`wanted` is a version (`1.2.0`), specifiers (`>=1,<2`) or `*`. Raises `SetupError` when `found` is not it."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    if wanted.strip() in ("*", "latest"):
        return
    if found == "0":
        raise SetupError(f"version {wanted} is asked for, and the plugin does not say its version (`Plugin.version`)")
    try:
        wanted_set = SpecifierSet(wanted if any(sign in wanted for sign in "<>=~!") else f"=={wanted}")
    except InvalidSpecifier:
        message = f"version {wanted!r} is not understood; write a version such as 1.2.0, or specifiers such as >=1,<2"
        raise SetupError(message) from None
    try:
        version = Version(found)
    except InvalidVersion:
        raise SetupError(f"its version {found!r} cannot be compared with {wanted!r}") from None
    if not wanted_set.contains(version, prereleases=True):
        raise SetupError(f"version {wanted} is asked for, and this is {found}")
