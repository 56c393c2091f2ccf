"""A server that fails three calls in ten in every way there is."""

import asyncio
import hashlib
import sys

from holdfast.records.event import Retried
from holdfast.records.verdict import Verdict
from holdfast.testing import Answer, ModelServer

FAULTS = (
    Answer(status=429, headers={"Retry-After": "0"}),
    Answer(status=500),
    Answer(fault="reset"),
    Answer(text="I call for help now. " * 5, cut_after=2),
    Answer(body=b"<html>bad gateway</html>"),
)


def fault_for(seed):
    draw = hashlib.sha256(str(seed).encode()).digest()
    return FAULTS[draw[1] % len(FAULTS)] if draw[0] % 10 < 3 else None


def lagged(trial):
    """On a busy machine our own loop may be late, which also takes the grade away."""
    return any("lagged" in reason for reason in trial.judged.latency_spoiled)


class Unreliable:
    """Fails the first call of three seeds in ten; says the right thing to one prompt and the wrong one to another."""

    def __init__(self):
        self.seen = set()
        self.faults = 0

    def __call__(self, request):
        seed = request.body["seed"]
        fault = fault_for(seed) if seed not in self.seen else None
        self.seen.add(seed)
        self.faults += fault is not None
        return fault or Answer(text="I call for help now." if request.prompt == "What now?" else "I wait.")


async def test_right_verdicts_every_fault_an_event_and_no_grade_on_a_retried_call(batch):
    batch.decision("two.yaml", id="SCN-C-002", prompt="And now?")
    behaviour = Unreliable()
    async with ModelServer(behaviour) as server:
        batch.write(
            "holdfast.toml", f'[providers.openai]\nbase_url = "{server.base_url}"\noptions = {{send_seed = true}}\n'
        )
        command = ("run", "one.yaml", "two.yaml", "--model", "openai/m", "--trials", "60", "--concurrency", "32")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", *command, "--retries", "6", "--seed", "5", "--no-progress"),
            cwd=batch.folder,
            env=batch.environment(OPENAI_API_KEY="none"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
    assert process.returncode == 1, out + err
    trials = list(batch.reader().trials())
    assert len(trials) == 120
    retried = 0
    for trial in trials:
        right = trial.key.scenario_id == "SCN-C-001"
        if not lagged(trial):
            assert trial.judged.verdict is (Verdict.PASSED if right else Verdict.FAILED), trial
        assert right or trial.judged.verdict is Verdict.FAILED
        for each in (*trial.earlier, trial):
            retries = [event for event in each.events if isinstance(event, Retried)]
            retried += len(retries)
            graded = [check.verdict for check in each.evaluations if check.type == "latency_budget"]
            if retries:
                assert each.judged.latency_tier is None
                assert graded == [Verdict.INCONCLUSIVE]
                assert "retried" in each.judged.latency_spoiled[0]
            elif not lagged(each):
                assert graded == [Verdict.PASSED]
    faulty = [trial for trial in trials if fault_for(trial.seed)]
    assert 20 < len(faulty) < 60
    assert retried == behaviour.faults == len(faulty)
    assert all(trial.earlier for trial in faulty if trial.key.scenario_id == "SCN-C-001")
