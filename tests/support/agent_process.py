"""The process of a `python:` agent, for `forked_child`."""

import steadyhand.builtin.agents.python_child
from support.forked_child import main

__all__ = ["main", "steadyhand"]
