"""Where words are found, and where they are not: as written, ignoring case, and as a person reads them."""

from __future__ import annotations

import pytest
import regex

from steadyhand.spec.patterns import inspect_pattern
from steadyhand.text_match import (
    PATIENCE_S,
    compiled,
    find,
    find_forbidden,
    most_steps,
    search,
    search_all,
    search_limit,
    search_now,
    shows_nothing,
    unrolled_size,
)

URGENT = "not that urgent"


def forbidden(text: str, piece: str, *, case_sensitive: bool = False) -> str | None:
    span = find_forbidden(text, piece, case_sensitive=case_sensitive)
    return None if span is None else text[slice(*span)]


@pytest.mark.parametrize(
    ("text", "piece", "found"),
    [
        ("ßx", "X", "x"),
        ("aßb", "SS", "ß"),
        ("ßßneedle", "NEEDLE", "needle"),
        ("ﬁne", "FI", "ﬁ"),
        ("İstanbul", "stanbul", "stanbul"),
        ("e\u0301e\u0301 needle", "Needle", "needle"),
        ("un cafe\u0301 noir", "CAFÉ", "cafe\u0301"),
    ],
)
def test_places_are_right_where_folding_changes_lengths(text, piece, found):
    span = find(text, piece, case_sensitive=False)
    assert span is not None
    assert text[slice(*span)] == found


@pytest.mark.parametrize(
    "text",
    [
        "Not that\nurgent",
        "not that\r\n   urgent",
        "not\tthat  urgent",
        "not\u00a0that\u202furgent",
        "not\u3000that\u2009urgent",
        "not\u200bthat\u200burgent",
        "not \u200bthat ur\u200bgent",
        "n\u200dot th\u2060at urg\ufeffent",
        "not\u3164that\u2800urgent",
        "not that ur\u00adgent",
        "not th\u0430t urgent",
        "not **that** urgent",
        "not that** urgent",
        "no*t* that __urgent",
        "not ***that*** ~~urgent",
        "not `that` urgent",
        "not [that](https://example.org/a_(b)?c=d) urgent",
        "not [that][1] urgent",
        "not that[^note] urgent",
        "not <b>that</b> urgent",
        "not that<br/>urgent",
        "not that<br class='wide'>urgent",
        "not<!-- so --> that urgent",
        "not that&nbsp;urgent",
        "n&#111;t&ensp;that ur&shy;gent",
        "not \x1b[1;31mthat\x1b[0m urgent",
        "not \x1b]8;;https://example.org\x07that\x1b]8;;\x1b\\ urgent",
        "not that ur\U000e0067\U000e0101gent",
        "not th\x08at\ufffb urgent",
        "\U0001d5fb\U0001d5fc\U0001d601 that \uff55\uff52\uff47\uff45\uff4e\uff54",
        "not that\\\nurgent",
        "not\n> that\n> urgent",
        "NOT **THAT**\nURGENT",
    ],
)
def test_what_a_reader_does_not_see_hides_nothing(text):
    assert forbidden(f"It is {text}, I think.", URGENT) == text


