"""The quick way of reading a record must give the same results as the slow one."""

from pathlib import Path

import pytest

from steadyhand.judging.cost import Prices, cost_of_trial, spent_on
from steadyhand.records.config import Price
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunHeader
from steadyhand.store.figures import read_figures
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import connect
from steadyhand.store.writer import RunWriter
from support import sample_run
from support.sample_trials import HEADER, typical

PRICES = Prices({"openai/gpt-x": Price(input=2.0, output=8.0)})


def record(folder: Path, trials, header: RunHeader = HEADER) -> RunReader:
    writer = RunWriter.create(folder, header)
    for each in trials:
        writer.append(each)
    writer.close()
    return RunReader.open(writer.path)


@pytest.fixture
def reader(tmp_path: Path) -> RunReader:
    return record(tmp_path, [*sample_run.TRIALS, *(typical(at) for at in range(10, 15))])


def test_figures_are_those_of_the_whole_trials(reader: RunReader):
    short, whole = list(read_figures(reader)), list(reader.trials())
    assert len(short) == len(whole) > 8
    for figures, trial in zip(short, whole, strict=True):
        assert (figures.key, figures.place, figures.judged) == (trial.key, trial.place, trial.judged)
        assert (figures.agent, figures.model) == (trial.agent, trial.model)
        assert [(check.type, check.name, check.path) for check in figures.checks] == [
            (check.type, check.name, check.place.path if check.place else "") for check in trial.evaluations
        ]
        assert [(check.judge, check.self_judged) for check in figures.checks] == [
            (check.judge and check.judge.model, bool(check.judge and check.judge.self_judged))
            for check in trial.evaluations
        ]


def test_calls_cost_what_the_whole_trial_cost(reader: RunReader):
    for figures, trial in zip(read_figures(reader), reader.trials(), strict=True):
        cost = cost_of_trial(trial, PRICES)
        spent = [spent_on(call, PRICES) for call in figures.calls]
        assert sum(each.cost for each in spent) == pytest.approx(cost.total.cost)
        assert all(each.cost_known for each in spent) == cost.complete


def test_a_damaged_trial_is_an_error_and_hides_no_other(tmp_path: Path):
    reader = record(tmp_path, [typical(at) for at in range(4)])
    connection = connect(reader.path, mode="rw")
    connection.execute(
        "UPDATE trial SET body = CAST(substr(body, 1, 40) || x'00ff' || substr(body, 43) AS BLOB) WHERE idx = 2"
    )
    connection.close()
    verdicts = [each.judged.verdict for each in read_figures(RunReader.open(reader.path))]
    assert verdicts == [Verdict.PASSED, Verdict.PASSED, Verdict.ERROR, Verdict.PASSED]
