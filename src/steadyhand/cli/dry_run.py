"""What a run would do, without doing it."""

from __future__ import annotations

from collections import Counter

import click

from steadyhand.batch.estimate import estimate
from steadyhand.compose.running import Run


def show_plan(run: Run) -> None:
    """One line per scenario or combination, then the sum."""
    counts = Counter(each.key.scenario_id for each in run.planned)
    for scenario_id, trials in counts.items():
        click.echo(f"{trials} x {scenario_id}" if trials > 1 else scenario_id)
    settings = run.settings
    found = estimate(
        run.planned,
        agent_of=lambda scenario: settings.agent(scenario).partition(":")[0],
        asks_judge=run.asks_judge,
        scores_rubric=lambda scenario: scenario.rubric is not None and settings.judge(scenario) is not None,
    )
    click.echo(f"would run {found}")
    click.echo(f"{settings.concurrency} trials at a time")
