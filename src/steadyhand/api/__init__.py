"""Run scenarios from Python, and read the results."""
