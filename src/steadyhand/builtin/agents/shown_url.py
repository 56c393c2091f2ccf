"""An address as reports may show it."""

from __future__ import annotations

import re


def shown_url(url: str) -> str:
    """Without its query, where people put keys."""
    return re.sub(r"\?[^#]*", "", url)
