"""Child processes that we start and communicate with: agents, and the workers of a run."""
