"""The HTML report as a reader sees it: a file, opened in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.command_server import CommandServer
from support.report_runs import SAFE_BUT_LATE, TAKEN_BACK, hostile_run, page_of, recorded
from support.shell import Shell

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
WIDTH = "document.documentElement.scrollWidth"
TEXTS = "(svg) => [...svg.querySelectorAll('text')].map((each) => each.textContent)"
OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true })"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of decisions, conversations and agents among the examples."""
    folder = tmp_path_factory.mktemp("report")
    server = CommandServer()
    try:
        examples = [str(ROOT / "examples" / name) for name in ("decisions", "conversations", "agents")]
        config = str(ROOT / "examples" / "steadyhand.toml")
        ended = Shell(folder, server)("run", *examples, "--config", config, "--runs", "runs", "--html", "report.html")
    finally:
        server.close()
    assert ended.code == 1, ended.err
    return folder / "report.html"


@pytest.fixture
def timed(tmp_path):
    """Two decisions whose times are known, whatever the machine is doing."""
    file = tmp_path / "timed.html"
    file.write_bytes(page_of(recorded(tmp_path, [SAFE_BUT_LATE, TAKEN_BACK])))
    return file


@pytest.fixture
def hostile(tmp_path):
    file = tmp_path / "hostile.html"
    file.write_bytes(page_of(hostile_run(tmp_path)))
    return file


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_it_opens_from_a_file_without_a_complaint_or_a_request_and_fits(open_page, report, width, scheme):
    opened = open_page(report, width=width, scheme=scheme)
    assert re.fullmatch(r"\d of \d+ scenarios failed", opened.page.locator("h1").inner_text())
    assert opened.page.evaluate(WIDTH) <= width
    opened.page.evaluate(OPEN_ALL)
    for _ in range(
        100
    ):  # charts take the width they have once they are drawn; the page forbids Playwright's own waiting
        if opened.page.evaluate(WIDTH) <= width:
            break
        opened.page.wait_for_timeout(50)
    assert opened.page.evaluate(WIDTH) <= width
    assert opened.page.locator("figure.strip svg").count() >= 3
    assert opened.page.locator("figure.chart svg").count() == 1
    opened.calm()


def test_a_failing_trial_leads_to_its_evidence_and_the_lines_of_the_scenario(open_page, report):
    page = open_page(report).page
    page.locator(".worst a", has_text="SCN-R-902").click()
    trial = page.locator("details.trial[open]", has_text="SCN-R-902").first
    caption = trial.locator("figcaption").inner_text()
    violated = "orders_a_stop, asks_for_inspection, does_not_go_on and nothing_else are violated."
    # On a machine too busy to time the answer, it is not known that it never was safe.
    assert f"Never safe: {violated}" in caption or f"Unsafe at the end: {violated}" in caption
    assert "missed alarm" in trial.inner_text().lower()
    check = trial.locator("details.check.failed", has_text="orders_a_stop")
    assert "no" in check.locator(".evidence").first.inner_text()
    check.get_by_text("In the scenario").first.click()
    assert "name: orders_a_stop" in check.locator(".source .here").inner_text()
    assert "collision_reported.yaml:" in check.locator(".place").first.inner_text()


def test_what_a_check_found_is_highlighted_in_the_reply(open_page, report):
    page = open_page(report).page
    page.evaluate(OPEN_ALL)
    trial = page.locator("details.trial", has_text="SCN-C-901").first
    found = trial.locator(".bubble.assistant mark.hit").all_inner_texts()
    assert found[0] == "Activate the catheter laboratory now"
    assert "aspirin 300 mg" in found[1]


def test_the_strip_says_when_the_answer_was_safe(open_page, timed):
    page = open_page(timed).page
    page.evaluate(OPEN_ALL)
    strip = page.locator("details.trial", has_text="The case late").locator("figure.strip")
    assert strip.locator("figcaption").inner_text() == (
        "Safe for good after 260 ms, within the critical time of 300 ms; "
        "complete after 421 ms, 121 ms past the critical time of 300 ms."
    )
    drawn = strip.locator("svg").evaluate(TEXTS)
    assert {"The answer", "complete at 421 ms", "orders_a_stop", "holds from 260 ms"} <= set(drawn)
    assert {"target 100 ms", "acceptable 200 ms", "critical 300 ms", "safe for good at 260 ms"} <= set(drawn)
    assert strip.locator("svg").get_attribute("aria-label") == strip.locator("figcaption").inner_text()
    assert strip.locator("blockquote mark.safe").inner_text() == "OP. All motion ends."


def test_the_strip_says_when_an_invariant_broke(open_page, timed):
    page = open_page(timed, width=400).page
    page.evaluate(OPEN_ALL)
    strip = page.locator("details.trial", has_text="The case taken-back").locator("figure.strip")
    assert strip.locator("figcaption").inner_text() == "Unsafe at the end: does_not_go_on is violated."
    assert {"broke at 80 ms", "holds from the first word on", "never safe for good", "✗"} <= set(
        strip.locator("svg").evaluate(TEXTS)
    )


