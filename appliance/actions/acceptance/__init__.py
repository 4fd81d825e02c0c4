"""Verbs of acceptance: accept, waive, verify, and the parts of the hand-over."""
