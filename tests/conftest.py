"""What holds for all tests."""

import signal

# A job in the background of a shell ignores interrupts from the start, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
