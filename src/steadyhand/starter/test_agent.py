"""Run scenarios in your own tests. `pytest --steadyhand` runs all scenario files without such a test."""

from agent import reply


def test_refund(steadyhand):
    steadyhand.run("scenarios/refund.scenario.yaml", agent=reply).assert_passed()
