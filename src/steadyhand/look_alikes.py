"""Letters of other scripts that look alike, and words that mix scripts spelled in one."""
# ruff: noqa: RUF001

from __future__ import annotations

import functools
import re
from typing import Literal

Script = Literal["Latin", "Cyrillic", "Greek"]

_TABLE = """
AАΑᎪꓮ BВΒᏴꓐ CСϹᏟꓚ DᎠꓓ EЕΕᎬꓰ FϜꓝ GԌᏀꓖ HНΗᎻꓧ IІΙӀꓲ JЈͿᎫꓙ KКΚᏦꓗ LԼᏞꓡ MМΜᎷꓟ NΝꓠ OОΟՕꓳ PРΡᏢꓑ QԚ RᎡᏒꓣ SЅՏᏚꓢ TТΤᎢꓔ UՍꓴ
VѴᏙꓦ WԜᎳꓪ XХΧꓫ YУΥҮᎩꓬ ZΖᏃꓜ
aаα bьβв cсϲ dԁ eеε gց hһнհ iіιᎥ jјϳյ kкκ lӏ mм nηոռ oоοσօ pрρ qԛզ rг sѕ tтτ uυս vѵν wԝω xхχ yуγү ïї ÏЇ
"""
"""A Latin letter, and the letters of Cyrillic, Greek, Armenian, Cherokee and Lisu that look like it. Written by hand
in the manner of Unicode's confusables (UTS 39), for letters; it goes further where a small letter has the shape of a
capital. The first of a script is what the Latin letter becomes in a word of that script."""

_LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_CYRILLIC = "\u0400-\u0482\u048a-\u052f"
_GREEK = "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386-\u03ff"
_OTHERS = "\u0531-\u0556\u0561-\u0587\u13a0-\u13f5\uab70-\uabbf\ua4d0-\ua4f7"
_ALL = (_LATIN, _CYRILLIC, _GREEK, _OTHERS)
_JOINED = "[-'0-9*_~`\u200b]*"
"""What may stand inside a word: an apostrophe, a hyphen, digits, emphasis, a space of no width."""

_WORD = re.compile(rf"[{''.join(_ALL)}](?:{_JOINED}[{''.join(_ALL)}])*")
_WORD_SO_FAR = re.compile(rf"[{''.join(_ALL)}](?:{_JOINED}[{''.join(_ALL)}])*{_JOINED}\Z")
_LONGEST_WORD = 100
_NOT_LATIN = re.compile(f"[{_CYRILLIC}{_GREEK}{_OTHERS}]")
_SCRIPTS: dict[Script, re.Pattern[str]] = {
    "Latin": re.compile(f"[{_LATIN}]"),
    "Cyrillic": re.compile(f"[{_CYRILLIC}]"),
    "Greek": re.compile(f"[{_GREEK}]"),
}


def scripts_in(text: str) -> list[Script]:
    """Which of the three scripts occur in the text."""
    return [script for script, letter in _SCRIPTS.items() if letter.search(text)]


def has_look_alikes(letters: str) -> bool:
    """Whether any of the letters is of a script whose letters may look like Latin ones."""
    return _NOT_LATIN.search(letters) is not None


def mixes_scripts(text: str) -> bool:
    """Whether a word of the text has letters of several scripts."""
    return _script_changes().search(text) is not None


def unmixed(text: str, home: Script | None) -> str:
    """The text with each letter of a word that mixes scripts spelled in `home`, where it looks like a letter of that.

    Without `home`, a word is spelled in the script that all its letters can be, or else in that of most; a hyphen may
    then join words of two scripts.
    """
    parts: list[str] = []
    taken = 0
    for change in _script_changes().finditer(text):
        if change.start() < taken:
            continue
        before = _WORD_SO_FAR.search(text, max(taken, change.start() - _LONGEST_WORD), change.start())
        word = _WORD.match(text, before.start() if before else change.start())
        if word is not None:
            parts += [text[taken : word.start()], _in_one_script(word[0], home)]
            taken = word.end()
    return "".join([*parts, text[taken:]])


@functools.cache
def _script_changes() -> re.Pattern[str]:
    others = {script: "".join(other for other in _ALL if other != script) for script in _ALL}
    return re.compile("|".join(f"[{script}](?={_JOINED}[{others[script]}])" for script in _ALL))


def _in_one_script(word: str, home: Script | None) -> str:
    if home is not None:
        return word.translate(_spelling(home))
    if "-" in word:
        return "-".join(_in_one_script(part, None) if mixes_scripts(part) else part for part in word.split("-"))
    spelled: dict[Script, str] = {script: word.translate(_spelling(script)) for script in _SCRIPTS}
    for script, letters in spelled.items():
        if all(_SCRIPTS[script].match(letter) for letter in letters if letter.isalpha()):
            return letters
    return spelled[max(_SCRIPTS, key=lambda script: len(_SCRIPTS[script].findall(word)))]


@functools.cache
def _spelling(home: Script) -> dict[int, str]:
    """The letters of other scripts that look like a letter of `home`, with that letter."""
    own = _SCRIPTS[home]
    spelling: dict[int, str] = {}
    for row in _TABLE.split():
        letter = next((each for each in row if own.match(each)), None)
        if letter is not None:
            spelling |= {ord(each): letter for each in row if not own.match(each)}
    return spelling
