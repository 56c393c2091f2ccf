"""The viewer for recorded runs: a server on loopback, pages built from the report's parts, and labels."""
