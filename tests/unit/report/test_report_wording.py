import pytest

from steadyhand.judging.cost import CostSummary
from steadyhand.records.run import Spent
from steadyhand.report.wording import cost_line

AGENT = Spent(calls=1, input_tokens=900, output_tokens=100, cost=0.003)
JUDGE = Spent(calls=1, input_tokens=190, output_tokens=10, cost=0.0001)


@pytest.mark.parametrize(
    ("summary", "line"),
    [
        (CostSummary(), "no model calls"),
        (
            CostSummary(total=AGENT.plus(JUDGE), by_purpose={"agent": AGENT, "judge": JUDGE}),
            "2 model calls: 1200 tokens (agent 1000, judge 200), cost 0.0031",
        ),
        (
            CostSummary(total=AGENT, by_purpose={"agent": AGENT}, list_prices=True),
            "1 model call: 1000 tokens, cost 0.0030, at list prices of 2026-03",
        ),
        (
            CostSummary(total=AGENT.plus(Spent(calls=1, uncounted=1))),
            "2 model calls: at least 1000 tokens (1 not counted by the server), cost at least 0.0030",
        ),
        (CostSummary(total=Spent(calls=1, input_tokens=5, unpriced=1)), "1 model call: 5 tokens, cost unknown"),
        (
            CostSummary(total=Spent(calls=2, input_tokens=5, not_live=2)),
            "2 model calls: 5 tokens, cost 0.0000, 2 not live (free)",
        ),
    ],
)
def test_what_is_known_is_told_and_what_is_not_is_said(summary, line):
    assert cost_line(summary) == line
