"""Verbs plan and deploy."""
