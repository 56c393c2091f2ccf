"""Where somebody else's code raised, for the message about it."""

from __future__ import annotations

import traceback


def raised(error: BaseException) -> str:
    """What was raised, and the file and line it was raised at."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (raised at {frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
