import itertools
from collections import Counter

from steadyhand.errors import ExitCode
from steadyhand.judging.rates import RunSummary, Tally, summarise
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
            assert summarise(Counter(mix)).exit_code is expected, mix


def exit_code(verdicts, planned=0):
    return Tally.of(Counter(verdicts), planned=planned).exit_code


def test_a_run_that_was_cut_short_is_not_passed():
    assert summarise({Verdict.PASSED: 1}, planned=2).exit_code is ExitCode.UNDECIDED
    assert summarise({Verdict.PASSED: 1}, planned=1).exit_code is ExitCode.PASSED
    assert summarise({Verdict.FAILED: 1}, planned=2).exit_code is ExitCode.FAILED


def test_summary_counts():
    found = summarise({Verdict.PASSED: 3, Verdict.ERROR: 1}, planned=6)
    assert found == RunSummary(passed=3, error=1, not_run=2)
    assert (found.finished, found.total, found.decided) == (4, 6, 3)
