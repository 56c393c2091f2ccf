"""`steadyhand view`: prints its link, answers, and ends on Ctrl-C."""

from __future__ import annotations

import http.client
import re
import signal
from urllib.parse import urlsplit

import pytest

from support.viewing import FIRST, two_runs

pytestmark = pytest.mark.system


def test_it_prints_a_link_that_opens_the_runs_and_ends_with_ctrl_c(shell):
    runs = shell.folder / "runs"
    runs.mkdir()
    two_runs(runs)
    process = shell.start("view", "runs", "--no-browser")
    try:
        found = re.fullmatch(
            r"viewer of runs: (http://127\.0\.0\.1:\d+/enter\?token=\S{20,})\n", process.stdout.readline()
        )
        assert found is not None
        assert process.stdout.readline() == "the link works once; press Ctrl-C to stop the viewer\n"
        address = urlsplit(found.group(1))
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
        connection.request("GET", f"{address.path}?{address.query}")
        entered = connection.getresponse()
        entered.read()
        cookie = entered.headers["Set-Cookie"].partition(";")[0]
        connection.request("GET", "/", headers={"Cookie": cookie})
        assert FIRST in connection.getresponse().read().decode()
        connection.close()
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 0
    assert (out, err) == ("viewer stopped\n", "")


def test_a_folder_that_is_not_there_is_said(shell):
    ended = shell("view", "nowhere", "--no-browser")
    assert ended.code == 2
    assert "folder not found: nowhere" in ended.err


def test_a_labels_file_with_another_ending_is_refused(shell):
    (shell.folder / "runs").mkdir()
    ended = shell("view", "runs", "--no-browser", "--labels", "labels.txt")
    assert ended.code == 2
    assert "a labels file ends in .jsonl or .csv" in ended.err


def test_a_port_that_there_is_not_is_refused(shell):
    assert shell("view", ".", "--port", "70000").code == 2
