"""Commands that read a record say by their exit code when it is not whole, and a run when it was damaged meanwhile."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

import steadyhand
from steadyhand.errors import StoreError
from steadyhand.records.evaluation import Verdict
from steadyhand.viewer.labels import LabelBook
from steadyhand.viewer.pages import Viewer

pytestmark = pytest.mark.system

READERS = {
    "show": ("show", "last"),
    "report": ("report", "last", "--markdown", "r.md"),
    "compare": ("compare", "last", "good.sqlite"),
    "compare, the other way": ("compare", "good.sqlite", "last"),
    "gate": ("gate", "last", "--baseline", "good.sqlite"),
    "gate, as the baseline": ("gate", "good.sqlite", "--baseline", "last"),
    "export": ("export", "last", "--format", "csv", "--out-dir", "tables"),
    "baseline": ("baseline", "last", "--out", "b.json"),
}
SLOW = "rules:\n  - reply: I call for help now.\n    delay_ms: 20\n"


def execute(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.fixture(scope="module")
def passed(tmp_path_factory, command_server):
    from support.shell import Batch

    made = Batch(tmp_path_factory.mktemp("whole"), command_server)
    made.fill()
    assert made("run", "untimed.yaml", "--trials", "6", "--no-progress").code == 0
    return made


@pytest.fixture
def run(passed, tmp_path, command_server):
    """A copy of the run, with another copy that stays whole."""
    from support.shell import Batch

    shutil.copytree(passed.folder, tmp_path, dirs_exist_ok=True)
    made = Batch(tmp_path, command_server)
    shutil.copy(made.record(), tmp_path / "good.sqlite")
    return made


DAMAGES = {
    "a trial was deleted": ("DELETE FROM trial WHERE position = 3",),
    "a trial and its plan were deleted": (
        "DELETE FROM trial WHERE position = 3",
        "DELETE FROM plan WHERE position = 3",
    ),
    "a trial is not what was written": ("UPDATE trial SET body = zeroblob(100) WHERE position = 3",),
    "a trial says something else than was written": ("UPDATE trial SET verdict = 'error' WHERE position = 3",),
    "a trial was put in for another": (
        "DELETE FROM trial WHERE position = 3",
        "UPDATE trial SET position = 3 WHERE position = 6",
        "DELETE FROM plan WHERE position = 6",
    ),
    "the seal is that of other trials": ("UPDATE seal SET checksum = checksum + 1",),
    "the seal is missing": ("DELETE FROM seal",),
    "the run was interrupted": ("DELETE FROM trial WHERE position = 3", "UPDATE run SET status = 'interrupted'"),
    "the header is damaged": ("UPDATE run SET header = '{'",),
    "the header says something else": ("UPDATE run SET header = replace(header, '\"seed\":', '\"seed\": ')",),
    "the dictionary of its trials is another": ("UPDATE run SET dictionary = zeroblob(100)",),
    "the dictionary lost a byte": ("UPDATE run SET dictionary = substr(dictionary, 2)",),
    "the plan says something else": ("UPDATE plan SET seed = seed + 1 WHERE position = 3",),
    "another pass rate is required": (
        """UPDATE run SET header = replace(header, '"seed":', '"pass_rate":0.1,"seed":')""",
    ),
    "two trials have exchanged their places": (
        "UPDATE trial SET position = 99 WHERE position = 3",
        "UPDATE trial SET position = 3 WHERE position = 5",
        "UPDATE trial SET position = 5 WHERE position = 99",
    ),
    "two trials have exchanged what they say": (
        "UPDATE trial SET body = (SELECT body FROM trial t WHERE t.position = 7 - trial.position)",
    ),
    "a trial is there twice": (
        "INSERT INTO trial SELECT 99, scenario_id, 99, name, verdict, NULL, NULL, body FROM trial WHERE position = 3",
    ),
    "a trial became a copy of another": (
        "UPDATE trial SET body = (SELECT body FROM trial WHERE position = 5) WHERE position = 3",
    ),
    "a trial lost a byte": ("UPDATE trial SET body = substr(body, 1, length(body) - 1) WHERE position = 3",),
}


@pytest.mark.parametrize("command", READERS)
def test_a_whole_record_gives_0(run, command):
    ended = run(*READERS[command])
    assert ended.code == 0, ended.out + ended.err


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_record_that_is_not_whole_gives_3(run, damage, command):
    execute(run.record(), *DAMAGES[damage])
    ended = run(*READERS[command])
    refused = command == "baseline" and "cannot be a baseline" in ended.err
    assert ended.code == (2 if refused else 3), ended.out + ended.err
    assert "is not whole" in ended.err or "damaged" in ended.err


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_report_and_no_page_says_that_it_passed(run, damage):
    whole = outputs(run)
    assert [whole[name] for name in ("junit", "api", "viewer", "list")] == [[], True, True, True]
    execute(run.record(), *DAMAGES[damage])
    found = outputs(run)
    assert found["junit"] != []
    assert not any(found[name] for name in ("api", "viewer", "list", "markdown"))


def outputs(run):
    """What says that the run passed, as far as it could be made."""
    file, summary = run.folder / "r.xml", run.folder / "r.md"
    for each in (file, summary):
        each.unlink(missing_ok=True)
    run("show", "last", "--junit", "r.xml")
    run("report", "last", "--markdown", "r.md")
    (path,) = (run.folder / ".steadyhand" / "runs").glob("*.sqlite")
    viewer = Viewer(path.parent, LabelBook(run.folder / "labels.csv", "me"))
    with closing(viewer):
        return {
            "junit": re.findall("<(?:error|failure|skipped)", file.read_text()) if file.exists() else None,
            "markdown": summary.exists() and "passed" in summary.read_text().partition("\n")[0],
            "api": read(lambda: steadyhand.open_run(path).passed),
            "viewer": "The scenario passed" in read(lambda: page(viewer, "/run", {"id": path.stem})),
            "list": '<li class="passed">' in read(lambda: page(viewer, "/", {})),
        }


def page(viewer, path, query):
    return viewer.get(path, query).body.decode()


def read(what):
    try:
        return what()
    except StoreError:
        return ""


@pytest.mark.parametrize("damage", [None, *DAMAGES])
def test_trials_of_a_damaged_record_pass_no_other_run(run, damage):
    """Not judged again, and not merged."""
    seeded = ("run", "untimed.yaml", "--trials", "12", "--seed", "1", "--no-progress", "--out", "shards", "--shard")
    for shard in ("1/2", "2/2"):
        assert run(*seeded, shard).code == 0
    shards = sorted((run.folder / "shards").glob("*.sqlite"))
    if damage is not None:
        execute(run.record(), *DAMAGES[damage])
        execute(shards[0], *DAMAGES[damage])
    codes = run("rejudge", "last", "--no-progress").code, run("merge", *map(str, shards)).code
    assert codes == (0, 0) if damage is None else 0 not in codes


def test_the_journal_of_another_run_gives_3(run):
    """SQLite takes what it finds in it for pages of this record."""
    other, path = run.folder / "good.sqlite", run.record()
    connection = sqlite3.connect(other, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("UPDATE trial SET name = 'another' WHERE position = 3")
    shutil.copy(f"{other}-wal", f"{path}-wal")
    connection.close()
    assert run("show", "last").code == 3


def test_the_record_of_another_run_in_its_place_gives_3(run):
    path = run.record()
    assert run("run", "untimed.yaml", "--no-progress").code == 0
    (other,) = set(path.parent.glob("*.sqlite")) - {path}
    shutil.copy(other, path)
    ended = run("show", path.stem)
    assert (ended.code, f"it is the record of run {other.stem}" in ended.err) == (3, True)


def test_an_older_copy_put_back_during_the_run_costs_the_verdict_or_nothing(batch):
    batch.replies(SLOW)
    process = batch.start("run", "untimed.yaml", "--trials", "400", "--no-progress")
    batch.wait_for(20, process)
    execute(batch.record(), "PRAGMA wal_checkpoint(PASSIVE)")
    before = batch.record().read_bytes()
    batch.wait_for(200, process)
    execute(batch.record(), "PRAGMA wal_checkpoint(PASSIVE)")
    batch.record().write_bytes(before)
    process.communicate()
    if process.wait() == 0:  # the journal had everything since
        assert batch.reader().flaw() is None
        assert batch.reader().counts()[Verdict.PASSED] == 400
        return
    assert process.wait() == 3
    assert batch("show", "last").code == 3


@pytest.mark.parametrize("command", READERS)
def test_half_a_file_gives_3(run, command):
    os.truncate(run.record(), run.record().stat().st_size // 2)
    assert run(*READERS[command]).code == 3


MIXED = """\
rules:
  - replies: [I call for help now., I call for help now., Go home., ""]
    pick: random
