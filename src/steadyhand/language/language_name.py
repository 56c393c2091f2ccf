"""Which language a text is in: sure, or not. A few words are never enough, and neither is a mixture.

Latin scripts are told by words that only one of these languages has; Greek, Hebrew, Thai, Korean, Japanese and Chinese
by their letters.
"""

from __future__ import annotations

import functools
import re
from collections import Counter

import regex

from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.english import ENGLISH
from steadyhand.language.french import FRENCH
from steadyhand.language.german import GERMAN
from steadyhand.language.lexicon import word_set
from steadyhand.language.spanish import SPANISH

_MORE: dict[str, str] = {
    "en": "the of and to is that for with this not but your you can will if please when have it are be or at from",
    "de": "nicht kein keine aber wenn dann weil doch mehr sich damit daher bitte nichts diesem sondern sowie",
    "fr": "ne pas mais si quand parce comme sans peut elle votre vos il est aussi entre leur après avant lorsque",
    "es": "no pero si cuando porque sin entre hasta desde donde puede pueden debe usted según aunque después",
    "it": "il lo gli della dello degli delle nel nella che di è sono non per con una anche come questo questa più ma"
    " ha hanno suo sua dal dalla ai alla alle si può deve essere stato quando ogni le la un i perché grazie",
    "pt": "o os da das do dos em no na nos nas um uma para por com não que é são está mais como também seu sua ou ao"
    " à foi ser tem você muito pelo pela isso este esta quando se as e a de obrigado",
    "nl": "het een van en is dat niet zijn op te met voor aan er maar om ook als bij wordt naar uit deze dit heeft"
    " hebben kan zal moet geen wel nog je uw wij ze de in door over worden tot werd",
    "sv": "och att det som är en på av för med den till inte har de ett om men var jag sig från vi så kan när eller",
    "da": "og at det som er en på af for med den til ikke har de et om men var jeg sig fra vi så kan når eller skal",
    "no": "og å det som er en på av for med den til ikke har de et om men var jeg seg fra vi så kan når eller skal",
    "pl": "i w nie na się z do to że jest o jak ale po co tak za od są dla przez może być czy ten tego lub",
    "ca": "el la els les de del dels i que és no un una per amb en al als se més com però són aquest aquesta ha va",
    "ro": "și de la în a cu nu este un o pe care să din pentru mai sunt au fi se că ca dar sau acest această",
    "af": "die en van is nie het dit in te vir met op hy was om sy aan wat ek ons kan sal jou moet word",
    "cs": "a je se na v to že s z do o jako ale pro by jsem jsou být není které nebo při také jeho",
    "fi": "ja on ei se että oli hän mutta kun myös ovat tai sen joka niin kuin voi tämä jos",
    "tr": "ve bir bu için ile de da çok ne daha gibi olarak var değil ama en olan sonra kadar",
    "id": "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena ada anda",
}
READ = (ENGLISH, GERMAN, FRENCH, SPANISH)
_LETTERS = {
    "el": r"\p{Greek}", "he": r"\p{Hebrew}", "th": r"\p{Thai}", "ko": r"\p{Hangul}",
    "ja": r"[\p{Hiragana}\p{Katakana}\p{Han}]", "zh": r"\p{Han}",
}  # fmt: skip
LANGUAGES = tuple(sorted({"en", "de", "fr", "es", "it", "pt", "nl", *_LETTERS}))
"""Those that a check can ask for. The other languages are known only so that they are not taken for one of these."""

_ASIDE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\S+@\S+|<[^<>\n]{1,200}>", re.DOTALL)
_WORD = regex.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?:;\n\u2026\u3002\uff01\uff1f]+")
_FEWEST = 8
_HITS = 4
_SHARE = 0.2
_RIVAL = 0.25
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
_LATIN = regex.compile(r"\p{Latin}")
_LETTER = regex.compile(r"\p{L}")


