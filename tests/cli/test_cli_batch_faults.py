"""A server that fails three calls in ten in every way: right verdicts, every fault is an event, no grade is spoiled.

The expected outcome is computed from what the server reports that it did.
"""

import asyncio
import hashlib
import re
from collections import Counter, defaultdict

import pytest

from steadyhand.records.evaluation import LatencyTier, Verdict
from steadyhand.records.event import ModelCalled, Retried
from steadyhand.testing import Answer, ModelServer

pytestmark = pytest.mark.system

LONG = "I call for help now. " * 5
EVENTS = "text/event-stream"
FAULTS = {
    "limited, wait": (Answer(status=429, headers={"Retry-After": "0.02"}), r"is rate limiting us \(429\)"),
    "limited": (Answer(status=429), r"is rate limiting us \(429\)"),
    "error": (Answer(status=500), r"failed \(500\)"),
    "overloaded": (Answer(status=503, headers={"Retry-After": "0"}), r"failed \(503\)"),
    "half a stream": (Answer(text=LONG, cut_after=2), "the stream ended before|broke in the middle"),
    "a page": (Answer(body=b"<html>bad gateway</html>"), "is not a chat completion"),
    "no choice": (Answer(body=b'{"choices": 7}', content_type="application/json"), "is not a chat completion"),
    "nothing": (Answer(body=b""), "is not a chat completion"),
    "noise in a stream": (Answer(body=b"data: {nonsense\n\n", content_type=EVENTS), "is not a chat completion"),
    "an error in a stream": (Answer(text=LONG, stream_error="overloaded"), "reported an error in its answer"),
}
JUDGED = """\
id: judged
name: Judged
description: A judge of the same server decides.
agent: model
environment: {type: local}
run:
  - input: And then?
    evaluations: [{type: llm_judge, prompt: Is help called?, expected: "yes"}]
judgment: {strategy: all_pass}
"""


def draw(*what):
    return hashlib.sha256(repr(what).encode()).digest()


def is_right(scenario_id, seed):
    """In the second scenario half of the trials get a wrong answer; in the first and third all answers are right."""
    return scenario_id != "SCN-C-002" or draw(seed)[0] % 2 == 0


class Unreliable:
    """Fails three calls in ten, by their seed and number, so that every run sees the same faults.

    `served` has, for each seed and model, what was done in order: the name of a fault, or "answered".
    """

    def __init__(self, *, until=10**6):
        self._until = until
        self.served = defaultdict(list)

    def __call__(self, request):
        seed, model = request.body["seed"], request.body["model"]
        done = self.served[seed, model]
        first, second = draw(seed, model, len(done))[:2]
        if first % 10 < 3 and len(done) < self._until:
            done.append(list(FAULTS)[second % len(FAULTS)])
            return FAULTS[done[-1]][0]
        done.append("answered")
        if model == "judge":
            return Answer(json={"judgment": "yes", "confidence": 1.0, "reasoning": "so", "capabilities": {}})
        scenario_id = {"What now?": "SCN-C-001", "And now?": "SCN-C-002"}.get(request.prompt, "judged")
        return Answer(text="I call for help now." if is_right(scenario_id, seed) else "I wait.")

    def faults(self, seed, model):
        return [what for what in self.served[seed, model] if what != "answered"]

    def measurements(self, seed):
        """How many calls were refused before each answer from the model under test."""
        refused = [0]
        for what in self.served[seed, "m"]:
            if what == "answered":
                refused.append(0)
            else:
                refused[-1] += 1
        return refused[:-1]


TARGET_MS = 5000
"""The target of the scenarios' budget."""


def call_of(trial):
    (call,) = [event for event in trial.events if isinstance(event, ModelCalled) and event.purpose == "agent"]
    return call


def lagged(trial):
    """On a busy machine our own loop may lag, though not enough to miss the target's time."""
    return call_of(trial).timing.loop_lag_ms > 25


def within_target(trial):
    """Whether everything, including failed attempts and the waits between them, fitted into the target's time."""
    first, *_, last = (*call_of(trial).timing.attempts, call_of(trial).timing.attempts[-1])
    return last.last_byte_ms - first.started_ms <= TARGET_MS


async def run(batch, server, *command):
    settings = f'[providers.openai]\nbase_url = "{server.base_url}"\nsend_seed = true\n'
    batch.write("steadyhand.toml", settings)
    ended = await asyncio.to_thread(batch, *command, "--no-progress", OPENAI_API_KEY="none")
    return ended.code, ended.out, ended.err


