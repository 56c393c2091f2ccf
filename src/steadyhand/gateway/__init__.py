"""What agents that are not ours talk to: one HTTP server on loopback per run, one address per trial."""
