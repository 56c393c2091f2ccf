"""Exports a run in Inspect's log format, with Inspect's own package."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from steadyhand.errors import SetupError
from steadyhand.reading.run import Reading
from steadyhand.records.evaluation import Verdict, check_ids
from steadyhand.records.run import TrialRecord, exported_transcript

# What Inspect calls correct, incorrect and no answer. A trial in error has no score and an error.
_VALUES = {Verdict.PASSED: "C", Verdict.FAILED: "I", Verdict.INCONCLUSIVE: "N"}


def write_inspect_log(reading: Reading, file: Path) -> int:
    """Write the log and return the number of samples. Inspect keeps a whole log in memory, and so does this.

    Raises `SetupError` when Inspect is not installed.
    """
    log = _inspect()
    header = reading.header
    samples = [_sample(log, trial) for trial in reading.read()]
    models = sorted({trial["model"] for trial in (sample.metadata for sample in samples) if trial["model"]})
    correct = sum("verdict" in (sample.scores or {}) and sample.scores["verdict"].value == "C" for sample in samples)
    decided = sum("verdict" in (sample.scores or {}) for sample in samples)
    metrics = {"accuracy": log.EvalMetric(name="accuracy", value=correct / decided)} if decided else {}
    whole = log.EvalLog(
        status="success" if reading.status == "finished" else "cancelled",
        eval=log.EvalSpec(
            created=header.started_at,
            task="steadyhand",
            run_id=header.id,
            dataset=log.EvalDataset(
                name="steadyhand", samples=len({s.id for s in samples}), sample_ids=sorted({s.id for s in samples})
            ),
            model=", ".join(models) or "none",
            config=log.EvalConfig(epochs=max((sample.epoch for sample in samples), default=1)),
            metadata={"steadyhand_version": header.steadyhand_version, "seed": header.seed, "origin": header.origin},
        ),
        results=log.EvalResults(
            total_samples=header.planned,
            completed_samples=len(samples),
            scores=[log.EvalScore(name="verdict", scorer="steadyhand", metrics=metrics)],
            metadata={"scenarios_passed": reading.scenarios.passed},
        ),
        samples=samples,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    log.write_eval_log(whole, str(file))
    return len(samples)


def _inspect() -> Any:
    try:
        return importlib.import_module("inspect_ai.log")
    except ImportError as error:
        raise SetupError("Inspect's log format needs its package; install it with `pip install inspect_ai`") from error


def _sample(log: Any, trial: TrialRecord) -> Any:
    chat: Any = importlib.import_module("inspect_ai.model")
    score: Any = importlib.import_module("inspect_ai.scorer").Score
    kinds: dict[str, Any] = {
        "system": chat.ChatMessageSystem,
        "user": chat.ChatMessageUser,
        "assistant": chat.ChatMessageAssistant,
        "tool": chat.ChatMessageTool,
    }
    said = [kinds[each.message.role](content=each.message.content) for each in exported_transcript(trial)]
    asked = next((at for at, message in enumerate(said) if message.role == "assistant"), len(said))
    judged = trial.judged
    error: Any = None
    scores: dict[str, Any] = {}
    if judged.verdict is Verdict.ERROR:
        error = log.EvalError(message=judged.reason, traceback="", traceback_ansi="")
    else:
        scores["verdict"] = score(value=_VALUES[judged.verdict], explanation=judged.reason)
    for check, result in zip(check_ids(trial.evaluations), trial.evaluations, strict=True):
        if result.verdict in _VALUES:
            scores[check] = score(value=_VALUES[result.verdict], explanation=result.message)
    return log.EvalSample(
        id=trial.key.scenario_id,
        epoch=trial.key.index + 1,
        input=said[:asked] or trial.scenario_name,
        target="",
        messages=said,
        scores=scores,
        error=error,
        metadata={
            "name": trial.scenario_name,
            "agent": trial.agent,
            "model": trial.model,
            "seed": trial.seed,
            "verdict": judged.verdict.value,
            "outcome": judged.outcome.value if judged.outcome else None,
            "latency_ms": judged.latency_ms,
            "failure_classes": [kind.value for kind in judged.failure_classes],
            "origin": trial.origin,
        },
    )
