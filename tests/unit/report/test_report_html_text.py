"""Other people's text in a page is shown, and does nothing else."""

from __future__ import annotations

import re

import pytest

from steadyhand.report.html.template import environment, fragment
from steadyhand.report.html.text import MOST, Highlight, chart_data, diff, excerpt, line, shown, value, written_out
from support.report_runs import HOSTILE


@pytest.mark.parametrize("make", [shown, line, value, lambda text: value({text: [text]})])
def test_hostile_text_becomes_no_element(make):
    html = str(make(HOSTILE))
    tags = set(re.findall(r"<\s*/?\s*([a-zA-Z]+)", html))
    assert tags <= {"bdi", "span", "details", "summary", "p"}
    assert not re.search("[\u202e\u202c\u200b\x1b\x00]", html)


def test_a_hidden_character_is_named():
    assert 'title="RIGHT-TO-LEFT OVERRIDE">U+202E<' in shown("a\u202eb")
    assert written_out("a\u202eb\r\nc") == "a\\u202eb\nc"
    assert chart_data({"a": ["\u202e", 1]}) == {"a": ["\\u202e", 1]}


def test_whatever_a_template_prints_is_escaped_and_written_out_without_its_asking():
    found = environment().from_string("<p title='{{ x }}'>{{ x }}</p>").render(x="<b>'\u202e")
    assert found == "<p title='&lt;b&gt;&#39;\\u202e'>&lt;b&gt;&#39;\\u202e</p>"


def test_a_misspelt_name_in_a_template_is_an_error():
    with pytest.raises(Exception, match="'nothing' is undefined"):
        environment().from_string("{{ nothing }}").render()


def test_a_long_text_is_folded_and_a_very_long_one_cut():
    assert "<details" not in shown("x" * 2_300)
    folded = shown("x" * 5_000)
    assert "show all 5\u202f000 characters" in folded
    assert folded.count("x") == 5_000
    cut = shown("x" * 1_000_000)
    assert cut.count("x") < MOST + 50
    assert "980000 more characters are in the run record only." in cut


def test_marks_are_in_the_text_and_the_longer_one_wins_at_the_same_place():
    html = shown("say <STOP> now", [Highlight(4, 5, "hit passed", "short"), Highlight(4, 10, "hit failed", 'a "name"')])
    assert html == ('<bdi>say <mark class="hit failed" title="a &#34;name&#34;">&lt;STOP&gt;</mark> now</bdi>')


def test_a_mark_past_the_end_or_in_what_is_cut_breaks_nothing():
    beyond = [Highlight(1, 9, "hit"), Highlight(5, 6, "hit")]
    assert shown("ab", beyond) == '<bdi>a<mark class="hit" title="">b</mark></bdi>'
    assert "<mark" not in shown("x" * 50_000, [Highlight(40_000, 40_010, "hit")])


def test_the_excerpt_of_a_scenario_ends_with_its_block():
    source = "a: 1\nchecks:\n  - name: x\n    pattern: |\n      p\n\n  - name: y\n"
    assert [(each.number, each.text, each.here) for each in excerpt(source, 3)] == [
        (3, "  - name: x", True),
        (4, "    pattern: |", False),
        (5, "      p", False),
    ]
    assert excerpt(source, 0) == excerpt(source, 99) == []


def test_a_diff_has_its_kinds():
    assert [(each.kind, each.text) for each in diff("a\nb", "a\nc")] == [
        ("hunk", "@@ -1,2 +1,2 @@"),
        ("same", " a"),
        ("removed", "-b"),
        ("added", "+c"),
    ]
    assert diff(None, "new")[-1].text == "+new"


def test_a_fragment_is_markup():
    assert "__html__" in dir(fragment("macros.html"))
