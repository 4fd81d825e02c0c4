"""Verbs of profiles: capture, and the names of limits."""
