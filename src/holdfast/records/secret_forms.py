"""What a secret looks like, and what it is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL", re.IGNORECASE)
_ENTRY = re.compile(
    r"(?:.*[_.\- ])?(?:(?:api|access|secret|private)[_-]?key|token|secret|password|passwd|passphrase|authorization"
    r"|credentials?)",
    re.IGNORECASE | re.DOTALL,
)
_CAMEL_ENTRY = re.compile(
    r".*[a-z0-9](?:(?:Api|Access|Secret|Private)Key|Token|Secret|Password|Passphrase|Authorization|Credentials?)",
    re.DOTALL,
)
SHORTEST = 8


class Form:
    """Text that is a secret by its shape alone.

    `anchor` is quick to look for: without it there is no match. Where the pattern has a group, the group is the secret.
    """

    def __init__(self, anchor: str, pattern: str, *, lead: str = r"(?<![A-Za-z0-9])") -> None:
        self.anchor: str = anchor
        self.data_anchor: bytes = anchor.encode()
        self.text: re.Pattern[str] = re.compile(lead + pattern)
        # In encoded data the byte before may belong to something else, so there the lead is not asked for.
        self.data: re.Pattern[bytes] = re.compile(pattern.encode())


_HEADER_VALUE = r"[\"']?\s*[:=]\s*[\"']?(?:[A-Za-z]+\s+)?([^\s\"',;&<>]{8,})"
FORMS: tuple[Form, ...] = (
    Form("sk-", r"sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"),
    Form("earer", r"[Bb]earer\s+((?=[A-Za-z.~+/=-]*[0-9_])[\w.~+/=-]{8,}|[\w.~+/=-]{20,})"),
    Form("gh", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    Form("github_pat_", r"github_pat_[A-Za-z0-9_]{16,}"),
    Form("glpat-", r"glpat-[A-Za-z0-9_-]{16,}"),
    Form("AKIA", r"AKIA[A-Z0-9]{16}(?![A-Z0-9])"),
    Form("AIza", r"AIza[A-Za-z0-9_-]{35}"),
    Form("xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    Form("eyJ", r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?"),
    Form(
        "PRIVATE KEY-----",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----([\s\S]*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        lead="",
    ),
    Form("://", r"://[^\s/:@]{0,64}:([^\s/@]{1,256})@", lead=""),
    Form("uthorization", r"[Aa]uthorization" + _HEADER_VALUE, lead=""),
    Form("api", r"api[_-]?key" + _HEADER_VALUE, lead=""),
    Form("API", r"API[_-]?KEY" + _HEADER_VALUE, lead=""),
)


def secrets_of(variables: Mapping[str, str], named: Iterable[str] = ()) -> frozenset[str]:
    """The values that must not be shown: of variables called like a secret, and of those `named` by configuration.

    A value shorter than eight characters is left alone, because blotting it out would blot out ordinary words.
    """
    wanted = set(named)
    values = (value.strip() for name, value in variables.items() if name in wanted or _VARIABLE.search(name))
    return frozenset(value for value in values if len(value) >= SHORTEST)


def names_secret(name: str) -> bool:
    """Whether an entry of this name, such as `api_key`, `X-Auth-Token` or `accessToken`, holds a secret."""
    return bool(_ENTRY.fullmatch(name) or _CAMEL_ENTRY.fullmatch(name))


# In msgpack the key of a map is followed by its value, and only a text begins with one of these bytes.
_TEXT = rb"[\xa0-\xbf\xd9-\xdb]"
NAMES_IN_DATA: tuple[tuple[bytes, re.Pattern[bytes]], ...] = tuple(
    (start, re.compile(start + end + _TEXT))
    for start, end in (
        (b"key", b""),
        (b"token", b""),
        (b"secret", b""),
        (b"passw", b"(?:or)?d"),
        (b"passph", b"rase"),
        (b"authoriz", b"ation"),
        (b"credential", b"s?"),
    )
)
