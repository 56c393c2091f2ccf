"""Removes secrets from everything that is written or shown.

A secret is recognised by its value (a variable with a name like `API_KEY`), by its shape (`sk-...`, `Bearer ...`), or
by the name of the entry that holds it. It is masked with as many asterisks as it had characters, so that positions and
chunk sizes stay correct. Redacting twice changes nothing.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal, TypeVar, cast, get_args, get_origin
from urllib.parse import parse_qsl, quote, quote_plus, unquote

import msgspec

_VARIABLE = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE"
    r"|(?:^|_)(?:PASS|PAT|AUTH)(?:$|_(?!SOCK))|_PWD(?:$|_)",  # not PWD, the current folder
    re.IGNORECASE,
)
_ENTRY = re.compile(
    r"(?:.*[_.\- ])?(?:(?:api|access|secret|private)[_-]?key|token|secret|password|passwd|passphrase|authorization"
    r"|credentials?|(?:set-)?cookie)",
    re.IGNORECASE | re.DOTALL,
)
_CAMEL_ENTRY = re.compile(
    r".*[a-z0-9](?:(?:Api|Access|Secret|Private)Key|Token|Secret|Password|Passphrase|Authorization|Credentials?)",
    re.DOTALL,
)
SHORTEST = 8
_LONG_ENOUGH = 16
_NO_WORDS = re.compile(r"[\d#$%&*+/<=>@\\^{|}~!?;\t\n]")
_PREFIX = re.compile(r"(?:sk|pk|rk|gsk|xai|hf|pat|key|tok)[-_]")


def maskable(value: str) -> bool:
    """Whether a value is told apart from ordinary text: it has sixteen characters, or eight and among them a digit, a
    symbol or a capital inside, or the prefix of a key.

    Local servers are often given `x` or `not-needed` for a key; masking that would mask ordinary words.
    """
    if len(value) < SHORTEST:
        return False
    mixed = value[1:] != value[1:].lower() and value != value.upper()
    shaped = mixed or _PREFIX.match(value) is not None or _NO_WORDS.search(value) is not None
    return shaped or len(value) >= _LONG_ENOUGH


class Form:
    """Text that is a secret by its shape alone.

    `anchor` is a quick test: without it there is no match. `data_anchor` is the same for encoded data in lower case;
    several forms share one where that saves a search, and `rare` is a byte that is searched for first. If the pattern
    has a group, the group is the secret.
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
        self._pattern: str = pattern
        self._lead: str = lead

    # Most runs see nothing that looks like any of these. To compile all of them would take 2 ms of every start.

    @cached_property
    def text(self) -> re.Pattern[str]:
        return re.compile(self._lead + self._pattern)

    @cached_property
    def data(self) -> re.Pattern[bytes]:
        """In encoded data the preceding byte may belong to something else, so the lead is not required there."""
        return re.compile(self._pattern.encode())


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
    """The values that must not be shown: those of variables with a secret-like name, and of those `named` in the
    configuration.

    Values that are not `maskable` are left out.
    """
    wanted = set(named)
    values = (value.strip() for name, value in variables.items() if name in wanted or _VARIABLE.search(name))
    return frozenset(value for value in values if maskable(value))


_HARMLESS = re.compile(
    r"(?:.*[-_.])?(?:version|beta|model|deployment|region|format|type|encoding|language|accept|agent|referer|title)",
    re.IGNORECASE,
)
_OPTION = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def secrets_among(entries: Mapping[str, object]) -> frozenset[str]:
    """The values of headers, or of a URL's query, that must not be shown: all except those with harmless names."""
    found = {
        value.strip() for name, value in entries.items() if isinstance(value, str) and not _HARMLESS.fullmatch(name)
    }
    scheme = {value.partition(" ")[2].strip() for value in found}  # `Bearer abc` is echoed as `abc`
    return frozenset(value for value in found | scheme if maskable(value))


