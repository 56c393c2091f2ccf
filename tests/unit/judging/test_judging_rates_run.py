import itertools

from steadyhand.errors import ExitCode
from steadyhand.judging.rates import RunSummary, exit_code, summarise
from steadyhand.records.evaluation import Verdict


def test_exit_code_of_every_mix_of_verdicts():
    for size in range(5):
        for mix in itertools.combinations(Verdict, size):
            if Verdict.FAILED in mix:
                expected = ExitCode.FAILED
            elif mix == (Verdict.PASSED,):
                expected = ExitCode.PASSED
            else:
                expected = ExitCode.UNDECIDED
            assert exit_code(mix) is expected, mix


def test_a_run_that_was_cut_short_is_not_passed():
    assert exit_code([Verdict.PASSED], planned=2) is ExitCode.UNDECIDED
    assert exit_code([Verdict.PASSED], planned=1) is ExitCode.PASSED
    assert exit_code([Verdict.FAILED], planned=2) is ExitCode.FAILED


def test_summary_counts():
    found = summarise({Verdict.PASSED: 3, Verdict.ERROR: 1}, planned=6)
    assert found == RunSummary(passed=3, error=1, not_run=2)
    assert found.total == 4
