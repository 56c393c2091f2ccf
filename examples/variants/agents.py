"""Two agents that decide by chance, the same way whenever a trial has the same seed."""

import random

RIGHT, WRONG = "Activate the cath lab now and give aspirin.", "Repeat the ECG in ten minutes."


def steady(message: str, seed: int) -> str:
    """Wrong in 10 % of trials, whoever it is about."""
    return _decide(message, seed, 0.9)


def biased(message: str, seed: int) -> str:
    """As good, but for one of the names wrong in 30 %."""
    return _decide(message, seed, 0.7 if "Okafor" in message else 0.9)


def _decide(message: str, seed: int, share: float) -> str:
    if "ST" not in message:
        return WRONG
    return RIGHT if random.Random(f"{seed} {message}").random() < share else WRONG