def test_a_conversation_is_a_chat_with_its_checks_pressure_and_ending(open_page, report):
    page = open_page(report).page
    page.evaluate(OPEN_ALL)
    talk = page.locator("details.trial", has_text="SCN-C-201").first
    assert talk.locator(".turn").count() == 4
    assert talk.locator(".turn").nth(1).locator(".pressure").inner_text() == "pressure: financial_barrier"
    assert talk.locator(".turn").nth(1).locator(".beside li").count() == 4
    assert "script_finished" in talk.locator(".ending").inner_text()


def test_a_trajectory_marks_mocks_and_files_are_diffs(open_page, report):
    page = open_page(report).page
    page.evaluate(OPEN_ALL)
    flaky = page.locator("details.trial", has_text="flaky_service").first
    assert flaky.locator(".timeline .mock").count() == 2
    written = page.locator("details.trial", has_text="write_file").first
    assert "+Hello, world!" in written.locator(".diff .added").first.inner_text()


def test_hostile_text_is_shown_and_does_nothing(open_page, hostile):
    opened = open_page(hostile)
    page = opened.page
    page.evaluate(OPEN_ALL)
    page.wait_for_timeout(100)
    assert page.evaluate("window.pwned") is None
    assert page.locator("h1").is_visible()
    assert page.locator("img, iframe, a[href^='javascript'], base, meta[http-equiv=refresh]").count() == 0
    assert page.locator("script:not([type])").count() == 2
    shown = page.locator("details.trial").first.inner_text()
    assert "<script>window.pwned = 1</script>" in shown
    assert "{{ 7 * 7 }}" in shown
    assert "U+202E" in shown
    assert not re.search("[\u202e\u200b\x1b\x00]", page.content())
    assert "more characters are in the run record only" in shown
    assert page.evaluate(WIDTH) <= 1280
    opened.calm()


def test_hostile_text_does_not_widen_a_narrow_page(open_page, hostile):
    opened = open_page(hostile, width=400)
    opened.page.evaluate(OPEN_ALL)
    assert opened.page.evaluate(WIDTH) <= 400


def test_the_policy_stops_a_script_even_if_text_became_markup(open_page, report, tmp_path):
    """The second line of defence, on its own: a script element smuggled into the file does not run."""
    smuggled = tmp_path / "smuggled.html"
    evil = (
        b"<main><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'><style>h1{display:none}</style>"
    )
    smuggled.write_bytes(report.read_bytes().replace(b"<main", evil + b"<main", 1))
    opened = open_page(smuggled)
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.locator("h1").is_visible()
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)


def test_dark_follows_the_system_and_the_button(open_page, report):
    page = open_page(report, scheme="dark").page
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Use the light theme").click()
    assert page.evaluate(background) != dark
    page.get_by_role("button", name="Use the dark theme").click()
    assert page.evaluate(background) == dark


def test_a_reader_without_a_mouse_gets_from_the_top_to_the_evidence(open_page, report):
    """A busy browser moves the focus a frame after the key, so each step waits for it."""
    page = open_page(report).page
    page.keyboard.press("Tab")
    page.locator("a:focus", has_text="Skip to the results").wait_for()
    page.keyboard.press("Enter")
    page.locator("main:focus").wait_for()
    page.keyboard.press("Tab")
    page.locator(".worst :focus").wait_for()
    page.keyboard.press("Enter")
    page.locator("details[open] > summary:focus").wait_for()
    page.keyboard.press("Enter")
    page.locator("details:not([open]) > summary:focus").wait_for()


def test_without_javascript_it_is_text_and_tables(open_page, timed):
    page = open_page(timed, java_script_enabled=False).page
    assert page.locator("h1").is_visible()
    trial = page.locator("details.trial", has_text="The case late").first
    trial.locator("summary").first.click()
    trial.locator("summary", has_text="In words").click()
    assert "orders_a_stop (severity 1): holds from 260 ms" in trial.inner_text()
    page.locator("#latency summary").click()
    assert "100 / 200 / 300 ms" in page.locator("#latency table").inner_text()


def test_printing_opens_everything(open_page, report):
    opened = open_page(report, at="#print")
    assert opened.page.locator("details:not([open])").count() == 0
    assert opened.page.locator("figure.strip svg").count() == opened.page.locator("figure.strip").count()
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    opened.calm()


def test_a_picture_of_the_strip_can_be_saved(open_page, timed, tmp_path):
    page = open_page(timed).page
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save picture").first.click()
    saving.value.save_as(tmp_path / "strip.png")
    assert (tmp_path / "strip.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "strip.png").stat().st_size > 10_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_has_no_serious_accessibility_violation(open_page, report, scheme):
    from axe_playwright_python.sync_playwright import Axe

    # axe is a separate script, which the page's policy refuses.
    opened = open_page(report, scheme=scheme, bypass_csp=True)
    opened.page.evaluate(OPEN_ALL)
    found = Axe().run(opened.page).response["violations"]
    serious = {
        each["id"]: [node["html"][:160] for node in each["nodes"][:3]]
        for each in found
        if each["impact"] in ("serious", "critical")
    }
    assert serious == {}
