"""Verbs of BMCs: discover, BIOS settings, power, trust."""