def secrets_in_url(url: str) -> frozenset[str]:
    """The password, and the values in its query, that must not be shown."""
    query = url.partition("?")[2].partition("#")[0]
    named = secrets_among(dict(parse_qsl(query))) | secrets_among(dict(part.split("=", 1) for part in _pairs(query)))
    return named | password_in_url(url)


def password_in_url(url: str) -> frozenset[str]:
    """The value as written, and decoded."""
    user = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0].rpartition("@")[0]
    password = user.partition(":")[2]
    return frozenset(value for value in (password, unquote(password)) if maskable(value))


def secrets_of_process(variables: Mapping[str, str], named: Iterable[str] = ()) -> frozenset[str]:
    """As `secrets_of`, with those in variables that hold a URL: any password, and the query of a `..._URL`."""
    found = secrets_of(variables, named)
    for name, value in variables.items():
        if "://" in value:
            found |= secrets_in_url(value) if name.upper().endswith("_URL") else password_in_url(value)
    return found


def secrets_in_table(table: Mapping[str, Any]) -> frozenset[str]:
    """Literal secrets in a table of options: headers, variables, URLs, and entries with secret-like names."""
    found: frozenset[str] = frozenset()
    for name, value in table.items():
        if isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", value)
            found |= secrets_among(inner) if name == "headers" else secrets_in_table(inner)
            if name == "env":
                found |= secrets_of({key: each for key, each in inner.items() if isinstance(each, str)})
        elif isinstance(value, list):
            found |= secrets_in_table({name: {str(index): each for index, each in enumerate(cast("list[Any]", value))}})
        elif isinstance(value, str):
            if names_secret(name) and maskable(value):
                found |= {value}
            found |= secrets_in_url(value) if "://" in value else frozenset()
    return frozenset(value for value in found if not value.startswith(("$", "{")))


def _pairs(query: str) -> list[str]:
    return [part for part in query.split("&") if "=" in part]


