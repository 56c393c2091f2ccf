"""Processes that we start and talk to: agents that run apart from us, and the workers of a run."""