@functools.cache
def _known() -> dict[str, frozenset[str]]:
    """The languages that each of their words belongs to."""
    words = {code: word_set(listed) for code, listed in _MORE.items()}
    for lexicon in READ:
        words[lexicon.code] |= lexicon.closed
    found: dict[str, set[str]] = {}
    for code, own in words.items():
        for word in own:
            found.setdefault(word, set()).add(code)
    return {word: frozenset(codes) for word, codes in found.items()}


def is_in(text: str, language: str) -> Ruling:
    """Whether a text is in this one of `LANGUAGES`, all of it, apart from code and addresses."""
    plain = _ASIDE.sub(" ", text)
    letters = len(_LETTER.findall(plain))
    own = len(regex.findall(_LETTERS.get(language, r"\p{Latin}"), plain))
    if letters == 0:
        return _cannot("it has no words")
    if own < letters * 0.1 and letters >= 20:
        return Ruling(answer=Certainty.NO, why="it is written in other letters")
    if own < letters * 0.8:
        return _cannot("it mixes letters of several scripts")
    return _by_letters(plain, language, own) if language in _LETTERS else _by_words(plain, language)


def is_familiar(text: str) -> bool:
    """Whether a text, however short, has words that only English, German, French or Spanish has, and more of them than
    of others."""
    alone = Counter(next(iter(codes)) for word in _words(text) if len(codes := _known().get(word, ())) == 1)
    own = sum(alone[lexicon.code] for lexicon in READ)
    return own > alone.total() - own


def is_foreign(text: str) -> bool:
    """Whether a text has more words that only other languages than English, German, French and Spanish have."""
    known = [codes for word in _words(text) if (codes := _known().get(word)) is not None]
    own = {lexicon.code for lexicon in READ}
    others = sum(codes.isdisjoint(own) for codes in known)
    return others > sum(codes <= own for codes in known)


def _by_letters(text: str, language: str, letters: int) -> Ruling:
    if letters < 10:
        return _cannot(f"{letters} letters are too few")
    if language in ("ja", "zh"):
        kana = len(_KANA.findall(text))
        if kana * 10 < letters and (language == "ja" or kana):
            return _cannot("it could be Chinese or Japanese")
        if language == "zh" and kana:
            return Ruling(answer=Certainty.NO, why="it has Japanese letters")
        if language == "zh" and letters < 20:
            return _cannot(f"{letters} characters are too few")
    return Ruling(answer=Certainty.YES, why="it is written in its letters")


def _by_words(text: str, language: str) -> Ruling:
    sentences = [found for each in _SENTENCE.split(text) if (found := _words(each))]
    words = [word for sentence in sentences for word in sentence]
    if len(words) < _FEWEST:
        return _cannot(f"{len(words)} word{'' if len(words) == 1 else 's'} are too few")
    whole = _surely(words, _HITS)
    if whole is None:
        return _cannot("its words could be of several languages")
    parts = {found: sentence for sentence in sentences if (found := _surely(sentence, 2)) not in (None, whole)}
    if not parts:
        answer = Certainty.YES if whole == language else Certainty.NO
        return Ruling(answer=answer, why=f"its words are of the language {whole}")
    code, sentence = next(iter(parts.items()))
    return _cannot(f'part of it is in another language ({code}: "{" ".join(sentence[:12])}")')


def _words(text: str) -> list[str]:
    return [word.casefold().replace("\u2019", "'") for word in _WORD.findall(text)]


def _surely(words: list[str], fewest: int) -> str | None:
    """The language of these words, if enough of them are of one, and hardly any of another alone."""
    known = [codes for word in words if (codes := _known().get(word)) is not None]
    alone = Counter(next(iter(codes)) for codes in known if len(codes) == 1).most_common(2)
    if not alone or alone[0][1] < (fewest + 1) // 2:
        return None
    code, count = alone[0]
    if sum(code in codes for codes in known) < max(fewest, len(words) * _SHARE):
        return None
    return code if len(alone) == 1 or alone[1][1] <= count * _RIVAL else None


def _cannot(why: str) -> Ruling:
    return Ruling(answer=Certainty.CANNOT_TELL, why=why)