"""


@pytest.mark.parametrize("options", [(), ("-v",), ("--workers", "2")])
def test_a_run_shows_what_its_record_says(run, options):
    (run.folder / "mixed.yaml").write_text(MIXED)
    ended = run("run", "untimed.yaml", "--model", "scripted/mixed.yaml", "--trials", "120", "--no-progress", *options)
    shown = run("show", "last", *(each for each in options if each == "-v"))
    assert "failed" in ended.out
    assert (ended.code, ended.out) == (shown.code, shown.out)


def test_show_gives_the_code_of_the_verdict(run):
    run.write("replies.yaml", "rules:\n  - reply: Nothing to do.\n")
    assert run("run", "untimed.yaml", "--no-progress").code == 1
    assert run("show", "last").code == 1
    assert run("show", "no-such-run").code == 2


def test_a_run_that_stopped_early_is_whole(run):
    given = ("run", "untimed.yaml", "--trials", "50", "--until", "decided", "--pass-rate", "0.5", "--no-progress")
    assert run(*given).code == 0
    (path,) = [
        each for each in (run.folder / ".steadyhand" / "runs").glob("*.sqlite") if each.stem in run("show", "last").out
    ]
    assert run("show", "last").code == 0
    execute(path, "DELETE FROM trial WHERE position = 1")
    assert run("show", "last").code == 3


@pytest.mark.parametrize("size", [0.5, 0.0])
def test_a_record_that_is_damaged_during_the_run_gives_3_and_no_promise(batch, size):
    """Once SQLite has moved pages from the log to the file itself, nothing brings them back."""
    process = batch.start("run", "untimed.yaml", "--trials", "15000", "--no-progress")
    batch.wait_for(1, process)
    record = batch.record()
    while record.stat().st_size < 2_000_000 and process.poll() is None:
        time.sleep(0.01)
    os.truncate(record, int(record.stat().st_size * size))
    out, err = process.communicate()
    assert process.wait() == 3, out + err
    assert "was damaged while the run was writing it" in err
    assert "trials written so far are safe" not in err
    assert err.count("\n") == 1


def test_a_log_that_is_truncated_during_the_run_costs_the_verdict_or_nothing(batch):
    batch.replies(SLOW)
    process = batch.start("run", "untimed.yaml", "--trials", "400", "--no-progress")
    batch.wait_for(60, process)
    record = batch.record()
    os.truncate(record.with_name(f"{record.name}-wal"), 0)
    out, err = process.communicate()
    if process.wait() == 0:
        assert batch.reader().flaw() is None
        assert batch.reader().counts()[Verdict.PASSED] == 400
        return
    assert process.wait() == 3, out + err
    assert "trials written so far are safe" not in err


def test_a_run_that_loses_its_shared_memory_says_so_and_can_be_resumed(batch):
    """SQLite maps the file into memory, so the system ends the process with SIGBUS when it is truncated."""
    batch.replies(SLOW)
    process = batch.start_from_nothing("run", "untimed.yaml", "--trials", "400", "--no-progress")
    batch.wait_for(60, process)
    record = batch.record()
    os.truncate(record.with_name(f"{record.name}-shm"), 0)
    _, err = process.communicate()
    if process.returncode == 0:
        pytest.skip("SQLite on this system does not map the file")
    assert process.returncode == -signal.SIGBUS
    assert "Bus error" in err
    assert "store/writer.py" in err
    assert batch("resume", "last", "--no-progress").code == 0
    assert batch.reader().counts()[Verdict.PASSED] == 400


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (os.mkfifo, "found a named pipe"),
        (os.mkdir, "found a folder"),
        (lambda file: file.symlink_to("/dev/zero"), "found a device"),
        (lambda file: file.symlink_to("nowhere"), "found a link that leads nowhere"),
    ],
)
def test_a_configuration_that_is_no_file_is_not_ignored(batch, make, told):
    file = batch.folder / "steadyhand.toml"
    file.unlink()
    make(file)
    for command in ("run", "validate"):
        ended = batch(command, "untimed.yaml")
        assert ended.code == 2, ended.out + ended.err
        assert f"steadyhand.toml: expected a file, {told}" in ended.err
        assert ended.err.count("\n") == 1


@pytest.mark.parametrize("kib", [50_000, 60_000, 70_000, 90_000])
def test_too_little_memory_is_said_in_one_line(batch, kib):
    batch.write("steadyhand.toml", 'model = "openai/m"\n[providers.openai]\nbase_url = "http://127.0.0.1:9/v1"\n')
    ended = subprocess.run(
        [sys.executable, "-m", "steadyhand", "run", "untimed.yaml", "--no-progress", "--retries", "0"],
        cwd=batch.folder,
        env=batch.environment(OPENAI_API_KEY="none"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (kib * 1024, kib * 1024)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in (2, 3), ended.stdout + ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert "ulimit -v" in ended.stderr