@pytest.mark.parametrize(
    "text",
    [
        "notthat urgent",
        "not that, urgent",
        "not that. Urgent",
        "not * that urgent",
        "not that\n* urgent",
        "not that\n- urgent",
        "not_that_urgent",
        "not ____ that urgent",
        "not that (urgent)",
        "not \u0430 urgent",
        "not that&comma; urgent",
        "not that &bogus; urgent",
        "",
    ],
)
def test_what_a_reader_sees_keeps_words_apart(text):
    assert forbidden(text, URGENT) is None


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        ("don't worry", "don\u2019t worry"),
        ("don't worry", "don\u2018t  worry"),
        ("don't worry", "don\u00b4t worry"),
        ("don't worry", "don`t worry"),
        ("don't worry", "don\\'t worry"),
        ("don't worry", "don&#39;t worry"),
        ("don't worry", "don&rsquo;t &#x77;orry"),
        ("don't worry", "Don\u2019t**\nworry"),
        ("don\u2019t worry", "don't worry"),
        ('say "all is well"', "say \u201call is well\u201d"),
        ("follow-up", "follow\u2011up"),
        ("follow-up", "follow\u2013up"),
        ("wait - and see", "wait \u2014 and see"),
        ("wait - and see", "wait\u2014and see"),
        ("wait -- and see", "wait \u2013 and see"),
        ("just wait...", "just wait\u2026"),
        ("STRASSE", "stra\u200bße"),
        ("straße", "STR**A**SSE"),
        ("café noir", "cafe\u0301\nnoir"),
        ("rm -rf", "rm  -rf"),
        ("don't `rm`", "don\u2019t `rm`"),
        ("see [the list](x)", "see  [the list](x)"),
        ("a < b", "a  < b"),
        ("soft\u00adware up\u200bdate", "software update"),
    ],
)
def test_quotation_marks_dashes_and_dots_in_any_style(piece, text):
    assert forbidden(f"({text})", piece) == text


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        ("**stop**", "stop"),
        ("snake_case", "snakecase"),
        ("follow-up", "follow up"),
        ("don't worry", "dont worry"),
        ("`ls`", "ls"),
        ("a < b", "a b"),
    ],
)
def test_markup_is_taken_out_of_the_text_only(piece, text):
    assert forbidden(text, piece) is None
    assert forbidden(piece, piece) == piece


@pytest.mark.parametrize(
    ("piece", "as_written", "otherwise"),
    [
        ("  ", "a  b", "a b"),
        ("\n", "a\nb", "a b"),
        ("\u200b", "a\u200bb", "ab"),
        ("\u2014", "well\u2014known", "well-known"),
        ("**", "**a**", "a"),
        ("\u2019", "it\u2019s", "it's"),
    ],
)
def test_a_piece_without_letters_is_compared_as_written(piece, as_written, otherwise):
    assert forbidden(as_written, piece) == piece
    assert forbidden(otherwise, piece) is None


@pytest.mark.parametrize(
    "text",
    [
        " \n\u200b",
        "\ufe0f\u0336",
        "\u2800\u3164",
        "\U000e0067",
        "\x1a",
        "&nbsp;&#8203;",
        "<!-- done -->",
        '""',
        "...",
        "\u2014",
        "```\n```",
    ],
)
def test_what_a_reader_does_not_see_says_nothing(text):
    assert shows_nothing(text)
    assert not shows_nothing(f"{text}a")


def test_case_alone_is_overridden():
    assert forbidden("not **that** urgent", URGENT, case_sensitive=True) == "not **that** urgent"
    assert forbidden("Not **that** urgent", URGENT, case_sensitive=True) is None


@pytest.mark.parametrize(
    "text",
    [
        "n" + "*" * 200_000,
        "n](" * 20_000,
        "n[" * 50_000,
        "not \n>" * 20_000,
        "not" + "\u200b" * 100_000,
        "n<!--" * 5_000,
        "n\x1b[0" * 20_000,
        "not&#8203;" * 10_000,
    ],
)
def test_hostile_markup_is_read_to_its_end(text):
    assert forbidden(text, URGENT) is None
    assert forbidden(f"{text} not *that* urgent", URGENT) is not None


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\bSTRASSE\b", "in der Straße 5", "Straße"),
        (r"straße \d", "IN DER STRASSE 5", "STRASSE 5"),
        ("(?:weg|strasse)", "Straße", "Straße"),
        ("café noir", "un cafe\u0301 noir", "cafe\u0301 noir"),
        ("cafe\u0301 noir", "un CAFÉ noir", "CAFÉ noir"),
        (r"caf. noir\b", "e\u0301, cafe\u0301 noir", "cafe\u0301 noir"),
        ("ﬁn", "FINE", "FIN"),
        ("cafe", "cafe\u0301", None),
        (r"order \d+", "ORDER 42", "ORDER 42"),
    ],
)
async def test_a_pattern_folds_letters_as_a_plain_piece_does(pattern, text, found):
    for span in (
        await search(pattern, text, case_sensitive=False),
        next(iter(await search_all(pattern, text, case_sensitive=False)), None),
        search_now(pattern, text, case_sensitive=False, timeout_s=1),
    ):
        assert (span and text[slice(*span)]) == found


