"""Shared by the verbs: gathers facts, plans, applies, and verifies."""
