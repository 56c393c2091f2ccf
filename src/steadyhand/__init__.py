"""Steadyhand runs scenarios against AI agents and models and says whether they did the right thing, safely, in time."""

__version__ = "0.1.0"
