"""Runs in the ramdisk of a machine during its installation, with only Python's standard library and itself."""
