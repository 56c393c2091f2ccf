"""--engine ray on a real cluster of a head and two nodes, on loopback: a node and the driver are killed during runs."""

import os
import shutil
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

from steadyhand.records.evaluation import Verdict
from support.command_server import CommandServer
from support.shell import UNTIMED, Batch
from support.timeless import timeless

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.filterwarnings("ignore")]
TRIALS = 2500
EXAMPLES = Path(__file__).parents[2] / "examples"
ENVY = """\
import os

def agent(message):
    seen = [name for name in ("KEPT_API_KEY", "SENT_API_KEY", "FROM_FILE") if name in os.environ]
    return "I call for help now, only " + " ".join(seen)
"""
REPLIES = """\
rules:
  - contains: Something
    reply: No.
    delay_ms: 20
  - reply: I call for help now.
    delay_ms: 20
"""
RUN = (
    "run",
    "untimed.yaml",
    "two.yaml",
    "--trials",
    str(TRIALS),
    "--seed",
    "7",
    "--concurrency",
    "32",
)
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Makes Ray use 127.0.0.1 instead of the address by which other machines reach this one."""

FINDS_THE_DEAD_SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}


@pytest.fixture
def batch(tmp_path):
    server = CommandServer()
    made = Batch(tmp_path, server)
    made.fill()
    made.decision("two.yaml", id="SCN-C-002", prompt="Something else?")
    made.replies(REPLIES)
    yield made
    server.close()


NODE = {"node_ip_address": "127.0.0.1", "include_dashboard": False, "object_store_memory": 100 * 2**20}


@pytest.fixture(scope="module")
def cluster():
    """A head that runs no trials."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RAY_USAGE_STATS_ENABLED": "0", **LOOPBACK}.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": FINDS_THE_DEAD_SOON, **NODE}
        )
        yield made
        made.shutdown()


class Told:
    """What a process writes to stderr, read as it comes: a pipe that nobody reads would block it."""

    def __init__(self, process):
        self.lines = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, args=(process.stderr,), daemon=True).start()

    def _read(self, stream):
        for line in stream:
            with self._changed:
                self.lines.append(line)
                self._changed.notify()

    def wait_for(self, text):
        with self._changed:
            self._changed.wait_for(lambda: any(text in line for line in self.lines))


def verdicts(reader):
    return {
        trial.key: (trial.judged.verdict, trial.seed, [(each.type, each.verdict) for each in trial.evaluations])
        for trial in reader.trials()
    }


def test_nodes_come_and_go_and_the_driver_is_killed_and_nothing_is_lost_or_done_twice(batch, cluster):
    alone = batch(*RUN)
    assert alone.code == 1, alone.err
    expected = verdicts(batch.reader())
    batch.record().unlink()

    process = batch.start(*RUN, "--engine", "ray", "--ray-address", cluster.address, "--workers", "2", **LOOPBACK)
    told = Told(process)
    told.wait_for("no worker is ready yet")
    nodes = [cluster.add_node(num_cpus=2, **NODE) for _ in range(2)]
    batch.wait_for(800, process)
    busy = {trial.ran_on.node for trial in batch.reader().trials()}  # Ray may have put both workers on either node
    cluster.remove_node(next(node for node in nodes if node.node_id[:12] in busy), allow_graceful=False)
    batch.wait_for(2000, process)
    assert process.poll() is None, told.lines
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {trial.key: trial for trial in batch.reader().trials()}
    assert len(kept) < 2 * TRIALS

    address = ("--engine", "ray", "--ray-address", cluster.address)
    ended = batch("resume", "last", *address, "--workers", "2", **LOOPBACK)
    assert ended.code == 1, ended.out + ended.err
    reader = batch.reader()
    found = list(reader.trials())
    assert max(Counter(trial.key for trial in found).values()) == 1
    assert len(found) == 2 * TRIALS
    assert reader.counts()[Verdict.ERROR] == 0
    assert all(trial == kept.get(trial.key, trial) for trial in found)
    assert verdicts(reader) == expected
    assert len({trial.ran_on.node for trial in found}) == 2
    print(Counter((trial.ran_on.node, trial.ran_on.worker) for trial in found), ended.err[-300:])


