"""How a value is written into a text that has a syntax: a regular expression, JavaScript, Python, SQL, a command.

A shape declares the language of a field with `Written`. Whatever the value is, it stays one literal there; where that
cannot be ensured, `quoting` raises.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec


class CannotQuote(ValueError):
    """Why a value cannot stand where it is; the message says what to write instead."""


class Written(msgspec.Struct, frozen=True, eq=False):
    """Declares the language of a field, in which any value is valid unless it is blank. With `by`, another key of the
    same mapping chooses the language.

    `text` takes any text and `data` any value. In `schema`, a JSON Schema, only `pattern` is a regular expression. No
    list or mapping takes the place of `structure`, such as a check. In a `name`, as of an agent, a value is the whole.
    What is `fixed` takes none. Without `free`, a value that is quoted may still be refused, and is validated with its
    field.
    """

    otherwise: str = ""
    by: str = ""
    of: Mapping[str | None, str] = {}
    free: bool = True

    @property
    def takes_anything(self) -> bool:
        return self.free and self.otherwise not in ("schema", "structure", "name", "fixed")

    def language(self, beside: Mapping[str, Any]) -> str:
        """`beside` is the mapping that the field is in."""
        chosen = beside.get(self.by) if self.by else None
        if not self.by or not (chosen is None or isinstance(chosen, str)):
            return self.otherwise
        return self.of.get(chosen, self.otherwise or f"{self.by}: {chosen}")


PROSE: Final = Written("text")
DATA: Final = Written("data")
ASKED: Final = Written("data", free=False)
"""Data that a check asks for."""
CHECK: Final = Written("structure")
FIXED: Final = Written("fixed")
UNSYNTACTIC: Final = frozenset(("", "text", "data", "schema", "structure", "name", "fixed"))
TYPED: Final = frozenset(("javascript", "python", "sql"))
"""Languages in which a number is written without quotes."""


_SPECIAL = re.compile(r"[.^$*+?{}()|\[\]\\]")
_IGNORES_SPACES = re.compile(r"\(\?[a-wyz]*x")


class _Syntax(NamedTuple):
    """`tokens` has the groups `open`, for the beginning of something that does not end, and `unclear`, after which only
    a parser of the language could tell what a value would be. `glue` is what a value must not be joined to."""

    name: str
    tokens: re.Pattern[str]
    glue: re.Pattern[str]
    literal: Callable[[Any], str]
    remedy: str


def _tokens(whole: str, begins: str, unclear: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<unclear>{unclear})|{whole}|(?P<open>{begins})|.", re.DOTALL)


def _regex(value: Any) -> str:
    return f"(?:{_SPECIAL.sub(lambda found: chr(92) + found[0], as_text(value))})"


def _javascript(value: Any) -> str:
    text = json.dumps(value)  # its escapes cover U+2028 and U+2029 too
    return f"({text})" if text[0] in "-{" else text


def _python(value: Any) -> str:
    text = repr(value)
    return f"({text})" if text[0] == "-" else text


def _sql(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, int | float):
        return f"({value!r})"
    text = as_text(value)
    if "\\" in text or "\0" in text:
        raise CannotQuote("databases read a backslash differently, so it cannot be quoted for all of them")
    return "'" + text.replace("'", "''") + "'"


def _shell(value: Any) -> str:
    text = as_text(value)
    if "\0" in text:
        raise CannotQuote("a command cannot hold a NUL byte")
    return shlex.quote(text)


def _path_step(value: Any, plain: str = r"[\w-]+") -> str:
    text = as_text(value)
    if not re.fullmatch(plain, text):
        raise CannotQuote(f"`{text}` is not a plain name or position in a path; add `| raw` if it is to be a path")
    return text


def _quoted_step(value: Any) -> str:
    return _path_step(value, r"""[^'"\\]+""")


_READ_AGAIN = (
    r"(?:(?:(?:\A|[;&|({\n]|(?<!\S)(?:then|do|else|if|while|until|time|command|builtin|sudo|env|exec|!)\s)\s*(?:\w+=\S*\s+)*"
    r"(?:eval|let|trap|unset|read|readarray|mapfile|getopts|wait|source|printf\s+-v|(?:test|\[)\s+-v"
    r"|(?:declare|typeset|local|readonly|export)(?:\s+-\w*[in]|\s*\Z)))|(?<![\w$-])\w*sh\s+(?:-\w+\s+)*-\w*c)(?![\w.=-])"
    r"(?:\"(?:\\.|[^\"\\])*\"|'[^']*'|[^;&|\n\"'])*\Z"
)
"""Shell commands that take a word for a program, an expression or a variable, so that quotes do not keep it a text:
`let x='a[$(reboot)]'` runs what is in the brackets. So does what stands between `[[` and `]]`, and a subscript."""
_STRING = r'"(?:\\.|[^"\\])*"|' + r"'(?:\\.|[^'\\])*'"
_ASSIGNED = re.compile(r"(?<![\w-])\w+\+?=\Z")
_COMPUTED = re.compile(r"\[\[|\(\(|\$\[|(?<![\w./$-])(?:eval|let|trap)(?![\w.=-])")
_C_COMMENT = r"/\*.*?\*/"


@functools.cache
def _syntaxes() -> Mapping[str, _Syntax]:
    """By the name of the language. Made on first use: few scenarios have templates."""
    return {
        "regex": _Syntax(
            "a regular expression",
            _tokens(
                r"\\[pPNx]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?#[^)]*\)|\{[\d,]+\}"
                r"|\(\?(?:[-\w^]*[:)]|<?[=!]|[>|]|P?<\w+>|P[=>]\w+\)|&\w+\))",
                r"\\|\[|\(\?|\{[\w,<=+: ]*\Z",
                r"(?!)",
            ),
            re.compile(r"(?!)"),
            _regex,
            "move it out of the set, the repeat or the head of the group",
        ),
        "javascript": _Syntax(
            "JavaScript",
            _tokens(rf"{_STRING}|`(?:\\.|[^`\\])*`|{_C_COMMENT}|//[^\n]*\n", r"[\"'`]|//|/\*", r"/(?![/*])"),
            re.compile(r"[\w$.\\]"),
            _javascript,
            "write it as a value of its own, such as `args[0] === {{ id }}`",
        ),
        "python": _Syntax(
            "Python",
            _tokens(rf'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|{_STRING}|#[^\n]*\n', r"[\"'#]", r"(?!)"),
            re.compile(r"[\w.\\\"']"),
            _python,
            "write it as a value of its own, such as `print({{ id }})`",
        ),
        "sql": _Syntax(
            "SQL",
            _tokens(
                rf"'[^'\\]*'|\"[^\"\\]*\"|`[^`\\]*`|\[[^\]]*\]|{_C_COMMENT}|--[^\n]*\n", r"[\"'`\[]|--|/\*", r"[$\\]"
            ),
            re.compile(r"[\w.\"'`@:]"),
            _sql,
            "write it as a value of its own, such as `id = {{ id }}`",
        ),
        "shell": _Syntax(
            "a command",
            _tokens(
                r'"(?:\\.|[^"\\])*"|' + r"'[^']*'|`[^`]*`|(?<![^\s;&|()])#[^\n]*\n|\\.",
                r"[\"'`\\]|(?<![^\s;&|()])#",
                rf"<<|\(\(|\$\[|\$'|\[\[(?:(?!\]\]).)*\Z|\w\[[^\]\s]*\Z|{_READ_AGAIN}",
            ),
            re.compile(r"[\\$]"),
            _shell,
            "write it without quotes, such as `grep {{ name }} notes.txt`",
        ),
    }


def quoting(language: str, before: str, after: str) -> Callable[[Any], str]:
    """How values are written between the texts that stand `before` and `after` them; what it returns raises
    `CannotQuote` for a value that has no form in the language. Raises `CannotQuote`."""
    if language in UNSYNTACTIC:
        return as_text
    if language == "json path":
        return _quoted_step if before[-2:] in ("['", '["') else _path_step
    syntax = _syntaxes().get(language)
    if syntax is None:
        raise CannotQuote(f"values cannot be quoted for `{language}`; add `| raw` if they are safe as they are")
    if language == "regex" and _IGNORES_SPACES.search(f"{before} {after}"):
        raise CannotQuote("the pattern ignores spaces, and so those of a value; leave out the flag `x`, or add `| raw`")
    for token in syntax.tokens.finditer(before):
        if token.lastgroup is not None:
            where = "within" if token.lastgroup == "open" else "after"
            message = f"{where} `{token[0].strip()[:30]}`, it cannot be told what the value would be in {syntax.name}"
            raise CannotQuote(f"{message}; {syntax.remedy}, or add `| raw`")
    if language == "shell" and _ASSIGNED.search(before) and (found := _COMPUTED.search(after)) is not None:
        raise CannotQuote(f"`{found[0]}` may compute with the variable, which runs a value such as `a[$(reboot)]`")
    if syntax.glue.match(before[-1:]) or (language != "shell" and syntax.glue.match(after[:1])):
        raise CannotQuote(f"it is joined to what stands beside it in {syntax.name}; {syntax.remedy}, or add `| raw`")
    return syntax.literal


def as_text(value: Any) -> str:
    """A value inside a text. Raises `CannotQuote` for a list or a mapping."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        raise CannotQuote("a mapping cannot be part of a text; name one of its keys, such as `{{ patient.age }}`")
    if isinstance(value, list):
        raise CannotQuote("a list cannot be part of a text; use it as a whole value")
    return json.dumps(value) if value is not None else ""
