"""Run scenarios from Python, and read what they came to."""
