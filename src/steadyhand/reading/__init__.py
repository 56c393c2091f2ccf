"""A recorded run, read once: what it adds up to, and whether it can be relied on. Every output reads from here."""
