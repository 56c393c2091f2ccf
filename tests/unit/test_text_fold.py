"""Every spelling in the fold's table is found, in every script, at its place; and what a reader tells apart is not."""
# ruff: noqa: RUF001

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from steadyhand.language.answer import Certainty
from steadyhand.language.keywords import keyword_readings, mentions
from steadyhand.look_alikes import mixes_scripts
from steadyhand.text_fold import aligned, as_read, fold
from steadyhand.text_match import find_forbidden, is_forbidden

Transformation = Callable[[str, Random], str]
RANDOM = st.integers(0, 2**32).map(Random)

SPACES = [" ", "\n", "\t", "\u00a0", "\u3000", "\r\n", "\u200b", "  ", "\u2009"]
IGNORABLE = [
    *"\u00ad\u034f\u061c\u180e\u200c\u200d\u200e\u202d\u2060\u2064\ufe0f\ufeff\U000e0067\U000e0101\u115f\u1160\uffa0\u3164"
]
HARAKAT = [*"\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0656\u0670\u06d6\u0610\u08f0"]
NIQQUD = [*"\u05b0\u05b1\u05b4\u05b7\u05b8\u05bc\u05bf\u05c1\u05c2\u0591\u05bd\u05c7"]
STROKES = [*"\u0335\u0336\u0337\u0338\u0332\u20d2"]
LOOK_ALIKES = dict(zip("acehijopsxyABCEHIJKMOPSTXY", "асеһіјорѕхуАВСЕНІЈКМОРЅТХУ", strict=True))
GREEK_LOOK_ALIKES = dict(zip("aivopuxABEHIKMNOPTXYZ", "αινορυχΑΒΕΗΙΚΜΝΟΡΤΧΥΖ", strict=True))
QUOTES = {
    "'": "\u2018\u2019\u02bc\u2032\u00b4\uff07\u055a",
    '"': "\u201c\u201d\u201e\u00ab\u00bb\uff02",
    "-": "\u2010\u2011\u2013\u2014\u2212\uff0d",
}


def between(inserted: list[str]) -> Transformation:
    """Inserted between two letters."""

    def transformation(piece: str, random: Random) -> str:
        parts = [piece[0]]
        for before, letter in itertools.pairwise(piece):
            both = before.isalpha() and letter.isalpha()
            parts += [random.choice(inserted) if both and random.random() < 0.5 else "", letter]
        return "".join(parts)

    return transformation


def after(inserted: list[str]) -> Transformation:
    """Inserted after any letter."""
    return lambda piece, random: "".join(
        letter + (random.choice(inserted) if letter.isalpha() and random.random() < 0.6 else "") for letter in piece
    )


def instead(others: Mapping[str, Sequence[str]]) -> Transformation:
    """Put in the place of a character."""
    return lambda piece, random: "".join(
        random.choice(others[letter]) if letter in others and random.random() < 0.6 else letter for letter in piece
    )


def one_form_of(first: int, last: int) -> dict[str, str]:
    """The other forms of characters, by what Unicode says they are compatible with."""
    forms: dict[str, str] = {}
    for char in map(chr, range(first, last + 1)):
        plain = unicodedata.normalize("NFKC", char)
        if len(plain) == 1 and plain != char:
            forms[plain] = forms.get(plain, "") + char
    return forms


def mixed_in(others: dict[str, str]) -> Transformation:
    """In the place of letters, but never of all letters of a word."""

    def transformation(piece: str, random: Random) -> str:
        words: list[str] = []
        for word in piece.split(" "):
            kept = random.choice([at for at, letter in enumerate(word) if letter.isalpha()])
            words.append(
                "".join(others.get(letter, letter) if at != kept else letter for at, letter in enumerate(word))
            )
        return " ".join(words)

    return transformation


def references(piece: str, random: Random) -> str:
    return "".join(random.choice([f"&#{ord(char)};", f"&#x{ord(char):x};", char]) for char in piece)


def in_any_case(piece: str, random: Random) -> str:
    return "".join(random.choice([char, char.upper(), char.lower()]) for char in piece)


def in_turkish_capitals(piece: str, _random: Random) -> str:
    return piece.replace("i", "\u0130").replace("\u0131", "I").upper()


def emphasis(piece: str, random: Random) -> str:
    mark = random.choice(["*", "**", "~~", "`"])
    return " ".join(f"{mark}{word}{mark}" if random.random() < 0.5 else word for word in piece.split(" "))


