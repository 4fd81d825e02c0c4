"""Flags in, exit code out; one file per verb."""
