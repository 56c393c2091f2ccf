"""The gateway that external agents connect to: one HTTP server on loopback per run, one address per trial."""
