"""The viewer as somebody uses it: open, filter, follow a failure to its evidence, label it, compare."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import TrialKey
from steadyhand.store.labels import VERDICT, read_labels
from steadyhand.store.schema import PlanEntry
from steadyhand.store.writer import RunWriter
from support.late import Late
from support.report_runs import hostile_run
from support.sample_trials import HEADER, typical
from support.viewing import FIRST, SECOND, Viewing, trial_address, two_runs

playwright = Late("playwright.sync_api")
pytestmark = pytest.mark.browser
WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture
def viewing(tmp_path: Path) -> Iterator[Viewing]:
    two_runs(tmp_path)
    found = Viewing(tmp_path)
    yield found
    found.close()


def url(viewing: Viewing, path: str = "/") -> str:
    return f"http://{viewing.host}{path}"


def enter(open_page, viewing, path="/", **more):
    opened = open_page(viewing.server.session.link(), **more)
    if path != "/":
        opened.page.goto(url(viewing, path))
    return opened


def calm(opened, viewing):
    """There were no errors, and nothing was requested from anywhere else."""
    assert opened.complaints == []
    assert [each for each in opened.requests if not each.startswith((f"http://{viewing.host}/", "data:"))] == []


def test_from_the_link_to_the_evidence_of_a_failure_and_a_label(open_page, viewing):
    opened = enter(open_page, viewing)
    page = opened.page
    assert page.url == url(viewing)
    page.locator("a[data-row]", has_text=FIRST).click()
    assert page.locator("h1").inner_text() == "2 of 3 scenarios failed"
    page.get_by_label("Filter by text").fill("taken")
    playwright.expect(page.locator("#list [data-row]")).to_have_count(1)
    assert page.url == url(viewing, f"/run?id={FIRST}&q=taken")
    page.locator("#list [data-row]").click()
    assert "Unsafe at the end: does_not_go_on is violated." in page.locator("figcaption").inner_text()
    page.locator("figure.strip svg").wait_for()
    assert "it is violated" in page.locator("details.check.failed[open]").inner_text()
    row = page.locator(".label-row", has_text="orders_a_stop").first
    row.get_by_label("Note on").fill("It says stop, and goes on.")
    row.get_by_role("button", name="Disagree: should fail").click()
    page.locator(".given").wait_for()
    assert "ada disagrees: should fail: It says stop, and goes on." in page.locator(".given").inner_text()
    page.locator(".label-row").first.get_by_role("button", name="Agree").first.click()
    playwright.expect(page.locator(".given")).to_have_count(2)
    labels = read_labels(viewing.folder / "labels.jsonl")
    assert [(each.check, each.label, each.by) for each in labels] == [
        ("orders_a_stop", "fail", "ada"),
        (VERDICT, "fail", "ada"),
    ]
    calm(opened, viewing)


def test_choices_narrow_the_list_and_a_deep_link_opens_it_again(open_page, viewing):
    page = enter(open_page, viewing, f"/run?id={FIRST}").page
    page.get_by_label("Outcome").select_option("safe_late")
    playwright.expect(page.locator("#list [data-row]")).to_have_count(1)
    page.reload()
    assert page.locator("#list [data-row]").count() == 1
    assert page.get_by_label("Outcome").input_value() == "safe_late"
    page.get_by_role("link", name="show all").click()
    assert page.locator("#list [data-row]").count() == 3


def test_two_runs_side_by_side_lead_to_their_trials(open_page, viewing):
    opened = enter(open_page, viewing, f"/run?id={SECOND}")
    page = opened.page
    page.get_by_role("button", name="Compare").click()
    assert page.locator("h1").inner_text() == "The data cannot tell A from B"
    assert page.locator(".side").count() == 2
    assert page.locator(".findings li").count() >= 1
    page.locator("figure.chart svg").wait_for()
    change = page.locator("details.change", has_text="taken-back")
    change.locator("summary").click()
    assert "continue at low speed" in change.locator("blockquote").first.inner_text()
    change.get_by_role("link", name="trial 0").first.click()
    assert page.url == url(viewing, trial_address(FIRST, "taken-back"))
    calm(opened, viewing)


def test_everything_by_keyboard_alone(open_page, viewing):
    page = enter(open_page, viewing).page
    keys = page.keyboard
    keys.press("?")
    assert page.locator("dialog").is_visible()
    keys.press("Escape")
    keys.press("j")
    keys.press("j")
    keys.press("k")
    keys.press("j")
    keys.press("Enter")
    page.wait_for_url(url(viewing, f"/run?id={FIRST}"))
    keys.press("/")
    keys.type("case")
    playwright.expect(page.locator("#list [data-row]")).to_have_count(3)
    keys.press("Enter")
    assert page.evaluate("document.activeElement.matches('#list [data-row]')")
    keys.press("j")
    keys.press("Enter")
    page.wait_for_selector("#labels")
    assert "late" in page.locator("h1").inner_text()
    page.wait_for_load_state()
    keys.press("k")
    playwright.expect(page.locator("h1")).to_contain_text("taken-back")
    page.wait_for_load_state()
    keys.press("l")
    assert page.evaluate("document.activeElement.id") == "labels-h"
    for _ in range(3):
        keys.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Agree"
    keys.press("Enter")
    page.locator(".given").wait_for()
    keys.press("u")
    page.wait_for_url(url(viewing, f"/run?id={FIRST}&q=case"))
    keys.press("c")
    assert page.evaluate("document.activeElement.name") == "a"


def test_a_running_run_is_followed(open_page, viewing):
    keys = [TrialKey(scenario_id=f"s{at}") for at in range(2)]
    header = msgspec.structs.replace(HEADER, id="20261116-120000-live", planned=2)
    writer = RunWriter.create(viewing.folder, header, [PlanEntry(key=each) for each in keys])
    opened = enter(open_page, viewing, "/run?id=20261116-120000-live")
    page = opened.page
    assert page.locator("h1").inner_text() == "Running: none of 2 scenarios has failed so far"
    writer.append(msgspec.structs.replace(typical(0), key=keys[0]))
    writer.flush()
    page.locator("#list [data-row]").first.wait_for()
    writer.append(msgspec.structs.replace(typical(1, Verdict.FAILED), key=keys[1]))
    writer.close("finished")
    page.get_by_role("heading", name="1 of 2 scenarios failed").wait_for()
    playwright.expect(page.locator("#live")).to_have_attribute("data-live", "")
    calm(opened, viewing)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_every_page_fits_has_no_serious_barrier_and_no_complaint(open_page, viewing, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    pages = ["/", f"/run?id={FIRST}", trial_address(FIRST, "taken-back"), f"/compare?a={FIRST}&b={SECOND}", "/compare"]
    opened = enter(open_page, viewing, width=width, scheme=scheme, bypass_csp=True)
    for path in pages:
        opened.page.goto(url(viewing, path))
        opened.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        assert opened.page.evaluate(WIDTH) <= width, path
        found = Axe().run(opened.page).response["violations"]
        serious = {
            each["id"]: [node["html"][:160] for node in each["nodes"][:3]]
            for each in found
            if each["impact"] in ("serious", "critical")
        }
        assert serious == {}, path
    calm(opened, viewing)


def test_dark_and_light_stay_chosen(open_page, viewing):
    page = enter(open_page, viewing, scheme="light").page
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.keyboard.press("t")
    dark = page.evaluate(background)
    assert dark != light
    page.goto(url(viewing, f"/run?id={FIRST}"))
    assert page.evaluate(background) == dark


def test_hostile_text_is_shown_and_does_nothing(open_page, tmp_path):
    reader = hostile_run(tmp_path)
    viewing = Viewing(tmp_path)
    try:
        opened = enter(open_page, viewing, f"/run?id={reader.header.id}", width=400)
        page = opened.page
        assert "<script>window.pwned = 1</script>" in page.locator("#list").inner_text()
        page.get_by_label("Filter by text").fill("<script>")
        page.wait_for_url("**q=*")
        assert page.evaluate(WIDTH) <= 400
        page.locator("#list [data-row]").first.click()
        page.wait_for_selector("#labels")
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        assert page.evaluate(WIDTH) <= 400
        page.locator(".label-row").first.get_by_role("button", name="Unsure").click()
        page.locator(".given").wait_for()
        assert page.evaluate("window.pwned") is None
        assert page.locator("img, iframe, a[href^='javascript'], base, meta[http-equiv=refresh]").count() == 0
        assert not {"\u202e", "\u200b", "\x1b", "\x00"} & set(page.content())
        calm(opened, viewing)
    finally:
        viewing.close()


def test_the_policy_stops_a_script_even_if_text_became_markup(open_page, viewing):
    opened = enter(open_page, viewing, f"/run?id={FIRST}")
    opened.page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned = 1\">');"
        "const s = document.createElement('script'); s.textContent = 'window.pwned = 2'; document.body.append(s)"
    )
    assert opened.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in each for each in opened.complaints)


class _Attacker(http.server.BaseHTTPRequestHandler):
    """A page served by somebody else on this machine, to which a browser sends the same cookies."""

    target = ""
    seen: list[dict[str, str]] = []

    def do_GET(self) -> None:
        self.seen.append(dict(self.headers.items()))
        page = f"""<!doctype html><title>attack</title><iframe src="{self.target}"></iframe><script>
        window.results = Promise.allSettled([
          fetch("{self.target}", {{credentials: "include"}}).then((r) => r.text()),
          fetch("{self.target}labels", {{method: "POST", credentials: "include", mode: "no-cors",
            body: new URLSearchParams({{of: "?run={FIRST}&scenario=late&trial=0&check=(verdict)", label: "pass"}})}}),
        ]).then((all) => all.map((each) => each.status + " " + (each.value?.type ?? each.reason)));
        </script>"""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *args: object) -> None:
        """Logs nothing."""


def test_a_page_on_another_port_can_neither_read_nor_write_nor_frame(open_page, viewing):
    class Attacker(_Attacker):
        target = url(viewing)
        seen: list[dict[str, str]] = []

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Attacker)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        page = enter(open_page, viewing, f"/run?id={FIRST}").page
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        assert [each.split()[0] for each in page.evaluate("window.results")] == ["rejected", "rejected"]
        assert not (viewing.folder / "labels.jsonl").exists()
        assert all("Runs" not in frame.content() for frame in page.frames[1:])
        assert Attacker.seen
        assert viewing.host not in "".join(request.get("Referer", "") for request in Attacker.seen)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_token_stays_in_no_history_and_in_no_referrer(open_page, viewing):
    opened = enter(open_page, viewing)
    page = opened.page
    assert "token" not in page.url
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("document.referrer") == ""
    page.locator("a[data-row]").first.click()
    page.wait_for_selector("#list")
    assert page.evaluate("document.referrer") == ""
    page.go_back()
    assert page.url == url(viewing)
    page.go_back()
    assert "token" not in page.url
