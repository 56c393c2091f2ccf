"""A server that never answers properly ends a trial within --wait-limit, and a run within --stall-limit."""

from __future__ import annotations

import json
import time

import pytest

from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import ModelCalled
from steadyhand.testing import Answer
from support.loopback import Loopback

pytestmark = pytest.mark.system

JUDGED = """\
id: judged
name: It is judged
description: A judge decides.
agent: model
environment: {type: local}
run:
  - input: What now?
    evaluations: [{type: llm_judge, prompt: Is it right?, expected: "yes"}]
judgment: {strategy: all_pass}
"""


def refusing(status=429, **headers):
    return lambda request: Answer(
        status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def provider(batch, server, more=""):
    batch.write("steadyhand.toml", f'model = "openai/m"\n{more}\n[providers.openai]\nbase_url = "{server.url}"\n')


@pytest.mark.parametrize(
    "after",
    [
        None,
        "0",
        "-5",
        "0.001",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "soon",
        "nan",
        "inf",
        "1e9",
        "1",
        "99999999999999999999",
    ],
)
def test_a_server_that_always_limits_us_ends_the_trial(batch, after):
    headers = {} if after is None else {"Retry_After": after}
    with Loopback(refusing(**headers)) as server:
        provider(batch, server)
        ended = batch("run", "untimed.yaml", "--retries", "1", "--wait-limit", "3", "--no-progress")
        asked = server.received
    assert ended.code == 3, ended.out + ended.err
    (trial,) = batch.reader().trials()
    assert trial.judged.verdict is Verdict.ERROR
    assert "--wait-limit" in trial.judged.reason
    assert asked < 15
    assert trial.duration_ms < 3000 + 60_000  # far from the minutes that it took without a limit


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]])
def test_many_trials_of_a_server_that_always_limits_us_end_with_one_message(batch, workers):
    with Loopback(refusing()) as server:
        provider(batch, server)
        given = ("run", "untimed.yaml", "--trials", "100", "--wait-limit", "3", "--stall-limit", "6", *workers)
        ended = batch(*given, "--no-progress")
    assert ended.code == 3, ended.out + ended.err
    assert ended.err.count("nothing has succeeded for") == 1
    assert "(--stall-limit 6)" in ended.err
    assert "steadyhand resume" in ended.err
    reader = batch.reader()
    assert not reader.finished
    assert set(reader.counts().items()) <= {(verdict, 0) for verdict in Verdict} | {
        (Verdict.ERROR, reader.counts()[Verdict.ERROR])
    }
    assert len(reader.to_do()) == 100
    with Loopback(lambda request: Answer(text="I call for help now.")) as server:
        provider(batch, server)
        assert batch("resume", "last", "--force", "--no-progress").code == 0
    assert batch.reader().counts()[Verdict.PASSED] == 100


def test_a_server_that_is_down_ends_the_trial_too(batch):
    with Loopback(refusing(status=503)) as server:
        provider(batch, server)
        given = ("run", "untimed.yaml", "--trials", "30", "--wait-limit", "3", "--retries", "20", "--no-progress")
        ended = batch(*given, "--concurrency", "30")
    assert ended.code == 3
    assert batch.reader().counts()[Verdict.ERROR] == 30


@pytest.mark.parametrize("who", ["judge", "http agent"])
def test_the_limit_holds_for_whoever_asks(batch, who):
    """The judge of a trial, and an agent behind a URL, share the limit with its model."""
    batch.write("judged.yaml", JUDGED)
    with (
        Loopback(lambda request: Answer(text="I call for help now.")) as good,
        Loopback(refusing()) as bad,
    ):
        provider(batch, good, f'judge = "limited/m"\n[providers.limited]\ntype = "openai"\nbase_url = "{bad.url}"\n')
        given = ["judged.yaml"] if who == "judge" else ["untimed.yaml", "--agent", f"http:{bad.url}"]
        ended = batch("run", *given, "--wait-limit", "2", "--no-progress")
    assert ended.code == 3, ended.out + ended.err
    assert "--wait-limit" in ended.out


def test_waiting_for_our_own_limits_does_not_count(batch):
    """The configuration allows two calls a minute, so the third waits for a minute, though 2 s are the limit."""
    with Loopback(lambda request: Answer(text="I call for help now.")) as server:
        provider(batch, server)
        file = batch.folder / "steadyhand.toml"
        file.write_text(file.read_text() + "requests_per_minute = 2\n")
        given = ("run", "untimed.yaml", "--trials", "3", "--wait-limit", "2", "--stall-limit", "4", "--no-progress")
        ended = batch(*given)
    assert ended.code == 0, ended.out + ended.err


def test_a_server_that_answers_others_is_waited_for(batch):
    """Every third request is answered: no call waits for long without somebody being served."""
    with Loopback(
        lambda request: Answer(text="I call for help now.") if request.number % 3 == 0 else Answer(status=429)
    ) as server:
        provider(batch, server)
        ended = batch("run", "untimed.yaml", "--trials", "6", "--wait-limit", "30", "--no-progress")
    assert ended.code == 0, ended.out + ended.err


def test_both_limits_can_be_configured(batch):
    began = time.monotonic()
    with Loopback(refusing()) as server:
        provider(batch, server, "wait_limit_s = 60\nstall_limit_s = 3")
        ended = batch("run", "untimed.yaml", "--no-progress")
    assert ended.code == 3
    assert "(--stall-limit 3)" in ended.err
    assert time.monotonic() > began


USAGES = [
    {"prompt_tokens": -200, "completion_tokens": -160},
    {"prompt_tokens": 10**13, "completion_tokens": 1},
    {"prompt_tokens": 1.5, "completion_tokens": 2},
    {"prompt_tokens": True, "completion_tokens": True},
    {"prompt_tokens": "12", "completion_tokens": []},
    {"prompt_tokens": {}, "completion_tokens": 1},
    "lots",
    [1, 2],
    7,
]


@pytest.mark.parametrize("usage", USAGES)
@pytest.mark.parametrize("limit", [[], ["--max-tokens", "100"]])
def test_an_impossible_usage_is_not_counted(batch, usage, limit):
    answer = {
        "choices": [{"message": {"role": "assistant", "content": "I call for help now."}, "finish_reason": "stop"}],
        "usage": usage,
    }
    body = json.dumps(answer).encode()
    with Loopback(lambda request: Answer(body=body, content_type="application/json")) as server:
        provider(batch, server)
        ended = batch("run", "untimed.yaml", "--trials", "20", "--concurrency", "1", *limit)
    assert ended.err.count("impossible number of tokens") == 1, ended.out + ended.err
    assert "-360" not in ended.out + ended.err
    calls = [event for trial in batch.reader().trials() for event in trial.events if isinstance(event, ModelCalled)]
    assert calls
    assert all(call.usage is None for call in calls)
    if limit:
        assert ended.code == 3
        assert "--max-tokens cannot be enforced" in ended.err
        assert batch.reader().counts()[Verdict.PASSED] == 1
    else:
        assert ended.code == 0
