"""Verb provision: installs an operating system on bare machines."""