def white_space(piece: str, random: Random) -> str:
    return "".join(random.choice(SPACES) if char == " " else char for char in piece)


def half_width(piece: str, random: Random) -> str:
    forms = one_form_of(0xFF61, 0xFF9F) | {"\u3099": "\uff9e\u309b\u3099", "\u309a": "\uff9f\u309c\u309a"}
    return instead(forms)(unicodedata.normalize("NFD", piece), random)


ANYWHERE: dict[str, Transformation] = {
    "as written": lambda piece, _: piece,
    "case": in_any_case,
    "decomposed": lambda piece, _: unicodedata.normalize("NFD", piece),
    "composed": lambda piece, _: unicodedata.normalize("NFC", piece),
    "ignorable": between(IGNORABLE),
    "references": references,
    "white space": white_space,
    "emphasis": emphasis,
    "quotation marks and dashes": instead(QUOTES),
}
UNSPACED = {
    "spaces": between(SPACES),
    "compatibility forms": instead(one_form_of(0xF900, 0xFAFF) | one_form_of(0x2F00, 0x2FD5)),
}
SCRIPTS: dict[str, tuple[str, dict[str, Transformation]]] = {
    "English": (
        "abcdefghijklmnopqrstuvwxyzABEHIKMOPSTXY'-0123456789",
        {
            "full width": instead(one_form_of(0xFF01, 0xFF5E)),
            "styled": instead(one_form_of(0x1D400, 0x1D7FF) | one_form_of(0x2100, 0x214F)),
            "in circles": instead(one_form_of(0x249C, 0x24E9)),
            "in boxes": instead({chr(97 + at): chr(0x1F150 + at) + chr(0x1F170 + at) for at in range(26)}),
            "small capitals": instead(dict(zip("abcdefghijklmnoprstuvwyz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", strict=True))),
            "strokes": after(STROKES),
            "digits": instead({str(at): chr(0x660 + at) + chr(0x6F0 + at) + chr(0x966 + at) for at in range(10)}),
            "Cyrillic look-alikes": mixed_in(LOOK_ALIKES),
            "Greek look-alikes": mixed_in(GREEK_LOOK_ALIKES),
        },
    ),
    "German and French": ("abcdefgäöüßéèêçñ", {"strokes": after(STROKES)}),
    "Turkish": ("abcçdefgğhıijklmnoöprsştuüvyz", {"capitals": in_turkish_capitals}),
    "Vietnamese": ("aăâbcdđeêghiklmnoôơpqrstuưvxyáàảãạấầẩẫậ", {}),
    "Russian": (
        "абвгдежзийклмнопрстуфхцчшщъыьэюяАВЕКМНОРСТХ",
        {
            "stress marks": instead({vowel: [f"{vowel}\u0301"] for vowel in "аоуыэюяи"}),
            "Latin look-alikes": mixed_in({other: letter for letter, other in LOOK_ALIKES.items()}),
            "ё": instead({"е": "ё"}),
        },
    ),
    "Greek": (
        "αβγδεζηθικλμνξοπρσςτυφχψω",
        {
            "accents": instead({"α": "άὰἀᾳ", "ε": "έ", "η": "ήῃ", "ι": "ίϊΐ", "ο": "ό", "υ": "ύϋΰ", "ω": "ώ"}),
            "Latin look-alikes": mixed_in({other: letter for letter, other in GREEK_LOOK_ALIKES.items()}),
        },
    ),
    "Arabic": (
        "ابتثجحخدذرزسشصضطظعغفقكلمنهويءةىؤئ",
        {
            "vowel signs": after(HARAKAT),
            "tatweel": between(["\u0640", "\u0640\u0640\u0640"]),
            "presentation forms": instead(one_form_of(0xFE80, 0xFEFC)),
            "hamza on alef": instead({"ا": "أإآٱ"}),
            "Persian letters": instead({"ك": "ک", "ي": "ی", "ى": "ی"}),
        },
    ),
    "Persian and Urdu": (
        "ابپتثجچحخدذرزژسشصضطظعغفقکگلمنوهی",
        {"Arabic letters": instead({"ک": "ك", "ی": "يى", "ه": "ہھ"})},
    ),
    "Hebrew": (
        "אבגדהוזחטיכלמנסעפצקרשתםןץףך'-",
        {
            "vowel signs": after(NIQQUD),
            "presentation forms": instead({"ש": "\ufb2a\ufb2b", "א": "\ufb2e\ufb30", "ב": "\ufb31", "ת": "\ufb4a"}),
            "own marks": instead({"'": "\u05f3", "-": "\u05be"}),
        },
    ),
    "Chinese": ("不用担心这没有关系可以等到明天再说吧一人大", UNSPACED),
    "Japanese": ("心配しないで大丈夫ガギグパピプコーヒーアイウンァッ々、。", UNSPACED | {"half width": half_width}),
    "Thai": ("กขคงจฉชซดตถทนบปผฝพฟมยรลวศสหอ", UNSPACED),
    "Lao": ("ກຂຄງຈສຊຍດຕຖທນບປຜຝພຟມຢຣລວຫອຮ", UNSPACED),
    "Khmer": ("កខគឃងចឆជឈញដឋឌឍណតថទធនបផពភម", UNSPACED),
    "Burmese": ("ကခဂဃငစဆဇဈညတထဒဓနပဖဗဘမယရလဝသ", UNSPACED),
    "Korean": ("가나다라마바사걱정하지세요한국", {}),
    "Hindi": ("कखगघचछजझटठडढतथदधनपफबभमयरलवशषसह", {}),
}  # fmt: skip
CASES = [(script, name) for script, (_, own) in SCRIPTS.items() for name in (*ANYWHERE, *own)]


