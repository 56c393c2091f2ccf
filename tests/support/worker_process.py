"""The process of a worker, for `forked_child`."""

import steadyhand.compose.worker_child
from support.forked_child import main

__all__ = ["main", "steadyhand"]
