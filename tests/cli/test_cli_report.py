"""`steadyhand report`, and `--html` on the commands that run scenarios."""

from __future__ import annotations

import shutil

import pytest

from steadyhand.report.html.template import SCRIPTS, asset
from support.shell import RIGHT, UNTIMED


@pytest.fixture
def ran(shell):
    shell.write("untimed.scenario.yaml", UNTIMED)
    shell.write("right.yaml", RIGHT)
    ended = shell("run", "untimed.scenario.yaml", "--model", "scripted/right.yaml", "--html", "out/run.html")
    assert ended.code == 0, ended.err
    return shell


def test_run_writes_the_page(ran):
    page = (ran.folder / "out" / "run.html").read_text(encoding="utf-8")
    assert "The scenario passed" in page
    assert list((ran.folder / "out").iterdir()) == [ran.folder / "out" / "run.html"]


def test_report_writes_what_is_asked_for(ran):
    ended = ran("report", "last", "--html", "again.html", "--markdown", "short.md")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "wrote again.html\nwrote short.md\n"
    assert (ran.folder / "again.html").read_bytes() == (ran.folder / "out" / "run.html").read_bytes()
    assert (ran.folder / "short.md").read_text(encoding="utf-8").startswith("## The scenario passed\n")


def test_stdout_gets_the_same_bytes(ran):
    assert ran("report", "last", "--markdown", "-").out.startswith("## The scenario passed\n")
    page = ran("report", "last", "--html", "-").out
    assert all(asset(name) in page for name in SCRIPTS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to write; give --html FILE, --markdown FILE or --pdf FILE"),
        (("--pdf", "-"), "a PDF cannot"),
        (("--html", "-", "--markdown", "-"), "only one of --html and --markdown"),
        (("--html", "page.html", "--runs", "elsewhere"), "there are no runs in elsewhere yet"),
    ],
)
def test_a_mistake_is_reported_in_one_line(ran, arguments, said):
    ended = ran("report", "last", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_a_page_that_cannot_be_written_costs_the_report_and_nothing_else(ran):
    ran.write("taken", "a file, not a folder")
    ended = ran("report", "last", "--html", "taken/page.html", "--markdown", "short.md")
    assert ended.code == 3
    assert "cannot write the report taken/page.html" in ended.err
    assert (ran.folder / "short.md").exists()


def test_without_a_browser_a_pdf_is_refused_with_the_way_out(ran):
    ended = ran("report", "last", "--pdf", "run.pdf", PATH="/nowhere")
    assert ended.code == 2
    assert "none of them is installed; install one, or write the report with --html" in ended.err
    assert not (ran.folder / "run.pdf").exists()


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium is installed")
def test_a_pdf_is_printed(ran):
    ended = ran("report", "last", "--pdf", "run.pdf")
    assert ended.code == 0, ended.err
    assert (ran.folder / "run.pdf").read_bytes().startswith(b"%PDF")


def test_a_dry_run_has_no_page(ran):
    ended = ran("run", "untimed.scenario.yaml", "--model", "scripted/right.yaml", "--dry-run", "--html", "x.html")
    assert ended.code == 2
    assert "--dry-run produces no report; drop it or drop --html" in ended.err
