"""Steadyhand runs scenarios against AI agents and models and says whether they did the right thing, safely and in time.

    import steadyhand

    result = steadyhand.run("scenarios/", model="openai/gpt-4o-mini", trials=5)
    for trial in result:
        print(trial.scenario_id, trial.verdict, trial.latency_ms)

A name is imported when it is first used. Plugins import from `steadyhand.plugin`.
"""

from steadyhand.version import __version__

TYPE_CHECKING = False  # importing `typing` would cost more than the rest of this file
if TYPE_CHECKING:
    from steadyhand.api.result import RunResult, Trial
    from steadyhand.api.run import RunArguments, Source, compare, load, open_run, run, run_async
    from steadyhand.errors import ExitCode, FileError, SetupError, SteadyhandError, StoreError, UsageError
    from steadyhand.judging.rates import ScenarioRate
    from steadyhand.judging.run_comparison import Comparison
    from steadyhand.records.chat import Message
    from steadyhand.records.evaluation import EvaluationResult, Verdict
    from steadyhand.records.location import Problem
    from steadyhand.records.run import TrialRecord
    from steadyhand.records.scenario import Scenario
    from steadyhand.spec.load import Loaded

__all__ = [
    "Comparison",
    "EvaluationResult",
    "ExitCode",
    "FileError",
    "Loaded",
    "Message",
    "Problem",
    "RunArguments",
    "RunResult",
    "Scenario",
    "ScenarioRate",
    "SetupError",
    "Source",
    "SteadyhandError",
    "StoreError",
    "Trial",
    "TrialRecord",
    "UsageError",
    "Verdict",
    "__version__",
    "compare",
    "load",
    "open_run",
    "run",
    "run_async",
]

_HOMES = {
    "api.result": ("RunResult", "Trial"),
    "api.run": ("RunArguments", "Source", "compare", "load", "open_run", "run", "run_async"),
    "errors": ("ExitCode", "FileError", "SetupError", "SteadyhandError", "StoreError", "UsageError"),
    "judging.rates": ("ScenarioRate",),
    "judging.run_comparison": ("Comparison",),
    "records.chat": ("Message",),
    "records.evaluation": ("EvaluationResult", "Verdict"),
    "records.location": ("Problem",),
    "records.run": ("TrialRecord",),
    "records.scenario": ("Scenario",),
    "spec.load": ("Loaded",),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
