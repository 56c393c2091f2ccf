"""--workers: the same verdicts from several processes; whatever is killed, nothing is lost and nothing runs twice."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from steadyhand.records.evaluation import Verdict
from steadyhand.testing import Answer
from support.forked_child import forked
from support.loopback import Loopback
from support.shell import DECISION, RIGHT, UNTIMED
from support.timeless import timeless

pytestmark = pytest.mark.system

EXAMPLES = Path(__file__).parents[2] / "examples"

SLOW = "rules:\n  - reply: I call for help now.\n    delay_ms: 5\n"
STUCK = "rules:\n  - reply: I call for help now.\n    delay_ms: 60000\n"


def workers_of(pid: int) -> list[int]:
    """The workers that a driver has started, or had copied, and that are alive."""
    children: dict[int, list[int]] = {}
    workers = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            status = (folder / "status").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        children.setdefault(int(status.partition("PPid:")[2].split()[0]), []).append(int(folder.name))
        if ("Name:\tsteadyhand-work\n" in status or b"worker_child" in command) and "State:\tZ" not in status:
            workers.append(int(folder.name))
    mine = children.get(pid, [])
    return [each for each in workers if each in mine or any(each in children.get(child, []) for child in mine)]


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def judged(batch, name):
    reader = batch.reader()
    found = {
        trial.key: (trial.judged.verdict, trial.seed, [(each.type, each.verdict) for each in trial.evaluations])
        for trial in reader.trials()
    }
    batch.record().rename(batch.folder / name)
    return found


@pytest.mark.usefixtures("forked_workers")
def test_verdicts_are_those_of_a_single_process(batch):
    batch.decision("two.yaml", id="SCN-C-002", prompt="Something else?")
    batch.replies("rules:\n  - contains: Something\n    reply: No.\n  - reply: I call for help now.\n")
    given = ("run", "untimed.yaml", "two.yaml", "--trials", "60", "--seed", "7", "--no-progress")
    alone = batch(*given)
    expected = judged(batch, "alone.sqlite")
    assert batch(*given, "--workers", "2").code == alone.code == 1
    reader = batch.reader()
    ran = {trial.ran_on.worker for trial in reader.trials()}
    assert ran == {"worker 1", "worker 2"}
    assert reader.finished
    assert judged(batch, "workers.sqlite") == expected


@pytest.mark.usefixtures("forked_agents", "forked_workers")
def test_the_report_of_every_kind_of_agent_is_that_of_a_single_process(shell):
    shutil.copytree(EXAMPLES, shell.folder, dirs_exist_ok=True)
    shown = ("agents", "bring_your_own", "conversations", "plugins", "trials")
    given = ("run", *shown, "-k", "not SCN-C-201", "--seed", "7", "--no-progress")  # its latency is graded
    alone = shell(*given, "--json", "alone.json")
    assert alone.code == 1, alone.err
    ended = shell(*given, "--json", "workers.json", "--workers", "2")
    assert ended.code == 1, ended.err
    assert timeless(shell.folder / "workers.json") == timeless(shell.folder / "alone.json")


def by_seed(served):
    """Right, wrong, cut off or refused, depending on the trial's seed."""
    return (
        Answer(text="I call for help now.", piece_chars=100),
        Answer(text="We wait.", piece_chars=100),
        Answer(text="I call for", finish_reason="length", piece_chars=100),
        Answer(status=400, error="that cannot be answered"),
    )[served.body["seed"] % 4]