@pytest.mark.parametrize(("pattern", "text"), [("strasse", "straße"), ("café", "cafe\u0301"), ("Stop", "stop")])
async def test_with_case_every_character_counts_as_it_stands(pattern, text):
    assert await search(pattern, text, case_sensitive=True) is None
    assert find(text, pattern, case_sensitive=True) is None


async def test_a_prohibition_reads_decomposed_letters_too():
    assert await search(r"(?s)\A(?!.*café)\s*\S", "Kein cafe\u0301.", case_sensitive=False) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "a*b", "a+b", "a?b", "a{2}b", "(?R)", "(a)\\1", r"\p{L}", r"\X", "(?=a)b", "(?i)a", "(?P<a>b)", "(?:stop){e}",
        r"\L<a>", "[a-z]*", "[[a]]", r"[\w]", "\\",
    ],
)  # fmt: skip
def test_a_pattern_that_may_repeat_has_no_bound(pattern):
    assert most_steps(pattern) == float("inf")


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [(r"\bstop\b", 8), ("call|dial|ring", 14), ("(?:a|b)(?:c|d)", 4 * 14), ("[^abc] 911", 10), (r"\(stop\.", 8)],
)
def test_without_repetition_the_steps_of_a_search_are_bounded(pattern, steps):
    assert most_steps(pattern) == steps


def test_a_search_with_too_many_ways_to_go_is_watched():
    alternatives = "(a|a)" * 40 + "b"
    assert most_steps(alternatives) > 2**40
    with pytest.raises(TimeoutError):
        search_now(alternatives, "a" * 60, case_sensitive=True, timeout_s=0.01)
    assert most_steps("(a|" * 2000 + "b" + ")" * 2000) < float("inf")


def test_a_bounded_search_finds_what_a_watched_one_finds():
    text = "Stop it. " * 40
    for pattern in (r"\bSTOP\b", "it|stop", "(?:x|i)t", "[sS]top it", "nowhere"):
        watched = compiled(pattern, case_sensitive=False).search(text, timeout=1)
        found = search_now(pattern, text, case_sensitive=False, timeout_s=1)
        assert found == (watched and watched.span())


async def test_a_search_that_is_given_up_says_so():
    assert PATIENCE_S == 1.0  # what the other tests of slow patterns do not wait for
    with search_limit(0.05), pytest.raises(TimeoutError):
        await search("(a+)+$", "a" * 5000 + "!", case_sensitive=False)
    with search_limit(0.05), pytest.raises(TimeoutError):
        await search_all("(a+)+$", "é" + "a" * 5000 + "!", case_sensitive=False)


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("a", 1),
        ("a{5}", 5),
        ("a{5,9}b", 6),
        ("a{0,99999999}", 1),
        ("(?:ab){10}", 50),
        (r"\({7}", 7),
        ("[)(]{7}", 7),
    ],
)
def test_repeats_are_counted_as_they_are_compiled(pattern, size):
    assert unrolled_size(pattern) == size


HUGE = [
    "a{99999999}",
    "(?:(?:a{999}){999}){999}",
    "x{2}{99999}{99999}",
    "a" * 60_000,
    r"\({99999}",
    "a{" + "9" * 60 + "}",
]


@pytest.mark.parametrize("pattern", HUGE, ids=lambda pattern: pattern[:20])
def test_a_pattern_that_would_fill_the_memory_is_not_compiled(pattern):
    with pytest.raises(regex.error, match="too large"):
        compiled(pattern, case_sensitive=False)
    assert "too large" in (inspect_pattern(pattern).error or "")