def secrets_in_command(line: str) -> frozenset[str]:
    """Literal secrets on a command line: values of variables and options with secret-like names."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    found: set[str] = set()
    for word, following in pairwise([*words, ""]):
        if (assigned := _ASSIGNED.fullmatch(word)) and _VARIABLE.search(assigned[1]):
            found.add(assigned[2])
        elif (option := _OPTION.fullmatch(word)) and (names_secret(option[1]) or _VARIABLE.search(option[1])):
            found.add(following if option[2] is None else option[2])
        if "://" in word:
            found |= secrets_in_url(word)
    return frozenset(value for value in found if maskable(value) and not value.startswith("$"))


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
    """What to check further in encoded data if its lower-case form contains `anchor`."""

    def __init__(self, anchor: bytes) -> None:
        self._forms: list[Form] = [form for form in FORMS if form.data_anchor == anchor]
        self._name: bytes | None = _NAMES.get(anchor)
        self.anchor: bytes = anchor
        self.rare: bytes | None = self._forms[0].rare if len(self._forms) == 1 else None

    @cached_property
    def _named(self) -> re.Pattern[bytes] | None:
        return re.compile(self._name + _TEXT) if self._name else None

    def found(self, data: bytes, lowered: bytes) -> bool:
        if any(form.data.search(data) for form in self._forms):
            return True
        return self._named is not None and self._named.search(lowered) is not None


TRACES: tuple[Trace, ...] = tuple(
    Trace(anchor) for anchor in dict.fromkeys((*(form.data_anchor for form in FORMS), *_NAMES))
)


T = TypeVar("T")
_Span = tuple[int, int]
MASK = "*"
DEEPEST = 150
TOO_DEEP = f"[nested more than {DEEPEST} levels deep]"
_TRACES = tuple((trace.anchor, trace.rare, trace) for trace in TRACES)
_ATOMS = (type(None), bool, int, float, Enum)


class Redactor:
    """Masks `secrets`, and whatever has the shape of one.

    The first or the last half of a secret counts too, because messages and excerpts may be cut before they get here.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: tuple[_KnownSecret, ...] = tuple(
            _KnownSecret(spelling)
            for secret in sorted(set(secrets), key=lambda secret: (-len(secret), secret))
            if maskable(secret)
            for spelling in _spellings(secret)
        )
        self._encoded: tuple[_KnownSecret, ...] = tuple(
            _KnownSecret(form)
            for secret in sorted(set(secrets), key=lambda secret: (-len(secret), secret))
            if maskable(secret)
            for form in _encodings(secret)
        )
        parts = [part for known in self._known for part in (known.head, known.tail)]
        parts += [known.head for known in self._encoded]
        self._parts: frozenset[bytes] = frozenset(part.encode("utf-8", "surrogateescape") for part in parts)
        self._has_trace: Callable[[str], bool] | None = None

    def text(self, text: str) -> str:
        """The text without secrets; the same object if it has none."""
        spans = [span for known in (*self._known, *self._encoded) for span in known.spans(text)]
        for form in FORMS:
            if form.anchor in text:
                spans += [found.span(form.text.groups) for found in form.text.finditer(text)]
        return _mask(text, spans) if spans else text

    def suspects(self, data: bytes) -> bool:
        """Whether encoded msgpack may hold a secret. A quick test with false positives but no false negatives."""
        if self._has_trace is None:
            self._has_trace = _finder_of_any([*self._parts, *(trace.anchor for trace in TRACES)])
        if not self._has_trace(data.translate(_LOWERED_ASCII).decode("ascii")):
            return False
        for part in self._parts:
            if part in data:
                return True
        lowered = data.lower()
        for anchor, rare, trace in _TRACES:
            # Searching for a byte is twenty times as fast as for a word.
            if (rare is None or rare in data) and anchor in lowered and trace.found(data, lowered):
                return True
        return False

    def value(self, value: T, *, by_name: bool = True) -> T:
        """The value with every text in it redacted, at any depth; the same object if nothing changed.

        Whatever is nested more than `DEEPEST` levels deep is replaced by a note.

        `by_name` also masks the text of entries with a secret-like name. Record fields that can only hold certain words
        are left alone, so that a redacted record can still be decoded.
        """
        return cast("T", self._value(value, by_name, 0))

    def _value(self, value: Any, by_name: bool, depth: int) -> Any:
        if depth > DEEPEST and not isinstance(value, _ATOMS):
            return TOO_DEEP
        match value:
            case None | bool() | int() | float() | Enum():
                return value
            case str():
                return self.text(value)
            case bytes():
                text = value.decode("utf-8", "surrogateescape")
                redacted = self.text(text)
                return value if redacted is text else redacted.encode("utf-8", "surrogateescape")
            case msgspec.Struct():
                return self._struct(value, by_name, depth)
            case Mapping():
                return self._mapping(cast("Mapping[Any, Any]", value), by_name, depth)
            case list() | tuple() | set() | frozenset():
                items = list(cast("Iterable[Any]", value))
                redacted = [self._value(item, by_name, depth + 1) for item in items]
                same = all(new is old for new, old in zip(redacted, items, strict=True))
                return cast("Any", value) if same else redacted if isinstance(value, list) else tuple(redacted)
            case _:
                # As the encoders see it.
                plain = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=repr)
                redacted = self._value(plain, by_name, depth + 1)
                return value if redacted is plain else redacted

    def _struct(self, value: msgspec.Struct, by_name: bool, depth: int) -> msgspec.Struct:
        changed: dict[str, Any] = {}
        for name in _free_fields(type(value)):
            old = getattr(value, name)
            new = self._value(old, by_name, depth + 1)
            if new is not old:
                changed[name] = new
        return msgspec.structs.replace(value, **changed) if changed else value

    def _mapping(self, value: Mapping[Any, Any], by_name: bool, depth: int) -> Mapping[Any, Any]:
        redacted: dict[Any, Any] = {}
        same = True
        for key, old in value.items():
            if by_name and isinstance(key, str) and isinstance(old, str) and names_secret(key):
                new = old if old == MASK * len(old) else MASK * len(old)
            else:
                new = self._value(old, by_name, depth + 1)
            new_key = self.text(key) if isinstance(key, str) and not isinstance(key, Enum) else key
            same = same and new is old and new_key is key
            redacted[new_key] = new
        return value if same else redacted


