"""Runs in the ramdisk of a machine that is installed: with Python's standard library and nothing else of this program."""