ONE_WAY = {
    name for _, name in CASES if name in {"emphasis", "references", "in boxes", "in circles"} or "look-alikes" in name
}
"""Spellings that a forbidden text itself may not have."""


def pieces(script: str) -> st.SearchStrategy[str]:
    letters = SCRIPTS[script][0]
    ends = [char for char in letters if char.isalpha()]
    word = st.builds(
        lambda first, middle, last: first + middle + last,
        st.sampled_from(ends), st.text(letters, max_size=4), st.sampled_from(ends),
    )  # fmt: skip
    return st.lists(word, min_size=1, max_size=2).map(" ".join)


@pytest.mark.parametrize(("script", "name"), CASES, ids=lambda each: each.replace(" ", "-"))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_every_spelling_of_a_forbidden_text_is_found_at_its_place(script, name, data):
    piece = data.draw(pieces(script))
    text = (ANYWHERE | SCRIPTS[script][1])[name](piece, data.draw(RANDOM))
    found = find_forbidden(f"({text})", piece, case_sensitive=False)
    assert found is not None
    assert found == (1, 1 + len(text)) or name == "emphasis"
    assert is_forbidden(text, piece, case_sensitive=False)
    assert find_forbidden(f"({piece})", text, case_sensitive=False) is not None or name in ONE_WAY


@pytest.mark.parametrize("script", SCRIPTS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_spellings_in_one_another_are_found(script, data):
    piece = text = data.draw(pieces(script))
    every = {**SCRIPTS[script][1], **{name: ANYWHERE[name] for name in ("decomposed", "white space", "ignorable")}}
    random = data.draw(RANDOM)
    chosen = data.draw(st.lists(st.sampled_from(sorted(every)), unique=True, max_size=3))
    # Look-alikes are mixed in while the words have their own letters, and nothing comes between a letter and its mark.
    last = ("half width", "decomposed")
    for name in sorted(chosen, key=lambda each: (each in last, "look-alikes" not in each))[
        : 1 if "capitals" in chosen else 3
    ]:
        text = every[name](text, random)
    assert is_forbidden(f"({text})", piece, case_sensitive=False)


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        ("cop", "сор"),  # all Cyrillic
        ("сор", "cop"),
        ("a test", "а test"),
        ("don't worry", "d o n ' t  w o r r y"),
        ("don't worry", "dont worry"),
        ("don't worry", "d0n't w0rry"),
        ("not that", "notthat"),
        ("therapist", "the rapist"),
        ("cafe", "café"),
        ("resume", "résumé"),
        ("schon", "schön"),
        ("Muller", "Müller"),
        ("Mueller", "Müller"),
        ("sol", "søl"),
        ("bear", "beаж"),
        ("мир", "миф"),
        ("бой", "бои"),
        ("лес", "лис"),
        ("كلب", "قلب"),
        ("حرب", "جرب"),
        ("כלב", "גלב"),
        ("ひらがな", "ヒラガナ"),
        ("かき", "かぎ"),
        ("ハハ", "パパ"),
        ("国", "國"),
        ("日本", "日、本"),
        ("緊急ではない", "* 緊急\n* ではない"),
        ("緊急ではない", "- 緊急\n- ではない"),
        ("걱정하지", "걱정 하지"),
        ("한국", "항국"),
        ("102 mg", "10² mg"),
        ("11 mg", "1½ mg"),
        ("12", "1½"),
        ("5 mg", "5 μg"),
        ("™", "atmosphere"),
        ("②", "2"),
        ("\u0640", "نص"),
        ("\u064e", "نص"),
        ("\u115f", "a"),
        ("ไม่ใช่", "ใช่"),
    ],
)
def test_what_a_reader_tells_apart_is_not_found(piece, text):
    assert find_forbidden(text, piece, case_sensitive=False) is None