_LOWERED_ASCII = bytes(range(128)).lower() + bytes(128)
"""Bytes in lower case, with one for all that are not ASCII: only an ASCII text is searched without a copy."""

_LITERAL = {byte: chr(byte) if chr(byte).isalnum() else rf"\x{{{byte:x}}}" for byte in range(128)}
"""How a regular expression spells an ASCII character that stands for itself."""


def _finder_of_any(words: Iterable[bytes]) -> Callable[[str], bool]:
    """Whether a text of `_LOWERED_ASCII` contains one of the words, all of which are looked for at once.

    The regular expressions of pydantic are Rust's, which compile alternatives to an automaton.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema  # not needed to show help

    pattern = "|".join(word.translate(_LOWERED_ASCII).decode("ascii").translate(_LITERAL) for word in words)
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")).isinstance_python
    except SchemaError:  # too many words
        return lambda text: True


class _KnownSecret:
    """One spelling of a secret, found by its first or its last half."""

    def __init__(self, secret: str) -> None:
        size = max(SHORTEST, len(secret) // 2)
        self._secret = secret
        self.head: str = secret[:size]
        self.tail: str = secret[-size:]

    def spans(self, text: str) -> list[_Span]:
        found: list[_Span] = []
        secret, head, tail = self._secret, self.head, self.tail
        at = text.find(head)
        while at >= 0:
            end = at + len(head)
            while end < len(text) and end - at < len(secret) and text[end] == secret[end - at]:
                end += 1
            found.append((at, end))
            at = text.find(head, end)
        at = text.find(tail)
        while at >= 0:
            start, end = at, at + len(tail)
            while start > 0 and end - start < len(secret) and text[start - 1] == secret[start - 1 - end]:
                start -= 1
            found.append((start, end))
            at = text.find(tail, end)
        return found


def _spellings(secret: str) -> tuple[str, ...]:
    """The secret as it is, in JSON, as a Python `repr` and in a URL."""
    spelt = (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe="", errors="replace"),
    )
    return tuple(dict.fromkeys(spelt))


def _encodings(secret: str) -> tuple[str, ...]:
    """The secret in hexadecimal, and in Base64 at any offset in a longer text (such as `user:secret` in basic
    authentication).

    Base64 encodes three bytes at a time, so the result depends on the offset. Digits shared with neighbouring bytes are
    left off.
    """
    data = secret.encode("utf-8", "surrogateescape")
    forms = [data.hex(), data.hex().upper(), quote_plus(secret, errors="replace")]
    for before in range(3):
        packed = base64.b64encode(b"\0" * before + data).decode()
        whole = packed[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        forms += [whole, whole.translate(_URL_SAFE)]
    return tuple(form for form in dict.fromkeys(forms) if len(form) >= SHORTEST and form not in _spellings(secret))


_URL_SAFE = str.maketrans("+/", "-_")


def _mask(text: str, spans: list[_Span]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if end > done:
            begin = max(start, done)
            pieces += (text[done:begin], MASK * (end - begin))
            done = end
    redacted = "".join((*pieces, text[done:]))
    return text if redacted == text else redacted


@cache
def _free_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields that may hold any text, or hold something that may."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if not _fixed(field.type))


def _fixed(annotation: Any) -> bool:
    """Whether a field of this type can only hold one of certain words, or a number."""
    if get_origin(annotation) is Literal:
        return True
    if get_origin(annotation) is dict:
        return False
    arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
    if arguments:
        return all(_fixed(argument) for argument in arguments)
    return isinstance(annotation, type) and issubclass(annotation, _ATOMS)
