"""--engine ray on a real cluster of a head and two nodes, on loopback: a node and the driver are killed on the way."""

import signal
from collections import Counter

import pytest

from steadyhand.records.evaluation import Verdict
from support.command_server import CommandServer
from support.shell import Batch

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.filterwarnings("ignore")]
TRIALS = 2500
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
    "--no-progress",
)
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Has Ray use 127.0.0.1, and not the address that this machine has for others."""

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


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    for name, value in LOOPBACK.items():
        monkeypatch.setenv(name, value)
    from ray.cluster_utils import Cluster

    loopback = {"node_ip_address": "127.0.0.1", "include_dashboard": False, "object_store_memory": 100 * 2**20}
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": FINDS_THE_DEAD_SOON, **loopback}
    )
    made.nodes = [made.add_node(num_cpus=2, **loopback) for _ in range(2)]
    yield made
    made.shutdown()


def verdicts(reader):
    return {
        trial.key: (trial.judged.verdict, trial.seed, [(each.type, each.verdict) for each in trial.evaluations])
        for trial in reader.trials()
    }


def test_a_node_and_the_driver_are_killed_and_nothing_is_lost_or_done_twice(batch, cluster):
    alone = batch(*RUN)
    assert alone.code == 1, alone.err
    expected = verdicts(batch.reader())
    batch.record().unlink()

    process = batch.start(*RUN, "--engine", "ray", "--ray-address", cluster.address, "--workers", "2", **LOOPBACK)
    batch.wait_for(800, process)
    cluster.remove_node(cluster.nodes[0], allow_graceful=False)
    batch.wait_for(2000, process)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = {trial.key: trial for trial in batch.reader().trials()}
    assert len(kept) < 2 * TRIALS

    address = ("--engine", "ray", "--ray-address", cluster.address)
    ended = batch("resume", "last", *address, "--workers", "2", "--no-progress", **LOOPBACK)
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


def test_without_an_address_a_ray_of_this_machine_is_started_and_stopped(batch):
    ended = batch(
        "run", "untimed.yaml", "--trials", "20", "--engine", "ray", "--workers", "1", "--no-progress",
        SOME_API_KEY="not-for-the-nodes",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert {trial.ran_on.worker for trial in batch.reader().trials()} == {"worker 1"}
