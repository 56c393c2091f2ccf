"""What makes a trial the trial it is, in short: a resume must not mix two of them in one record."""

from __future__ import annotations

import hashlib

import msgspec

from holdfast.compose.settings import ModelRef, Settings
from holdfast.records.scenario import Scenario


def fingerprint(scenario: Scenario, settings: Settings) -> str:
    """The digest of the scenario, a dash, and a digest of who is tested, who judges and where it runs."""
    config = settings.config(scenario)

    def known(ref: ModelRef | None) -> list[str] | None:
        if ref is None:
            return None
        provider = config.providers.get(ref.name.partition("/")[0])
        return [ref.name, str(ref.folder), (provider.base_url if provider else None) or ""]

    subject = [
        settings.agent(scenario),
        known(settings.model(scenario)),
        known(settings.judge(scenario)),
        known(settings.user_model(scenario)),
        settings.environment(scenario),
        settings.options.live,
    ]
    return f"{scenario.digest}-{hashlib.sha256(msgspec.json.encode(subject)).hexdigest()[:12]}"


def difference(before: str, now: str) -> str | None:
    """What changed between two fingerprints, in words; None when nothing did."""
    if before == now:
        return None
    if before.rpartition("-")[0] != now.rpartition("-")[0]:
        return "the scenario has changed"
    return "its model, agent, judge, user or environment has changed"
