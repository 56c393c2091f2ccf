"""A check of the triage scenario in Python."""

from __future__ import annotations

import json

WORDS = {"charge", "charged", "charges", "charging", "payment", "billed"}


def mentions_the_charge(reply: str) -> tuple[bool, str]:
    """Whether the summary speaks of the charge, and why."""
    said = json.loads(reply)["summary"].lower().replace(".", " ").replace(",", " ").split()
    found = sorted(WORDS.intersection(said))
    return bool(found), f"it says {', '.join(found)}" if found else "it does not say what was charged"
