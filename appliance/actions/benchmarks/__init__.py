"""Verbs that measure: validate and its benchmarks."""
