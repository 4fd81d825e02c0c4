"""Frozen data types shared by all packages."""
