"""Who the viewer answers: nobody without the link, and no page of another origin."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from steadyhand.errors import SetupError
from steadyhand.viewer.pages import Viewer
from steadyhand.viewer.server import ViewerServer
from support.viewing import FIRST, SECOND, trial_address

PAGES = [
    "/",
    f"/run?id={FIRST}",
    f"/run/part?id={FIRST}",
    trial_address(FIRST, "late"),
    f"/compare?a={FIRST}&b={SECOND}",
    "/assets/viewer.js",
]
LABEL = {"run": FIRST, "scenario": "taken-back", "trial": "0", "check": "orders_a_stop", "label": "fail"}


def test_without_the_cookie_nothing_is_shown(stranger):
    for page in PAGES:
        answer = stranger.get(page)
        assert answer.status == 403
        assert answer.text == "Open the link that `steadyhand view` printed. A link works once.\n"


@pytest.mark.parametrize(
    "cookie", ["steadyhand-{port}=", "steadyhand-{port}=x", "steadyhand-1=x", "=;=;\x01", "a" * 5000]
)
def test_a_made_up_cookie_opens_nothing(stranger, cookie):
    stranger.cookie = cookie.format(port=stranger.server.server_port)
    assert stranger.get("/").status == 403


def test_the_link_is_exchanged_for_a_cookie_that_scripts_and_other_sites_do_not_get(stranger):
    answer = stranger.enter()
    assert (answer.status, answer.headers["Location"], answer.text) == (303, "/", "")
    assert answer.headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict; Path=/")
    assert stranger.get("/").status == 200


def test_a_link_works_once_and_the_token_is_not_the_cookie(stranger):
    link = urlsplit(stranger.server.session.link())
    first = stranger.get(f"{link.path}?{link.query}")
    assert link.query.partition("=")[2] not in first.headers["Set-Cookie"]
    again = stranger.get(f"{link.path}?{link.query}")
    assert again.status == 403
    assert "Set-Cookie" not in again.headers


def test_whoever_is_in_may_follow_an_old_link(viewing):
    answer = viewing.get("/enter?token=old")
    assert (answer.status, answer.headers["Location"]) == (303, "/")


def test_no_page_has_a_token_in_it_or_may_be_cached_framed_sniffed_or_referred_from(viewing):
    for page in PAGES:
        answer = viewing.get(page)
        assert answer.status == 200
        assert "token=" not in answer.text
        assert viewing.cookie.partition("=")[2] not in answer.text
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self' 'sha256-")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


def test_nothing_is_logged(viewing, capfd):
    viewing.enter()
    viewing.get("/nowhere?token=secret")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "[::1]:{port}",
    ],
)
def test_another_name_for_this_machine_is_refused(viewing, host):
    """DNS rebinding: the browser thinks that it is talking to the attacker's own host."""
    answer = viewing.get("/", Host=host.format(port=viewing.server.server_port))
    assert answer.status == 421
    assert FIRST not in answer.text


def test_a_request_without_a_host_is_refused(viewing):
    import socket

    with socket.create_connection(("127.0.0.1", viewing.server.server_port)) as raw:
        raw.sendall(f"GET / HTTP/1.0\r\nCookie: {viewing.cookie}\r\n\r\n".encode())
        assert raw.makefile("rb").readline().split()[1] == b"421"


def test_a_request_may_have_any_number_of_fields(viewing):
    assert viewing.get("/?" + "&".join(f"f{number}=1" for number in range(500))).status == 200


def test_localhost_is_this_machine(viewing):
    assert viewing.get("/", Host=f"localhost:{viewing.server.server_port}").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_from_elsewhere_gets_nothing_even_with_the_cookie(viewing, site):
    """`same-site` is a page on another port of this machine: the browser sends our cookie along."""
    for page in PAGES:
        answer = viewing.get(page, Sec_Fetch_Site=site)
        assert answer.status == 403
        assert "This request came from another page" in answer.text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "https://{host}", "http://127.0.0.1:1", "http://{host}.evil.example"]
)
def test_a_label_from_another_origin_is_refused(viewing, origin):
    answer = viewing.post(LABEL, Origin=origin.format(host=viewing.host))
    assert answer.status == 403
    assert not (viewing.folder / "labels.jsonl").exists()


def test_a_label_without_the_cookie_is_refused(viewing):
    viewing.cookie = ""
    assert viewing.post(LABEL).status == 403
    assert not (viewing.folder / "labels.jsonl").exists()


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "multipart/form-data; boundary=x"])
def test_a_label_is_a_form(viewing, kind):
    assert viewing.post(LABEL, **{"Content-Type": kind}).status == 415


def test_a_form_has_an_end(viewing):
    answer = viewing.post({**LABEL, "note": "x" * 100_000})
    assert answer.status == 415
    assert answer.headers["Connection"] == "close"
    assert viewing.get("/").status == 200


def test_a_get_never_writes(viewing):
    assert viewing.get("/labels?run=x&label=pass").status == 404
    assert not (viewing.folder / "labels.jsonl").exists()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"])
def test_other_methods_are_not_answered(viewing, method):
    assert viewing._ask(method, "/", None, {}).status == 501


@pytest.mark.parametrize(
    "name",
    [
        "../{id}",
        "..%2F..%2Fetc%2Fpasswd",
        "{folder}/{id}",
        "{id}.sqlite",
        "{id}%00",
        "*",
        "last",
        "",
        "{id}/../{id}",
        "20261116",
    ],
)
def test_a_run_is_found_by_its_exact_name_only(viewing, name):
    asked = name.format(id=FIRST, folder=viewing.folder)
    for page in (f"/run?id={asked}", f"/trial?run={asked}&scenario=late&trial=0", f"/compare?a={asked}&b={FIRST}"):
        assert (asked == "" and page.startswith("/compare")) or viewing.get(page).status == 404
    assert viewing.post({**LABEL, "run": asked}).status == 404


@pytest.mark.parametrize(
    "name", ["../viewer.js", "..%2fpages.py", "../../templates/layout.html", "plot.LICENSES.txt", ""]
)
def test_only_our_scripts_and_style_sheets_are_served(viewing, name):
    assert viewing.get(f"/assets/{name}").status == 404


def test_a_link_out_of_the_folder_is_a_record_like_any_other_and_a_file_that_is_none_says_so(viewing):
    (viewing.folder / "broken.sqlite").write_bytes(b"no database")
    assert "cannot be read as a run record" in viewing.get("/").text
    answer = viewing.get("/run?id=broken")
    assert answer.status == 404
    assert "cannot be read as a run record" in answer.text


def test_a_port_that_is_taken_is_said(viewing):
    with pytest.raises(SetupError, match=r"cannot listen on port \d+: Address already in use; give another one"):
        ViewerServer(
            Viewer(viewing.folder, viewing.server.viewer.label_book), port=viewing.server.server_port, on_bug=print
        )
