"""The exit code for wrong usage, without loading the records that the whole enumeration leans on."""

USAGE = 2
