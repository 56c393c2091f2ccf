"""Agents that try to pass without doing the task: by the answer key, by another trial's workspace or address."""