@pytest.mark.usefixtures("forked_workers")
def test_the_report_of_a_served_model_is_that_of_a_single_process(batch):
    with Loopback(by_seed) as server:
        batch.write(
            "steadyhand.toml",
            f'[providers.openai]\nbase_url = "{server.url}"\nsend_seed = true\n'
            '[prices."openai/x"]\ninput = 1.0\noutput = 2.0\n',
        )
        given = ("run", "untimed.yaml", "one.yaml", "--model", "openai/x", "--trials", "30", "--seed", "7")
        for name, workers in (("alone.json", "1"), ("workers.json", "2")):
            ended = batch(
                *given, "--json", name, "--workers", workers, "--no-progress", OPENAI_API_KEY="k-0123456789abcdef"
            )
            assert ended.code == 1, ended.err
    expected = timeless(batch.folder / "alone.json")
    assert timeless(batch.folder / "workers.json") == expected
    assert {trial["verdict"] for trial in expected["trials"]} == {"passed", "failed", "error"}


def test_killed_workers_are_replaced_and_their_trials_are_done_again(batch):
    batch.replies(SLOW)
    process = batch.start("run", "untimed.yaml", "--trials", "400", "--workers", "2", "--seed", "7")
    batch.wait_for(20, process)
    for pid in workers_of(process.pid):
        os.kill(pid, signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert err.count("was lost: its process ended by SIGKILL") == 2
    reader = batch.reader()
    assert [trial.key.index for trial in reader.trials()] == list(range(400))
    assert reader.counts()[Verdict.PASSED] == 400
    assert {trial.ran_on.worker for trial in reader.trials()} & {"worker 3", "worker 4"}


def test_workers_are_copies_of_the_driver_and_without_their_nursery_start_from_nothing(batch):
    batch.replies(SLOW)
    process = batch.start_from_nothing("run", "untimed.yaml", "--trials", "400", "--workers", "2", "--seed", "7")
    batch.wait_for(20, process)
    workers = workers_of(process.pid)
    (nursery,) = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in workers}
    assert nursery != process.pid
    os.kill(nursery, signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert err.count("was lost: its process ended by SIGKILL") == 2
    reader = batch.reader()
    assert reader.flaw() is None
    assert [trial.key.index for trial in reader.trials()] == list(range(400))
    assert {trial.ran_on.worker for trial in reader.trials()} == {f"worker {number}" for number in (1, 2, 3, 4)}


def test_a_killed_driver_takes_its_workers_along_and_is_resumed(batch):
    batch.replies(SLOW)
    process = batch.start("run", "untimed.yaml", "--trials", "300", "--workers", "2", "--seed", "7", "--no-progress")
    batch.wait_for(50, process)
    workers = workers_of(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    while any(alive(pid) for pid in workers):
        time.sleep(0.005)
    kept = {trial.key: trial for trial in batch.reader().trials()}
    with forked("steadyhand.compose.worker_child:main", "worker_process"):
        ended = batch("resume", "last", "--no-progress", "--workers", "3")
    assert ended.code == 0, ended.err
    found = list(batch.reader().trials())
    assert [trial.key.index for trial in found] == list(range(300))
    assert all(trial == kept.get(trial.key, trial) for trial in found)


@pytest.mark.usefixtures("forked_workers")
def test_an_interrupt_finishes_what_is_in_flight(batch):
    batch.replies(SLOW)
    process = batch.start("run", "untimed.yaml", "--trials", "5000", "--workers", "2", "--seed", "7")
    batch.wait_for(50, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, out + err
    counts = batch.reader().counts()
    assert 50 <= counts[Verdict.PASSED] < 5000
    assert sum(counts.values()) == counts[Verdict.PASSED]


def test_a_second_interrupt_ends_the_workers_at_once(batch):
    batch.replies(STUCK)
    process = batch.start("run", "untimed.yaml", "--trials", "20", "--workers", "2")
    batch.wait_for(0, process)
    while len(workers_of(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    workers = workers_of(process.pid)
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "stopping" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert not any(alive(pid) for pid in workers)
    assert batch.reader().counts()[Verdict.ERROR] == 0


def test_what_a_stopped_worker_measured_is_not_graded(batch):
    timed = DECISION.format(id="SCN-C-002", prompt="What now?")
    strict = "target_ms: 180, acceptable_ms: 190, critical_ms: 200"
    batch.write("timed.yaml", timed.replace("target_ms: 5000, acceptable_ms: 10000, critical_ms: 20000", strict))
    batch.replies("rules:\n  - reply: I call for help now.\n    delay_ms: 100\n")
    process = batch.start(
        "run", "timed.yaml", "--trials", "24", "--workers", "2", "--concurrency", "4", "--no-progress", "--seed", "7"
    )
    while len(workers_of(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    busy = workers_of(process.pid)[0]
    while process.poll() is None:
        for each, seconds in ((signal.SIGSTOP, 0.4), (signal.SIGCONT, 0.15)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(busy, each)
            time.sleep(seconds)
    process.communicate()
    by_worker = {"worker 1": [], "worker 2": []}
    for trial in batch.reader().trials():
        by_worker[trial.ran_on.worker].append(trial)
    stopped, steady = sorted(by_worker.values(), key=lambda trials: -sum(each.ran_on.lag_ms for each in trials))
    spoiled = [each for trial in stopped for each in (*trial.earlier, trial) if each.judged.latency_spoiled]
    assert spoiled, "it was stopped in the middle of calls"
    assert all("the event loop lagged" in str(each.judged.latency_spoiled) for each in spoiled)
    assert not any(trial.judged.verdict is Verdict.FAILED for trial in stopped + steady)
    assert Verdict.PASSED in {trial.judged.verdict for trial in steady}


ENDS = """\
import os, signal, threading

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

def ended():
    os._exit(0)

def out_of_memory():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1, 1))
    hoard = [bytes(2**20)]

def one_way_or_the_other():
    try:
        os.mkdir("killed")
    except FileExistsError:
        ended()
    killed()

def agent(message):
    if "What now?" in message:
        return "I call for help now."
    WAY()
"""


@pytest.mark.usefixtures("forked_workers")
def test_a_trial_that_ends_every_worker_is_an_error_of_its_own(batch):
    batch.write("mine.py", ENDS.replace("WAY", "one_way_or_the_other"))
    batch.write("two.yaml", UNTIMED.replace("untimed", "ends").replace("What now?", "End it"))
    ended = batch(
        "run", "two.yaml", "untimed.yaml", "--agent", "python:./mine.py:agent", "--in-process", "--workers", "2"
    )
    assert ended.code == 3, ended.err
    assert ended.err.count("was lost: its process ended by SIGKILL") == 1
    assert len(re.findall(r"note: worker \d was lost: its process ended with exit code 0", ended.err)) == 2
    trials = {trial.key.scenario_id: trial for trial in batch.reader().trials()}
    innocent, trial = trials["untimed"], trials["ends"]
    assert innocent.judged.verdict is Verdict.PASSED
    assert trial.judged.verdict is Verdict.ERROR
    assert "3 workers were lost" in trial.judged.reason


@pytest.mark.usefixtures("forked_workers")
def test_a_trial_without_memory_is_an_error(batch):
    batch.write("mine.py", ENDS.replace("WAY", "out_of_memory"))
    batch.write("two.yaml", UNTIMED.replace("untimed", "ends").replace("What now?", "End it"))
    one_worker = ("--workers", "2", "--concurrency", "1")
    ended = batch("run", "two.yaml", "--agent", "python:./mine.py:agent", "--in-process", *one_worker, "--no-progress")
    assert ended.code == 3, ended.out + ended.err
    (trial,) = batch.reader().trials()
    assert trial.judged.verdict is Verdict.ERROR


@pytest.mark.usefixtures("forked_workers")
def test_a_limit_holds_for_the_run_and_not_for_each_worker(batch):
    with Loopback(Answer(text="I call for help now.")) as server:
        batch.write("steadyhand.toml", f'[providers.openai]\nbase_url = "{server.url}"\nrequests_per_minute = 30\n')
        process = batch.start(
            "run", "untimed.yaml", "--model", "openai/x", "--trials", "40", "--workers", "2", "--concurrency", "40",
            OPENAI_API_KEY="k-0123456789abcdef",
        )  # fmt: skip
        batch.wait_for(30, process)
        process.send_signal(signal.SIGINT)
        process.kill()
        process.communicate()
        assert server.received == 30


SERVED = """\
[providers.openai]
base_url = "{url}"
[prices."openai/x"]
input = 1.0
output = 2.0
"""
"""A call to the server takes 7 and 5 tokens."""


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("limit", [("--max-tokens", "120"), ("--max-cost", "0.00017")])
def test_a_budget_holds_for_the_run(batch, limit):
    with Loopback(Answer(text="I call for help now.")) as server:
        batch.write("steadyhand.toml", SERVED.format(url=server.url))
        ended = batch(
            "run", "untimed.yaml", "--model", "openai/x", "--trials", "400", "--workers", "2", "--concurrency", "4",
            *limit, "--no-progress", OPENAI_API_KEY="k-0123456789abcdef",
        )  # fmt: skip
        assert ended.code == 3, ended.err
        assert "status: interrupted" in ended.out
        assert 10 <= server.received < 10 + 4, "ten calls are paid for; what was in flight then is finished"


@pytest.mark.usefixtures("forked_workers")
def test_an_outage_is_one_for_all_workers(batch):
    """Ten failures in a row, not all from one worker, and one call that checks whether the server is back."""

    def down_at_first(served):
        return Answer(status=503) if served.number <= 12 else Answer(text="I call for help now.")

    with Loopback(down_at_first) as server:
        batch.write("steadyhand.toml", SERVED.format(url=server.url))
        process = batch.start(
            "run", "untimed.yaml", "--model", "openai/x", "--trials", "12", "--workers", "2", "--concurrency", "12",
            "--retries", "9", OPENAI_API_KEY="k-0123456789abcdef",
        )  # fmt: skip
        out, err = process.communicate()
        assert process.returncode == 0, out + err
        assert err.count("openai seems to be down; holding new calls") == 1
        assert err.count("openai is back") == 1
        assert server.received == 24


@pytest.mark.usefixtures("forked_workers")
def test_until_decided_stops_all_workers(batch):
    batch.replies(SLOW)
    given = ("run", "untimed.yaml", "--trials", "2000", "--until", "decided", "--pass-rate", "0.9", "--seed", "7")
    for name, workers in (("alone.json", "1"), ("workers.json", "2")):
        ended = batch(*given, "--workers", workers, "--concurrency", "8", "--no-progress", "--json", name)
        assert ended.code == 0, ended.err
    alone, found = (json.loads((batch.folder / name).read_text()) for name in ("alone.json", "workers.json"))
    decided = alone["scenarios"][0]["until"]
    assert decided["decision"] == "passed"
    assert found["scenarios"][0]["until"] == decided
    assert decided["trials"] <= len(found["trials"]) < decided["trials"] + 4 * 8


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--record", "tape"), "a recording is written by one process"),
        (("--replay", "tape"), "a recording is replayed by one process"),
    ],
)
def test_what_only_one_process_can_do_is_refused(batch, given, told):
    ended = batch("run", "untimed.yaml", "--workers", "2", *given)
    assert ended.code == 2
    assert told in ended.err


NOT_IN_A_WORKER = """\
import sys

if "steadyhand.compose.worker_child" in sys.modules:
    raise RuntimeError("not here")

def agent(turn):
    return "I call for help now."
"""


@pytest.mark.usefixtures("forked_workers")
def test_a_worker_that_cannot_start_stops_the_run(batch):
    batch.write("mine.py", NOT_IN_A_WORKER)
    ended = batch(
        "run", "untimed.yaml", "--agent", "python:./mine.py:agent", "--in-process", "--workers", "2", "--no-progress"
    )
    assert ended.code == 2, ended.out + ended.err
    assert "RuntimeError: not here" in ended.err


def test_an_address_at_which_nothing_listens(batch):
    ended = batch("run", "untimed.yaml", "--engine", "ray", "--ray-address", "127.0.0.1:1")
    assert ended.code == 2
    assert "nothing answers there" in ended.err
    assert "ray start --head" in ended.err


def test_an_address_that_is_not_ray(batch):
    with Loopback(Answer()) as server:
        address = server.url.removeprefix("http://").removesuffix("/v1")
        ended = batch("run", "untimed.yaml", "--engine", "ray", "--ray-address", address)
    assert ended.code == 2
    assert ended.err.startswith(f"steadyhand: --ray-address {address}: the server there is not Ray")


def test_an_interrupt_while_a_cluster_is_waited_for(batch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = batch.start("run", "untimed.yaml", "--engine", "ray", "--ray-address", address)
        connection, _ = silent.accept()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        connection.close()
    assert process.returncode == 130, out + err
    assert "Traceback" not in err


def test_ray_is_not_installed(batch):
    batch.write("without/ray.py", "raise ImportError('No module named ray')\n")
    path = os.pathsep.join((str(batch.folder / "without"), *sys.path))
    ended = batch("run", "untimed.yaml", "--engine", "ray", PYTHONPATH=path)
    assert ended.code == 2
    assert (
        ended.err == "steadyhand: --engine ray: Ray is not installed; install it with `pip install 'steadyhand[ray]'`\n"
    )


def test_a_worker_that_is_stopped_is_replaced_and_nothing_runs_twice(batch):
    """Half a minute of silence is stated in the documentation."""
    with Loopback(lambda request: Answer(text="I call for help now.", delay_s=0.02)) as server:
        batch.write("steadyhand.toml", f'model = "openai/m"\n[providers.openai]\nbase_url = "{server.url}"\n')
        process = batch.start("run", "untimed.yaml", "--trials", "300", "--workers", "2", "--seed", "3")
        batch.wait_for(20, process)
        stopped = workers_of(process.pid)[0]
        os.kill(stopped, signal.SIGSTOP)
        out, err = process.communicate()
    assert process.wait() == 0, out + err
    assert "it was silent for 30 s, and was killed" in err
    assert not alive(stopped)
    reader = batch.reader()
    assert reader.finished
    assert reader.counts()[Verdict.PASSED] == 300
    assert len({trial.key for trial in reader.trials()}) == 300


BUSY = """\
id: busy
name: Checks that compute
description: Each looks through the whole answer.
agent: model
environment: {type: local}
run:
  - input: What now?
    evaluations:
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_workers_run_trials_that_compute_unless_they_are_few_or_wait(batch):
    answer = " ".join(f"call {number} for help now and stay with me," for number in range(300))
    checks = "".join(
        f"      - {{type: regex_match, pattern: '(?:\\w+\\W+)*?call {299 - at} for'}}\n" for at in range(10)
    )
    batch.write("busy.yaml", f"{BUSY}{checks}judgment: {{strategy: all_pass}}\n")
    batch.replies(f'rules:\n  - reply: "{answer}"\n')
    ended = batch("run", "busy.yaml", "--trials", "1500", "--seed", "7")
    assert ended.code == 0, ended.err
    assert re.search(r"note: \d+ workers run the rest", ended.err), ended.err
    trials = list(batch.reader().trials())
    assert [trial.key.index for trial in trials] == list(range(1500))
    assert {trial.ran_on and trial.ran_on.worker for trial in trials} >= {None, "worker 1", "worker 2"}
    batch.record().unlink()

    batch.replies(RIGHT)
    ended = batch("run", "untimed.yaml", "--trials", "1000")
    assert "note: one process runs the rest" in ended.err
    assert "too short for workers to gain" in ended.err
    assert {trial.ran_on for trial in batch.reader().trials()} == {None}
    batch.record().unlink()

    assert "run the rest" not in batch("run", "untimed.yaml", "--trials", "1000", "--workers", "1").err
    assert "too short" in batch("run", "untimed.yaml", "--trials", "1000", "--workers", "auto").err
