"""Frozen data shapes shared by all rooms."""
