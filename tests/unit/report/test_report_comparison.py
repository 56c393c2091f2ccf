"""How comparisons and gates are shown. What agents say is data, wherever it is shown."""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from steadyhand.judging.gate import hold_against
from steadyhand.judging.run_comparison import MessageExcerpt, TrialExcerpt, compare_sides
from steadyhand.records.evaluation import Verdict
from steadyhand.report.comparison import render_comparison
from steadyhand.report.gate import github_annotations, render_gate
from steadyhand.report.markdown import code, comparison_markdown, fenced, gate_markdown
from steadyhand.report.table import Page
from support.sides import sample, side

HOSTILE = "::error::pwned\n```\n# Heading <img src=x onerror=alert(1)> | @everyone [a](javascript:b) \x1b[2J`` ` $$"
NOW = datetime(2026, 11, 17, tzinfo=UTC)


def compared(scenario_id="s", name="b", said="fine"):
    found = compare_sides([side(sample(scenario_id, 20)), side(sample(scenario_id, 2, 18), name=name, run_id="r")])
    (each,) = found.comparisons
    told = TrialExcerpt(
        scenario_id=scenario_id,
        trial=3,
        verdict=Verdict.FAILED,
        reason=said,
        messages=(MessageExcerpt(role="user", content="Go?"), MessageExcerpt(role="assistant", content=said, cut=7)),
        left_out=2,
    )
    (change,) = each.changes
    each = msgspec.structs.replace(each, changes=[msgspec.structs.replace(change, b=told)])
    return msgspec.structs.replace(found, comparisons=[each])


def gated(**more):
    before = side(sample("s", 20), sample("gone", 20), name="base")
    return hold_against(before, side(sample("s", 2, 18), name="now"), now=NOW, **more)


def test_a_comparison_on_the_terminal():
    shown = "\n".join(render_comparison(compared(), Page(width=110)))
    assert "B is worse than A: pass rate -90.0 points" in shown
    assert re.search(r"s +20/20 +2/20 +-90\.0 points", shown)
    assert "B  trial 3 failed: fine" in shown
    assert "   | fine" in shown


def test_what_cannot_be_told_says_what_would():
    found = compare_sides([side(sample("s", 3)), side(sample("s", 2, 1), name="b")])
    shown = " ".join(render_comparison(found, Page(width=200)))
    assert "The data cannot tell whether B is better or worse than A" in shown
    assert re.search(r"would take about \d+ trials per scenario and side", shown)
    same = compare_sides([side(sample("s", 3)), side(sample("s", 3), name="b")])
    assert "No difference was seen; more than" in " ".join(render_comparison(same, Page(width=200)))


def test_no_line_on_the_terminal_is_a_command_or_a_control_sequence():
    for width in range(40, 130, 7):
        lines = list(render_comparison(compared(HOSTILE, HOSTILE, HOSTILE), Page(width=width)))
        assert not [line for line in lines if line.lstrip().startswith("::")]
        assert "\x1b" not in "".join(lines)


def outside_code(lines):
    """Markdown without its code blocks and code spans."""
    fence, kept = None, []
    for line in "\n".join(lines).split("\n"):
        opening = re.match(r"(`{3,})", line)
        if fence is None and opening:
            fence = opening.group(1)
        elif fence is not None and line == fence:
            fence = None
        elif fence is None:
            kept.append(re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", line))
    assert fence is None
    return "\n".join(kept)


def test_hostile_text_is_code_in_markdown():
    shown = outside_code(comparison_markdown(compared(HOSTILE, HOSTILE, HOSTILE)))
    for part in ("<img", "@everyone", "[a](", "# Heading", "::error"):
        assert part not in shown, part


def test_hostile_text_keeps_its_cell():
    row = next(
        line for line in comparison_markdown(compared(HOSTILE, HOSTILE)) if line.startswith("| ") and "20/20" in line
    )
    assert len(re.findall(r"(?<!\\)\|", row)) == 8


@pytest.mark.parametrize("text", ["`", "``", "a`b", "`a", "a\nb", "|", "\\|"])
def test_a_code_span_holds_any_text(text):
    span = code(text)
    mark = re.match(r"`+", span)
    assert mark is not None
    inner = span[len(mark.group()) : -len(mark.group())]
    assert mark.group() not in re.findall(r"`+", inner)
    assert "\n" not in span


def test_a_fence_is_longer_than_any_inside():
    first, *_, last = "\n".join(fenced("a\n````\nb")).split("\n")
    assert (first, last) == ("`````text", "`````")


def test_transcripts_say_what_is_left_out():
    shown = "\n".join(comparison_markdown(compared()))
    assert "(2 earlier messages left out)\nuser: Go?\nassistant: fine (and 7 more characters)" in shown


def test_a_gate_on_the_terminal():
    shown = "\n".join(render_gate(gated(), Page()))
    assert shown.startswith("gate failed: run now, baseline base\n")
    assert "  drop: the pass rate dropped\n    - s 20/20 to 2/20, p = " in shown
    assert "  vanished-scenario: in the baseline, but not in the run\n    - gone\n" in shown
    assert "fails with a chance of at most 0.05" in shown


def test_a_gate_as_a_step_summary():
    shown = "\n".join(gate_markdown(gated()))
    assert shown.startswith("# Gate: failed\n")
    assert "- `gone`" in shown


def test_annotations_stand_at_the_line_of_the_scenario():
    lines = list(github_annotations(gated(), Path("/work")))
    assert lines[0].startswith(
        "::error file=scenarios/s.yaml,line=3,title=steadyhand gate%3A drop::the pass rate dropped: s"
    )


def test_an_annotation_is_one_command_whatever_the_names_are():
    before = side(sample("a", 20, checks=("x\r\n::set-env name=A::b%0A",)))
    (line,) = github_annotations(hold_against(before, side(sample("a", 20)), now=NOW), Path("/work"))
    assert line.count("\n") == line.count("\r") == 0
    assert line.endswith("a: x%0A::set-env name=A::b%250A")
