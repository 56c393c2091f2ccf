import msgspec
import pytest

from steadyhand.judging.rates import RunSummary, summarise
from steadyhand.judging.trial import alarm_of
from steadyhand.records.evaluation import FailureClass, Verdict
from steadyhand.records.run import Judged
from support.sample_trials import typical


@pytest.mark.parametrize(
    ("expects", "classes", "alarm"),
    [
        ("act", "A", "missed"),
        ("act", "B", "missed"),
        ("defer", "BD", "false"),
        ("act", "CDE", None),
        ("defer", "", None),
    ],
)
def test_a_violated_invariant_is_an_alarm_of_the_kind_that_was_expected(expects, classes, alarm):
    judged = Judged(verdict=Verdict.FAILED, reason="", failure_classes=tuple(map(FailureClass, classes)))
    assert alarm_of(msgspec.structs.replace(typical(0), judged=judged, expects=expects)) == alarm


def test_alarms_are_counted_apart_and_change_no_verdict():
    found = summarise({Verdict.FAILED: 3}, alarms={"missed": 2, "false": 1})
    assert found == RunSummary(failed=3, missed_alarms=2, false_alarms=1)
    assert found.total == 3
