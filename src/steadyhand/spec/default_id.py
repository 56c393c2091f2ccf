"""The id of a scenario whose author gave it none."""

from __future__ import annotations

import re
from pathlib import PurePath

_ENDING = re.compile(r"(?:\.scenario)?(?:\.ya?ml|\.json)?\Z", re.IGNORECASE)


def default_id(file: str) -> str:
    """An id from a file's name: `Refund Flow.scenario.yaml` is `refund-flow`."""
    name = PurePath(file).name
    return slug(_ENDING.sub("", name))


def slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text.lower()).strip("-") or "scenario"