def test_what_a_trial_needs_travels_and_secrets_do_not(batch, cluster):
    """Plugins, agents' sources, scripts and files are taken from the examples."""
    if len(cluster.list_all_nodes()) == 1:
        cluster.add_node(num_cpus=2, **NODE)
    shutil.copytree(EXAMPLES, batch.folder, dirs_exist_ok=True)
    batch.write("envy.py", ENVY)
    batch.write("envy.scenario.yaml", UNTIMED.replace("untimed", "envy"))
    batch.write(".env", "FROM_FILE=value-of-the-file\n")
    shown = ("agents", "bring_your_own", "conversations", "plugins", "trials")
    given = ("run", *shown, "-k", "not SCN-C-201", "--seed", "7", "--no-progress")
    alone = batch(*given, "--json", "alone.json")
    there = ("--engine", "ray", "--ray-address", cluster.address, "--workers", "2")
    ended = batch(*given, "--json", "ray.json", *there, **LOOPBACK)
    assert ended.code == alone.code == 1, ended.err
    assert timeless(batch.folder / "ray.json") == timeless(batch.folder / "alone.json")

    secrets = {"KEPT_API_KEY": "value-kept-here", "SENT_API_KEY": "value-sent-there"}
    asked = ("run", "envy.scenario.yaml", "--agent", "python:./envy.py:agent", "--in-process", "--json", "envy.json")
    batch(*asked, *there, "--ray-env", "SENT_API_KEY", "--no-progress", **secrets, **LOOPBACK)
    said = (batch.folder / "envy.json").read_text()
    assert "only SENT_API_KEY" in said
    assert "value-" not in said


def test_a_ray_of_this_machine_is_started_and_stopped(batch):
    ended = batch("run", "untimed.yaml", "--trials", "20", "--engine", "ray", "--workers", "1", "--no-progress")
    assert ended.code == 0, ended.err
    assert {trial.ran_on.worker for trial in batch.reader().trials()} == {"worker 1"}


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_ray_of_this_machine_ends_with_the_driver(batch, way):
    process = batch.start("run", "untimed.yaml", "--trials", "5000", "--engine", "ray", "--workers", "1")
    batch.wait_for(20, process)
    started = {each for each in Path("/proc").glob("[0-9]*") if daemon_of(each, process.pid)}
    assert len(started) == 2
    process.send_signal(way)
    _, err = process.communicate()
    assert process.returncode == (-9 if way is signal.SIGKILL else 130)
    assert "logging.cc" not in err
    while any(each.exists() for each in started):
        pass


def test_without_its_head_a_run_is_interrupted_and_resumed_without_ray(batch):
    given = ("run", "untimed.yaml", "--trials", "3500", "--seed", "7", "--concurrency", "2", "--no-progress")
    process = batch.start(*given, "--engine", "ray", "--workers", "1")
    batch.wait_for(20, process)
    (head,) = [
        each
        for each in Path("/proc").glob("[0-9]*")
        if daemon_of(each, process.pid) and "gcs_server" in (each / "stat").read_text()
    ]
    os.kill(int(head.name), signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == 3, out + err
    assert "status: interrupted" in out
    assert "the head of the Ray cluster" in out
    ended = batch("resume", "last", "--engine", "local", "--workers", "2", "--no-progress")
    assert ended.code == 0, ended.out + ended.err
    assert [trial.key.index for trial in batch.reader().trials()] == list(range(3500))


def daemon_of(folder, pid):
    """Whether it is one of Ray's own processes, started by this one."""
    try:
        name, _, fields = (folder / "stat").read_text().partition(") ")
    except OSError:
        return False
    return fields.split()[1] == str(pid) and ("gcs_server" in name or "raylet" in name)