@pytest.mark.parametrize(
    ("piece", "text", "found"),
    [
        ("1/2 tablet", "take ½ tablet", "½ tablet"),
        ("10^2", "10²", "10²"),
        ("CO2", "CO₂!", "CO₂"),
        ("使用Python编程", "请使用 Python 编程。", "使用 Python 编程"),
        ("\u2f64\u2f64", "(用用)", "用用"),
        ("心配しないで", "心配 **し**\n> ないで", "心配 **し**\n> ないで"),
        ("لا تقلق", "قال: لا تَقْلَقْ!", "لا تَقْلَقْ"),
        ("don't worry", "1️⃣ dоn&rsquo;t&nbsp;wоrry", "dоn&rsquo;t&nbsp;wоrry"),
        ("straße", "DIE STRASSE &amp; İ", "STRASSE"),
        ("скачай Zoom", "скaчай Zооm", "скaчай Zооm"),
        ("TNFα", "**TNF**α", "TNF**α"),
        ("don't", "xжdоn't", "dоn't"),
        ("SMS", "SМSки", "SМS"),
    ],
)
def test_the_place_is_that_in_the_text_itself(piece, text, found):
    span = find_forbidden(text, piece, case_sensitive=False)
    assert span is not None
    assert text[slice(*span)] == found


WIDE = st.lists(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from(
            [*"aA1ßİıéё²½ \n*'&;", *SPACES, *IGNORABLE, *HARAKAT, *NIQQUD, *STROKES, "&amp;", "&#x301;", "\u0301"]
        ),
        st.sampled_from("心ｶﾞﾊ゛ﾟコกລກ가한ㅎ"),
    ),
    max_size=30,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(text=WIDE, case_sensitive=st.booleans())
@example(text="e\u00ad\u0301", case_sensitive=False)
@example(text="5²½\u200b心 a", case_sensitive=False)
def test_every_character_of_the_fold_has_its_place(text, case_sensitive):
    read = as_read(text, case_sensitive=case_sensitive)
    letters, spans = aligned(text, case_sensitive=case_sensitive)
    assert len(letters) == len(spans) == len(read)
    assert letters == read or mixes_scripts(fold(text, case_sensitive=True)) or mixes_scripts(letters)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)


@pytest.mark.parametrize("case_sensitive", [False, True])
def test_case_alone_is_told_apart_where_case_matters(case_sensitive):
    for piece, text in (
        ("İstanbul", "Istanbul"),
        ("Résumé", "Re\u0301sume\u0301"),
        ("Don't", "Dоn’t"),
        ("كتاب", "كِتاب"),
    ):
        assert find_forbidden(text, piece, case_sensitive=case_sensitive) == (0, len(text))
        assert is_forbidden(text.swapcase(), piece, case_sensitive=case_sensitive) is (
            not case_sensitive or text.swapcase() == text
        )


@pytest.mark.parametrize(
    ("text", "keyword", "said"),
    [
        ("It is sоlved, thanks", "solved", Certainty.YES),
        ("It is nоt solved", "solved", Certainty.NO),
        ("It is n\u200bot solved", "solved", Certainty.NO),
        ("It isn&#39;t solved", "solved", Certainty.NO),
        ("解決\nしました", "解決しました", Certainty.YES),
        ("ｶｲｹﾂ", "カイケツ", Certainty.YES),
        ("تم حَلّ المشكلة", "تم حل المشكلة", Certainty.YES),
        ("ÇÖZÜLDÜ İYİ", "çözüldü iyi", Certainty.YES),
    ],
)
def test_keywords_are_compared_in_the_fold(text, keyword, said):
    (found,) = keyword_readings(text, [keyword])
    assert found.reading.answer is said


def test_a_keyword_beside_a_script_without_spaces_is_a_whole_word():
    assert mentions("問題 solved です", "solved")
    assert not mentions("問題 unsolved です", "solved")
