"""HTTP on our own timed connection, for models, agents and services."""
