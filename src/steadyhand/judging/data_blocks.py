"""How material is marked as data in a prompt: between marks that no text can contain, with hidden characters shown."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from steadyhand.records.evaluation import Material

_CODE_LENGTH = 20

_OUR_MARKS = re.compile(r"[<\u2039\u3008\u300a\ufe64\uff1c]{3,}(?=\W{0,8}(?:data|end|cut)\b)", re.IGNORECASE)
# Tokens that servers turn into chat turns when they appear in a message.
_CHAT_TOKENS = re.compile(
    r"<(?=[|\uff5c]\s*[\w\u2581 -]{1,40}\s*[|\uff5c]>)"
    r"|<(?=/?(?:s|bos|eos|pad|unk|sep|cls|mask|start_of_turn|end_of_turn|system|user|assistant|human|think|tool_call|tool_response)>)"
    r"|<(?=</?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])",
    re.IGNORECASE,
)
# Invisible, although Unicode classes them as letters or marks.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_KEPT = frozenset("\n\t")
_EMOJI_STYLE, _JOINER = "\ufe0f", "\u200d"
_UNUSUAL = re.compile(r"[^\n\t -~\u00a1-\u00ac\u00ae-\u024f\u0370-\u03ff\u0400-\u052f\u3040-\u30ff\u4e00-\u9fff]")


def code_for(texts: Iterable[str]) -> str:
    """A code that depends on every character of the texts.

    Text cannot contain the code computed from it. The same texts get the same code, so a recorded exchange can be
    replayed.
    """
    digest = hashlib.sha256(b"steadyhand judge")
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.hexdigest()[:_CODE_LENGTH]


def data_blocks(materials: Iterable[Material], code: str) -> str:
    """The materials, each defused between its marks. The title is on the first mark, and is data too."""
    return "\n\n".join(_block(material, code) for material in materials)


def _block(material: Material, code: str) -> str:
    title = _without(code, defuse(" ".join(material.title.split())))
    body = _without(code, defuse(material.text))
    return f"<<<data {code} {json.dumps(title, ensure_ascii=False)}>>>\n{body}\n<<<end {code}>>>"


def _without(code: str, text: str) -> str:
    return re.sub(re.escape(code), lambda match: escaped(match[0][0]) + match[0][1:], text, flags=re.IGNORECASE)


def defuse(text: str) -> str:
    """The text with hidden characters shown and markers broken."""
    text = text.replace("\r\n", "\n")
    text = _UNUSUAL.sub(_escaped, text)
    text = _OUR_MARKS.sub(lambda match: "".join(map(escaped, match[0])), text)
    return _CHAT_TOKENS.sub(lambda match: escaped(match[0]), text)


def escaped(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if not _hidden(character) or _part_of_emoji(match):
        return character
    return escaped(character)


@lru_cache(maxsize=4096)
def _hidden(character: str) -> bool:
    """Whether a reader would not see it, or it reorders the text around it."""
    if character in _KEPT:
        return False
    if character in _BLANK or "\ufe00" <= character <= "\ufe0f" or "\U000e0000" <= character <= "\U000e0fff":
        return True
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _part_of_emoji(match: re.Match[str]) -> bool:
    """A single style mark or joiner after a symbol is part of an emoji; several may carry a hidden message."""
    character, text, at = match[0], match.string, match.start()
    before = text[at - 1] if at else ""
    if character == _EMOJI_STYLE:
        return before != "" and unicodedata.category(before) == "So"
    if character == _JOINER and at + 1 < len(text):
        symbol = before == _EMOJI_STYLE or (before != "" and unicodedata.category(before) in ("So", "Sk"))
        return symbol and unicodedata.category(text[at + 1]) == "So"
    return False