@pytest.fixture
def three(batch):
    batch.decision("two.yaml", id="SCN-C-002", prompt="And now?")
    batch.write("judged.yaml", JUDGED)
    return ("one.yaml", "two.yaml", "judged.yaml")


async def test_right_verdicts_every_fault_an_event_and_no_grade_that_a_retry_may_have_changed(batch, three):
    behaviour = Unreliable()
    async with ModelServer(behaviour) as server:
        options = ("--model", "openai/m", "--judge", "openai/judge", "--retries", "12", "--seed", "5")
        code, out, err = await run(batch, server, "run", *three, *options, "--trials", "50", "--concurrency", "32")
    assert code == 1, out + err
    trials = list(batch.reader().trials())
    assert len(trials) == 150
    for trial in trials:
        assert_events(trial, behaviour)
        assert_grades(trial, behaviour)
        assert_verdict(trial)
    met = [fault for key in behaviour.served for fault in behaviour.faults(*key)]
    assert min(Counter(met)[fault] for fault in FAULTS) > 5
    assert 0.25 < len(met) / server.received < 0.35
    retries = sum(isinstance(e, Retried) for t in trials for each in (*t.earlier, t) for e in each.events)
    assert retries == len(met)


def assert_events(trial, behaviour):
    """Every fault that the server caused appears as an event of the trial it hit, in order, and there are no others."""
    events = [event for each in (*trial.earlier, trial) for event in each.events]
    for model in ("m", "judge"):
        told = [event.reason for event in events if isinstance(event, Retried) and event.model == f"openai/{model}"]
        dealt = behaviour.faults(trial.seed, model)
        assert len(told) == len(dealt), (told, dealt)
        for reason, fault in zip(told, dealt, strict=True):
            assert re.search(FAULTS[fault][1], reason), (fault, reason)


def assert_grades(trial, behaviour):
    """A measurement is graded if and only if the retries cannot have changed the grade, and never for the agent's
    latency."""
    measured = (*trial.earlier, trial)
    refused = behaviour.measurements(trial.seed)
    assert len(measured) == len(refused)
    for each, faults in zip(measured, refused, strict=True):
        call = call_of(each)
        assert len(call.timing.attempts) == faults + 1
        if faults:
            assert call.timing.spoiled
        elif call.timing.spoiled:  # lag spoils a time only where the kernel's stamp does not hold
            assert lagged(each)
        graded = [check.verdict for check in each.evaluations if check.type == "latency_budget"]
        if trial.key.scenario_id == "judged":
            assert graded == []
        elif within_target(each):
            assert (each.judged.latency_tier, graded) == (LatencyTier.TARGET, [Verdict.PASSED])
        else:
            assert faults
            assert (each.judged.latency_tier, graded) == (None, [Verdict.INCONCLUSIVE])


def assert_verdict(trial):
    """Wrong answers fail, right ones pass, and a right one is undecided only if none of three measurements counts."""
    scenario_id = trial.key.scenario_id
    measured = (*trial.earlier, trial)
    if not is_right(scenario_id, trial.seed):
        assert trial.judged.verdict is Verdict.FAILED
        assert trial.earlier == ()
    elif scenario_id == "judged" or within_target(trial):
        assert trial.judged.verdict is Verdict.PASSED, trial.judged
        assert len(measured) <= 3
    else:
        assert trial.judged.verdict is Verdict.INCONCLUSIVE, trial.judged
        assert len(measured) == 3


async def test_without_retries_a_fault_is_an_error_and_never_a_failure_and_a_resume_repairs_it(batch, three):
    behaviour = Unreliable(until=1)
    async with ModelServer(behaviour) as server:
        command = ("run", "one.yaml", "--model", "openai/m", "--retries", "0", "--seed", "6", "--trials", "60")
        code, out, err = await run(batch, server, *command)
        assert code == 3, out + err
        faulty = set()
        for trial in batch.reader().trials():
            dealt = behaviour.faults(trial.seed, "m")
            (call,) = [event for event in trial.events if isinstance(event, ModelCalled)]
            if dealt:
                faulty.add(trial.key)
                assert re.search(FAULTS[dealt[0]][1], call.error)
                assert trial.judged.verdict is Verdict.ERROR
            else:
                assert trial.judged.verdict is Verdict.PASSED
            assert trial.judged.verdict is not Verdict.FAILED
        assert 9 < len(faulty) < 30
        asked = server.received
        code, out, err = await run(batch, server, "resume", "last")
        assert f"{len(faulty)} of 60 trials left to run" in err
        assert server.received >= asked + len(faulty)
    assert all(row.verdict is Verdict.PASSED for row in batch.reader().rows() if row.key in faulty)
