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

    `anchor` is quick to look for: without it there is no match. So is `data_anchor` in encoded data that was put in
    lower case; it is shared by several forms where that saves a search, and `rare` is a byte that is looked for before
    it. Where the pattern has a group, the group is the secret.
    """

    def __init__(
        self,
        anchor: str,
        pattern: str,
        *,
        lead: str = r"(?<![A-Za-z0-9])",
        data_anchor: bytes | None = None,
        rare: bytes | None = None,
    ) -> None:
        self.anchor: str = anchor
        self.data_anchor: bytes = anchor.lower().encode() if data_anchor is None else data_anchor
        self.rare: bytes | None = rare
        self.text: re.Pattern[str] = re.compile(lead + pattern)
        # In encoded data the byte before may belong to something else, so there the lead is not asked for.
        self.data: re.Pattern[bytes] = re.compile(pattern.encode())


_HEADER_VALUE = r"[\"']?\s*[:=]\s*[\"']?(?:[A-Za-z]+\s+)?([^\s\"',;&<>]{8,})"
FORMS: tuple[Form, ...] = (
    Form("sk-", r"sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"),
    Form("earer", r"[Bb]earer\s+((?=[A-Za-z.~+/=-]*[0-9_])[\w.~+/=-]{8,}|[\w.~+/=-]{20,})"),
    Form("gh", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    Form("github_pat_", r"github_pat_[A-Za-z0-9_]{16,}", data_anchor=b"gh"),
    Form("glpat-", r"glpat-[A-Za-z0-9_-]{16,}"),
    Form("AKIA", r"AKIA[A-Z0-9]{16}(?![A-Z0-9])", rare=b"K"),
    Form("AIza", r"AIza[A-Za-z0-9_-]{35}", rare=b"I"),
    Form("xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    Form("eyJ", r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?", rare=b"J"),
    Form(
        "PRIVATE KEY-----",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----([\s\S]*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        lead="",
        data_anchor=b"key",
    ),
    Form("://", r"://[^\s/:@]{0,64}:([^\s/@]{1,256})@", lead="", rare=b"/"),
    Form("uthorization", r"[Aa]uthorization" + _HEADER_VALUE, lead="", data_anchor=b"authoriz"),
    Form("api", r"api[_-]?key" + _HEADER_VALUE, lead="", data_anchor=b"key"),
    Form("API", r"API[_-]?KEY" + _HEADER_VALUE, lead="", data_anchor=b"key"),
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
_NAMES: dict[bytes, bytes] = {
    b"key": b"key",
    b"token": b"token",
    b"secret": b"secret",
    b"passw": b"passw(?:or)?d",
    b"passph": b"passphrase",
    b"authoriz": b"authorization",
    b"credential": b"credentials?",
}


class Trace:
    """What to look at more closely in encoded data when its lower case holds `anchor`."""

    def __init__(self, anchor: bytes) -> None:
        forms = [form for form in FORMS if form.data_anchor == anchor]
        self.anchor: bytes = anchor
        self.rare: bytes | None = forms[0].rare if len(forms) == 1 else None
        self.data: tuple[re.Pattern[bytes], ...] = tuple(form.data for form in forms)
        name = _NAMES.get(anchor)
        self.name: re.Pattern[bytes] | None = re.compile(name + _TEXT) if name else None

    def found(self, data: bytes, lowered: bytes) -> bool:
        if any(pattern.search(data) for pattern in self.data):
            return True
        return self.name is not None and self.name.search(lowered) is not None


TRACES: tuple[Trace, ...] = tuple(
    Trace(anchor) for anchor in dict.fromkeys((*(form.data_anchor for form in FORMS), *_NAMES))
)
